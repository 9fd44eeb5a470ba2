#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <etna/device/error.h>
#include <etna/device/output_file.h>
#include <etna/dist/dist.h>
#include <etna/models/model_file.h>
#include <etna/train/progress.h>
#include <etna/train/settings.h>

#include "wikitext.h"

namespace {

using namespace wikitext;
using training::integers, training::SettingError, training::SettingList;

int failed(int code, const std::string& what) {
  // Not fmt::print, which throws where standard error cannot be written either.
  std::fputs(fmt::format("error: {}\n", training::printable_lines(what)).c_str(), stderr);
  return code;
}

template <typename... Errors>
bool is_one_of(const std::exception& error) {
  return ((dynamic_cast<const Errors*>(&error) != nullptr) || ...);
}

/// The exit code; README and --help list them.
int code_of(const std::exception& error) {
  if (is_one_of<SettingError, etna::io::OutputExists>(error)) return 2;
  if (is_one_of<training::NonFiniteLoss>(error)) return 6;
  if (is_one_of<etna::models::SuspiciousWeights>(error)) return 8;
  if (is_one_of<etna::DeviceError>(error)) return 3;
  if (is_one_of<etna::FormatError>(error)) return 4;
  if (is_one_of<etna::distributed::RankLost>(error)) return etna::distributed::kRankLostExit;
  return is_one_of<etna::OutOfMemory>(error) ? 5 : 1;
}

/// A sentence about the first argument that neither the program nor its command takes; empty where there is none.
std::string unknown_argument(const CLI::App& app) {
  std::vector<const CLI::App*> given{&app};
  for (const CLI::App* command : app.get_subcommands()) given.push_back(command);
  for (const CLI::App* command : given) {
    std::vector<std::string> names;
    for (const CLI::App* one : command->get_subcommands(nullptr)) names.push_back(one->get_name());
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& argument : command->remaining()) {
      const std::string nearest = training::nearest_name(argument.substr(0, argument.find('=')), names);
      return fmt::format("'{}' is no argument of wikitext{}; {}", argument,
                         command == &app ? "" : " " + command->get_name(),
                         nearest.empty() ? "--help lists them" : fmt::format("did you mean {}?", nearest));
    }
  }
  return "";
}

/// A number with its default in --help.
template <typename T>
CLI::Option* number(CLI::App* app, const char* name, T& value, const training::NumberRange& range, const char* help) {
  const CLI::Validator check([range](std::string& text) { return range.refuse(text); }, "(" + range.str() + ")", "");
  return app->add_option(name, value, help)->check(check)->capture_default_str();
}

/// A file that the command writes.
CLI::Option* output(CLI::App* app, const char* name, std::string& file, const std::string& help) {
  return app->add_option(name, file, help + etna::io::kReplacesOnlyOwn);
}

void add_data(CLI::App* app, DataOptions& o) {
  auto* folder = app->add_option("--data", o.data,
                                 "folder of WikiText, or one that etna data prepare wrote (default: $ETNA_DATA, else "
                                 "the\nembedded corpus)");
  app->add_option("--text", o.text, "any UTF-8 text file, or folder of them, instead")->excludes(folder);
}

void add_device(CLI::App* app, DeviceOptions& o) {
  app->add_option("--device", o.device, "auto, gpu, cpu, vulkan or vulkan:N (default: $ETNA_DEVICE, else auto)");
  app->add_flag("--strict", o.strict,
                "refuse what would silently run on the CPU: ops without a kernel for the device, and a software "
                "rasterizer that is not named with its number");
}

/// @param only for these; empty: for all
void add_setting_options(CLI::App* app, SettingList& list, const std::vector<std::string>& only = {}) {
  for (const auto& [name, help] : list.described()) {
    if (!only.empty() && std::find(only.begin(), only.end(), name) == only.end()) continue;
    std::string option = "--" + name;  // --lr-floor for lr_floor
    std::replace(option.begin(), option.end(), '_', '-');
    const auto given = [&list, name = name, option](const std::string& text) {
      try {
        list.set(name, text, option);
      } catch (const SettingError& error) {
        throw CLI::ValidationError(error.what());
      }
    };
    app->add_option_function<std::string>(option + (name == "model" ? ",--arch" : ""), given, help)->group("Settings");
  }
}

