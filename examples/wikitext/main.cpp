#include <cstdio>
#include <exception>
#include <new>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <etna/device/error.h>
#include <etna/device/internal/os/process.h>
#include <etna/device/internal/output_file.h>
#include <etna/models/suspicious_weights.h>
#include <etna/train/internal/nearest_name.h>
#include <etna/train/internal/number_range.h>

#include "commands.h"
#include "loss_meter.h"

namespace {

namespace training = etna::training;

/// Exit codes by kind of failure; README and --help list them.
enum Exit { kOther = 1, kUsage = 2, kDevice = 3, kData = 4, kMemory = 5, kNonFinite = 6, kSuspicious = 8 };

int failed(Exit code, const char* what) {
  // Not fmt::print, which throws where standard error cannot be written either.
  std::fputs(fmt::format("error: {}\n", wikitext::printable_lines(what)).c_str(), stderr);
  return code;
}

void add_data_options(CLI::App& app, wikitext::DataOptions& data) {
  auto* folder =
      app.add_option("--data", data.data,
                     "folder of WikiText, or one that etna data prepare wrote (default: $ETNA_DATA, else the\n"
                     "embedded corpus)");
  app.add_option("--text", data.text, "any UTF-8 text file, or folder of them, instead")->excludes(folder);
}

constexpr const char* kResidentHelp = "upload the corpus once and cut batches from it on the device";
constexpr const char* kPresetHelp = "model and numbers: demo, tiny, small, gpt2, best, fast, best_cpu, or a TOML file";
constexpr const char* kRunHelp = "the --out folder of a training run, or a checkpoint";
constexpr const char* kPrecisionHelp = "what products compute in: f32, f16 (training scales its loss) or bf16";
constexpr const char* kDeviceHelp = "auto, gpu, cpu, vulkan or vulkan:N (default: $ETNA_DEVICE, else auto)";
constexpr const char* kForceHelp = "replace files of outputs that something else wrote";
constexpr const char* kStrictHelp =
    "refuse what would silently run on the CPU: ops without a kernel for the device, and a software rasterizer that is "
    "not named with its number";

/// The help of an option that names an output file.
std::string output(const std::string& help) { return help + etna::io::kReplacesOnlyOwn; }

CLI::Validator number_in(const training::NumberRange& range) {
  return {[range](std::string& text) { return range.refuse(text); }, "(" + range.str() + ")", ""};
}

/// A sentence about the first argument that neither the program nor its command takes; empty where there is none.
std::string unknown_argument(const CLI::App& app) {
  std::vector<const CLI::App*> given{&app};
  for (const CLI::App* command : app.get_subcommands()) given.push_back(command);
  for (const CLI::App* command : given) {
    std::vector<std::string> names;
    for (const CLI::App* one : command->get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(one->get_name());
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& argument : command->remaining()) {
      const std::string nearest = training::nearest_name(argument.substr(0, argument.find('=')), names);
      const std::string of = command == &app ? "" : " " + command->get_name();
      return fmt::format("'{}' is no argument of wikitext{}; {}", argument, of,
                         nearest.empty() ? "--help lists them" : fmt::format("did you mean {}?", nearest));
    }
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  using namespace wikitext;
  etna::os::open_standard_streams();
  CLI::App app{"Trains language models on WikiText, on the CPU or a Vulkan GPU."};
  app.footer(
      "Exit codes: 1 losses differ (compare) or another error, 2 usage, 3 device, 4 data or checkpoint, 5 memory,\n"
      "6 the loss became NaN or infinite, 8 suspicious weights, 130 stopped by Ctrl-C.");
  app.set_version_flag("--version", "wikitext, of Etna " ETNA_VERSION);
  app.require_subcommand(1);
  app.allow_windows_style_options(false);  // a path may begin with a slash
  int code = 0;
  auto precisions = CLI::IsMember({"f32", "f16", "bf16"});

  TrainOptions train;
  if (argc > 0) train.program = argv[0];
  Settings settings;
  SettingList list(settings);
  CLI::App* train_command = app.add_subcommand("train", "train, evaluate and write a passage");
  train_command->footer(
      "Settings come from the command line, else the environment (ETNA_WIKITEXT_LR=1e-3), else --config, else "
      "--preset.");
  add_data_options(*train_command, train.data);
  train_command->add_option("--device", train.device, kDeviceHelp);
  train_command->add_flag("--strict", train.strict, kStrictHelp);
  auto* preset = train_command->add_option("--preset", train.preset, kPresetHelp)->capture_default_str();
  train_command
      ->add_option("--recipe", train.preset,
                   "a preset made for a low perplexity on WikiText-2: best, fast or best_cpu (docs/recipes.md)")
      ->check(CLI::IsMember({"best", "fast", "best_cpu"}))
      ->excludes(preset);
  train_command->add_option("--config", train.config, "a TOML file of settings");
  train_command->add_flag("--print-config", train.print_config, "print all settings and where they come from, and end");
  auto* out = train_command->add_option("--out", train.out,
                                        "folder for checkpoints, metrics and the report (a folder that holds a run "
                                        "already is refused)");
  auto* resume = train_command->add_flag("--resume", train.resume, "go on with the run in --out")->needs(out);
  train_command->add_flag("--force", train.force, "remove the run in --out first, and replace files of outputs")
      ->excludes(resume);
  list.add_options(*train_command);
  train_command->add_flag("--eager", train.eager, "run op by op instead of replaying a recorded step");
  train_command->add_flag("!--no-forecast", train.forecast, "do not measure beforehand how much memory it will take");
  train_command->add_flag("--resident", train.resident, kResidentHelp);
  train_command->add_option("--json", train.json, output("also write the summary to this file"));
  train_command->add_flag("!--no-eval", train.evaluate, "skip validations, the evaluation and the passage");
  auto* profile = train_command->add_flag("--profile", train.profile,
                                          "profile some steps after the first five and print where their time went");
  train_command->add_option("--profile-steps", train.profile_steps, "how many")
      ->check(number_in(training::integers(1)))
      ->capture_default_str()
      ->needs(profile);
  train_command
      ->add_flag("--profile-exact", train.profile_exact, "time every dispatch by itself, which makes the steps slower")
      ->needs(profile);
  train_command
      ->add_option("--trace", train.trace,
                   output("also write them to this file: a Chrome trace, or a picture where it ends in .svg"))
      ->needs(profile);
  train_command->callback([&] { code = run_train(train, settings, list); });

  EvaluateOptions evaluate;
  CLI::App* eval_command = app.add_subcommand("eval", "perplexity of a checkpoint");
  add_data_options(*eval_command, evaluate.data);
  eval_command->add_option("--device", evaluate.device, kDeviceHelp);
  eval_command->add_flag("--strict", evaluate.strict, kStrictHelp);
  eval_command->add_option("--run", evaluate.run, kRunHelp)->required();
  eval_command->add_option("--precision", evaluate.precision, kPrecisionHelp)->check(precisions)->capture_default_str();
  auto* cache = eval_command->add_flag("--cache", evaluate.with_cache,
                                       "also measure it with a cache of the last words (Grave et al. 2017)");
  eval_command->add_option("--cache-window", evaluate.cache.window, "words that the cache remembers")
      ->check(number_in(training::integers(1, 1'000'000)))
      ->capture_default_str()
      ->needs(cache);
  eval_command->add_option("--cache-theta", evaluate.cache.theta, "how sharply it prefers words in like contexts")
      ->check(number_in({.least = 0, .most = 1000}))
      ->capture_default_str()
      ->needs(cache);
  eval_command->add_option("--cache-lambda", evaluate.cache.lambda, "its share of a probability")
      ->check(number_in({.least = 0, .most = 0.999}))
      ->capture_default_str()
      ->needs(cache);
  eval_command->add_option("--json", evaluate.json, output("also write the result to this file"));
  eval_command->add_flag("--force", evaluate.force, kForceHelp);
  eval_command->callback([&] { code = run_evaluate(evaluate); });

  GenerateOptions generate, chat;
  CLI::App* generate_command = app.add_subcommand("generate", "let a checkpoint write");
  CLI::App* chat_command = app.add_subcommand("chat", "let a checkpoint go on with what you type");
  generate_command->add_option("--prompt", generate.prompt, "words to go on from");
  for (auto [command, options] : {std::pair(generate_command, &generate), std::pair(chat_command, &chat)}) {
    command->add_option("--device", options->device, kDeviceHelp);
    command->add_flag("--strict", options->strict, kStrictHelp);
    command->add_option("--run", options->run, kRunHelp)->required();
    command->add_option("--words", options->sampling.words, "how many to write at a time (of byte pairs: tokens)")
        ->check(number_in(training::integers(1)))
        ->capture_default_str();
    command->add_option("--temperature", options->sampling.temperature, "0: always the likeliest token")
        ->check(number_in({.least = 0}))
        ->capture_default_str();
    command->add_option("--top-k", options->sampling.top_k, "draw from the likeliest K; 0: from all")
        ->check(number_in(training::integers(0)))
        ->capture_default_str();
    command->add_option("--seed", options->sampling.seed, "of the draws")->capture_default_str();
  }
  generate_command->callback([&] { code = run_generate(generate); });
  chat_command->callback([&] { code = run_chat(chat); });

  CompareOptions compare;
  CLI::App* compare_command =
      app.add_subcommand("compare", "train the same steps on several devices, op by op and captured");
  add_data_options(*compare_command, compare.data);
  compare_command->add_option("--devices", compare.devices, "devices, the first is the yardstick")
      ->delimiter(',')
      ->capture_default_str();
  compare_command->add_option("--preset", compare.preset, kPresetHelp)->capture_default_str();
  Settings compared;
  SettingList compared_list(compared);
  compared_list.add_options(*compare_command, {"batch", "seed", "accumulation"});
  compare_command->add_option("--precision", compare.precisions, "f32, f16 or bf16, several by commas")
      ->delimiter(',')
      ->check(precisions);
  compare_command->add_option("--steps", compare.steps, "steps on each")
      ->check(number_in(training::integers(1)))
      ->capture_default_str();
  compare_command->add_flag("--epoch", compare.epoch,
                            "captured runs train a whole epoch, so that its time is measured");
  compare_command->add_flag("--resident", compare.resident, kResidentHelp);
  compare_command->add_option("--picture", compare.picture, output("also draw the table as an SVG file"));
  compare_command->add_option("--json", compare.json, output("also write every run to this file"));
  compare_command->add_flag("--force", compare.force, kForceHelp);
  compare_command->callback([&] { code = run_compare(compare, compared, compared_list); });

  try {
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      return failed(kOther, "standard output cannot be written; is the disk full?");
    return code;
  } catch (const CLI::ParseError& error) {
    if (const std::string unknown = unknown_argument(app); error.get_exit_code() != 0 && !unknown.empty())
      return failed(kUsage, unknown.c_str());
    return app.exit(error) == 0 ? 0 : kUsage;
  } catch (const SettingError& error) {
    return failed(kUsage, error.what());
  } catch (const etna::io::OutputExists& error) {
    return failed(kUsage, error.what());
  } catch (const NonFiniteLoss& error) {
    return failed(kNonFinite, error.what());
  } catch (const etna::models::SuspiciousWeights& error) {
    return failed(kSuspicious, error.what());
  } catch (const etna::DeviceError& error) {
    return failed(kDevice, error.what());
  } catch (const etna::FormatError& error) {
    return failed(kData, error.what());
  } catch (const etna::OutOfMemory& error) {
    return failed(kMemory, error.what());
  } catch (const std::bad_alloc&) {
    return failed(kMemory, "the host has no memory left; try a smaller --preset or --batch");
  } catch (const std::exception& error) {
    return failed(kOther, error.what());
  }
}