constexpr const char *kPreset = "model and numbers: demo, tiny, small, gpt2, best, fast, best_cpu, or a TOML file",
                     *kResident = "upload the corpus once and cut batches from it on the device",
                     *kRun = "the --out folder of a training run, or a checkpoint",
                     *kForce = "replace files of outputs that something else wrote";
const std::vector<std::string> kPrecisions = {"f32", "f16", "bf16"}, kRecipes = {"best", "fast", "best_cpu"};

void add_receipt(CLI::App* app, DeviceOptions& o) {
  output(app, "--receipt", o.receipt,
         "write what ran to this file: device, kernels, fallbacks, hashes of the files (etna receipt check)");
}

void add_train(CLI::App* app, TrainOptions& o, SettingList& list) {
  app->footer(
      "Settings come from the command line, else the environment (ETNA_WIKITEXT_LR=1e-3), else --config, else "
      "--preset.");
  add_data(app, o);
  add_device(app, o);
  auto* preset = app->add_option("--preset", o.preset, kPreset)->capture_default_str();
  app->add_option("--recipe", o.preset,
                  "a preset made for a low perplexity on WikiText-2: best, fast or best_cpu (docs/recipes.md)")
      ->check(CLI::IsMember(kRecipes))
      ->excludes(preset);
  app->add_option("--config", o.config, "a TOML file of settings");
  app->add_flag("--print-config", o.print_config, "print all settings and where they come from, and end");
  auto* out = app->add_option(
      "--out", o.out, "folder for checkpoints, metrics and the report (a folder that holds a run already is refused)");
  auto* resume = app->add_flag("--resume", o.resume, "go on with the run in --out")->needs(out);
  app->add_flag("--force", o.force, "remove the run in --out first, and replace files of outputs")->excludes(resume);
  add_setting_options(app, list);
  app->add_flag("--eager", o.eager, "run op by op instead of replaying a captured step");
  app->add_flag("!--no-forecast", o.forecast, "do not measure beforehand how much memory it will take");
  app->add_flag("--resident", o.resident, kResident);
  auto* distributed =
      app->add_flag("--distributed", o.distributed,
                    "train with all processes that etna launch, mpirun or srun started: each takes its part of the "
                    "batch, and a GPU of its own");
  app->add_option(
         "--zero", o.zero,
         "what the processes divide among them to save memory: 1 the optimizer's state, 2 gradients too, 3 the\n"
         "weights of blocks too")
      ->check(CLI::IsMember({1, 2, 3}))
      ->needs(distributed);
  app->add_option("--meet", o.meet,
                  "where the processes meet: HOST:PORT of the first one, or a file that all see (default: $ETNA_MEET, "
                  "else the launcher says it)")
      ->needs(distributed);
  app->add_option("--late-seconds", o.late_seconds,
                  "after how long a process that does not come to a collective counts as lost; longer than a "
                  "validation\n(default: $ETNA_LATE_SECONDS, else 600)")
      ->check(CLI::PositiveNumber)
      ->needs(distributed);
  app->add_flag("--fsdp{3}", o.zero, "--zero 3: fully sharded data parallel")
      ->needs(distributed)
      ->excludes("--zero")
      ->disable_flag_override();
  output(app, "--json", o.json, "also write the summary to this file");
  add_receipt(app, o);
  app->add_flag("!--no-eval", o.evaluate, "skip validations, the evaluation and the passage");
  auto* profile =
      app->add_flag("--profile", o.profile, "profile some steps after the first five and print where their time went");
  number(app, "--profile-steps", o.profile_steps, integers(1), "how many")->needs(profile);
  app->add_flag("--profile-exact", o.profile_exact, "time every dispatch by itself, which makes the steps slower")
      ->needs(profile);
  output(app, "--trace", o.trace, "also write them to this file: a Chrome trace, or a picture where it ends in .svg")
      ->needs(profile);
}

void add_evaluate(CLI::App* app, EvaluateOptions& o) {
  add_data(app, o);
  add_device(app, o);
  app->add_option("--run", o.run, kRun)->required();
  app->add_option("--precision", o.precision, "what products compute in: f32, f16 (training scales its loss) or bf16")
      ->check(CLI::IsMember(kPrecisions))
      ->capture_default_str();
  auto* cache =
      app->add_flag("--cache", o.with_cache, "also measure it with a cache of the last words (Grave et al. 2017)");
  number(app, "--cache-window", o.cache.window, integers(1, 1'000'000), "words that the cache remembers")->needs(cache);
  number(app, "--cache-theta", o.cache.theta, {0, 1000}, "how sharply it prefers words in like contexts")->needs(cache);
  number(app, "--cache-lambda", o.cache.lambda, {0, 0.999}, "its share of a probability")->needs(cache);
  output(app, "--json", o.json, "also write the result to this file");
  add_receipt(app, o);
  app->add_flag("--force", o.force, kForce);
}

void add_generate(CLI::App* app, GenerateOptions& o) {
  add_device(app, o);
  app->add_option("--run", o.run, kRun)->required();
  number(app, "--words", o.words, integers(1), "how many to write at a time (of byte pairs: tokens)");
  number(app, "--temperature", o.temperature, {.least = 0}, "0: always the likeliest token");
  number(app, "--top-k", o.top_k, integers(0), "draw from the likeliest K; 0: from all");
  app->add_option("--seed", o.seed, "of the draws")->capture_default_str();
}

void add_compare(CLI::App* app, CompareOptions& o, SettingList& list) {
  add_data(app, o);
  app->add_option("--devices", o.devices, "devices, the first is the yardstick")->delimiter(',')->capture_default_str();
  app->add_option("--preset", o.preset, kPreset)->capture_default_str();
  add_setting_options(app, list, {"batch", "seed", "accumulation"});
  app->add_option("--precision", o.precisions, "f32, f16 or bf16, several by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(kPrecisions));
  number(app, "--steps", o.steps, integers(1), "steps on each");
  app->add_flag("--epoch", o.epoch, "captured runs train a whole epoch, so that its time is measured");
  app->add_flag("--resident", o.resident, kResident);
  output(app, "--picture", o.picture, "also draw the table as an SVG file");
  output(app, "--json", o.json, "also write every run to this file");
  app->add_flag("--force", o.force, kForce);
}

}  // namespace

int main(int argc, char** argv) {
  etna::io::open_standard_streams();
  CLI::App app{"Trains language models on WikiText, on the CPU or a Vulkan GPU."};
  app.footer(
      "Exit codes: 1 losses differ (compare) or another error, 2 usage, 3 device, 4 data or checkpoint, 5 memory,\n"
      "6 the loss became NaN or infinite, 8 suspicious weights, 9 another process of the group ended, 130 stopped by "
      "Ctrl-C.");
  app.set_version_flag("--version", "wikitext, of Etna " ETNA_VERSION);
  app.require_subcommand(1);
  app.allow_windows_style_options(false);  // a path may begin with a slash
  int code = 0;
  const auto command = [&](const char* name, const char* help, std::function<int()> run) {
    CLI::App* added = app.add_subcommand(name, help);
    added->callback([&code, run = std::move(run)] { code = run(); });
    return added;
  };
  Settings settings;
  SettingList list;
  settings.add_to(list);
  TrainOptions train;
  if (argc > 0) train.program = argv[0];
  EvaluateOptions eval;
  train.command = eval.command = {argv, argv + argc};
  GenerateOptions writing, chat;
  CompareOptions compare;
  add_train(command("train", "train, evaluate and write a passage", [&] { return run_train(train, settings, list); }),
            train, list);
  add_evaluate(command("eval", "perplexity of a checkpoint", [&] { return run_evaluate(eval); }), eval);
  CLI::App* generate = command("generate", "let a checkpoint write", [&] { return run_generate(writing); });
  generate->add_option("--prompt", writing.prompt, "words to go on from");
  add_generate(generate, writing);
  add_generate(command("chat", "let a checkpoint go on with what you type", [&] { return run_chat(chat); }), chat);
  add_compare(command("compare", "train the same steps on several devices, op by op and captured",
                      [&] { return run_compare(compare, settings, list); }),
              compare, list);
  try {
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      return failed(1, "standard output cannot be written; is the disk full?");
    return code;
  } catch (const CLI::ParseError& error) {
    if (const std::string unknown = unknown_argument(app); error.get_exit_code() != 0 && !unknown.empty())
      return failed(2, unknown);
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::bad_alloc&) {
    return failed(5, "the host has no memory left; try a smaller --preset or --batch");
  } catch (const etna::distributed::RankLost& error) {
    // All ranks know it; one says it.
    return etna::distributed::reports_failure() ? failed(code_of(error), error.what()) : code_of(error);
  } catch (const std::exception& error) {
    return failed(code_of(error), error.what());
  }
}
