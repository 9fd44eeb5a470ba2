#include <algorithm>
#include <chrono>
#include <map>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/error.h>
#include <etna/device/memory.h>
#include <etna/device/output_file.h>
#include <etna/device/profile/profile.h>
#include <etna/device/profile/profiler.h>
#include <etna/dist/dist.h>
#include <etna/train/progress.h>

#include "arguments.h"
#include "bench.h"
#include "commands.h"
#include "generation.h"
#include "output.h"
#include "ranks.h"
#include "receipt_option.h"
#include "text_answer.h"

namespace etna::cli {
namespace {

struct ModelBenchOptions : ModelOptions {
  std::int64_t prompt = 512, tokens = 128, sequences = 1, repeat = 3;
  bool cpu = true;  ///< also the CPU, where the device is another
  std::string json;
};

using training::printable;

constexpr const char* kBench = "etna bench";
/// Tokens that are decoded while ops are timed.
constexpr std::int64_t kProfiled = 16;

using OpTimes = std::map<std::string, double>;  ///< milliseconds

struct Speed {
  Device device;
  double load_seconds = 0;
  double prompt = 0, decode = 0;       ///< tokens a second, medians
  models::GenerationTimes times = {};  ///< of all counted runs
  OpTimes of_prompt = {}, of_token = {};
};

/// Tokens that are no text, but different ones.
std::vector<std::int32_t> some_tokens(std::int64_t count, std::int64_t vocabulary, std::uint32_t state) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(state >> 8) % vocabulary));
  }
  return tokens;
}

Speed measure(ModelBenchOptions options, const std::string& device, const training::Interrupt& interrupt) {
  options.device = device;
  if (options.context == 0) options.context = options.prompt + options.tokens + kProfiled + 1;
  LoadedModel model = open_model(options, options.sequences, false);
  if (!leads(model)) return {};
  if (options.prompt > model.room()) {
    throw std::invalid_argument(
        fmt::format("-p asks for a prompt of {} tokens, {} fit at once", options.prompt, model.room()));
  }
  models::Generator& generator = *model.generator;
  const std::int64_t vocabulary = model.model.decoder->config.vocabulary;
  const auto generate = [&](std::int64_t prompt, std::int64_t tokens, std::uint32_t seed, std::int64_t sequences) {
    const models::GenerationTimes before = generator.times();
    std::vector<models::Generator::Id> ids;
    for (std::int64_t i = 0; i < sequences; ++i)
      ids.push_back(generator.join(some_tokens(prompt, vocabulary, seed * 1000 + static_cast<std::uint32_t>(i)),
                                   {.max_tokens = tokens, .sampling = {.temperature = 0}}));
    while (!interrupt.requested() && !generator.step().empty()) {}
    for (const models::Generator::Id id : ids) generator.leave(id);
    models::GenerationTimes took = generator.times();
    took.prompt_tokens -= before.prompt_tokens, took.tokens -= before.tokens;
    took.guessed -= before.guessed, took.guessed_right -= before.guessed_right;
    took.prompt_seconds -= before.prompt_seconds, took.decode_seconds -= before.decode_seconds;
    return took;
  };
  Speed speed{.device = model.device, .load_seconds = model.seconds, .times = {}};
  std::vector<double> prompts, decodes;
  // The first run compiles and captures.
  for (std::int64_t i = 0; i <= options.repeat && !interrupt.requested(); ++i) {
    const models::GenerationTimes prompt = generate(options.prompt, 1, static_cast<std::uint32_t>(i), 1);
    const models::GenerationTimes decode =
        generate(1, options.tokens, static_cast<std::uint32_t>(i), options.sequences);
    if (i == 0) continue;
    prompts.push_back(static_cast<double>(prompt.prompt_tokens) / prompt.prompt_seconds);
    decodes.push_back(static_cast<double>(decode.tokens) / decode.decode_seconds);
    speed.times.guessed += decode.guessed, speed.times.guessed_right += decode.guessed_right;
  }
  if (interrupt.requested()) return speed;
  speed.prompt = median(prompts);
  speed.decode = median(decodes);
  const auto profiled = [&](std::int64_t prompt, std::int64_t tokens, std::int64_t sequences, OpTimes& times) {
    profile::Session session;
    const models::GenerationTimes took = generate(prompt, tokens, 1, sequences);
    const auto count = static_cast<double>(tokens == 1 ? 1 : std::max<std::int64_t>(1, took.tokens));
    for (const profile::OpTime& op : profile::summarize(session.stop()).ops)
      times[op.name] += static_cast<double>(op.all_ns()) / 1e6 / count;
  };
  profiled(options.prompt, 1, 1, speed.of_prompt);
  profiled(1, kProfiled, options.sequences, speed.of_token);
  return speed;
}

/// "2 x cpu" of a model that two processes share.
std::string place_of(Device device) {
  const int ranks = distributed::size();
  return ranks > 1 ? fmt::format("{} x {}", ranks, device.str()) : device.str();
}

std::string op_table(const char* title, const std::vector<Speed>& speeds, OpTimes Speed::*times) {
  std::map<std::string, std::vector<double>> rows;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    for (const auto& [op, ms] : speeds[i].*times) {
      auto& row = rows[op];
      row.resize(speeds.size());
      row[i] = ms;
    }
  }
  std::vector<std::pair<std::string, std::vector<double>>> order(rows.begin(), rows.end());
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second.back() > b.second.back(); });
  std::string text = fmt::format("{:<24}", title);
  for (const Speed& speed : speeds) text += fmt::format("{:>12}", speed.device.str());
  text += speeds.size() > 1 ? fmt::format("{:>10}\n", "speed-up") : "\n";
  for (auto& [op, ms] : order) {
    ms.resize(speeds.size());
    text += fmt::format("{:<24}", op);
    for (const double value : ms) text += fmt::format("{:>12.3f}", value);
    if (ms.size() > 1 && ms[0] > 0 && ms[1] > 0) text += fmt::format("{:>10.1f}", ms[0] / ms[1]);
    text += "\n";
  }
  return text;
}

int bench_model(const ModelBenchOptions& options) try {
  const bool first = distributed::rank() == 0, divided = distributed::is_distributed();
  const auto receipt = on_all_ranks([&]() -> std::unique_ptr<training::Receipt> {
    if (!first) return nullptr;
    io::require_output({"--json", options.json, json_marks(kBench)}, options.force, models_of(options));
    return begin_receipt(options);
  });
  training::Interrupt interrupt;
  const Device device = on_all_ranks([&] { return device_of(options); });
  if (receipt) receipt->device(options.device, device);
  std::vector<Speed> speeds;
  if (!device.is_cpu() && options.cpu && !divided) speeds.push_back(measure(options, "cpu", interrupt));
  if (!interrupt.requested() || divided)
    speeds.push_back(measure(options, divided ? options.device : device.str(), interrupt));
  if (!first) return 0;
  if (interrupt.requested()) return interrupt.exit_code();
  std::string text;
  nlohmann::json json;
  for (const Speed& speed : speeds) {
    text += fmt::format("{:<10} prompt of {}: {:.1f} tokens/s   decode{}: {:.1f} tokens/s   loaded in {:.2f} s\n",
                        place_of(speed.device), options.prompt, speed.prompt,
                        options.sequences > 1 ? fmt::format(" of {} sequences", options.sequences) : "", speed.decode,
                        speed.load_seconds);
    if (speed.times.guessed > 0) text += guesses_line(speed.times) + "\n";
    json[speed.device.str()] = {{kCommandKey, kBench},
                                {"prompt_tokens", options.prompt},
                                {"sequences", options.sequences},
                                {"ranks", distributed::size()},
                                {"prompt_tokens_per_second", speed.prompt},
                                {"decode_tokens_per_second", speed.decode},
                                {"guessed", speed.times.guessed},
                                {"guessed_right", speed.times.guessed_right},
                                {"load_seconds", speed.load_seconds},
                                {"op_ms_per_prompt", speed.of_prompt},
                                {"op_ms_per_token", speed.of_token}};
  }
  print_all(text + "\n" + op_table("ms of a prompt, by op", speeds, &Speed::of_prompt) + "\n" +
            op_table("ms a token, by op", speeds, &Speed::of_token));
  if (receipt) {
    for (const Speed& speed : speeds) {
      receipt->number(speed.device.str() + " tokens_read_per_second", speed.prompt);
      receipt->number(speed.device.str() + " tokens_written_per_second", speed.decode);
    }
    receipt->write(options.receipt);
  }
  if (!options.json.empty()) io::write_file(options.json, json.dump(2) + "\n");
  return 0;
} catch (const std::invalid_argument& error) {
  print_error(error.what());
  return 2;
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
}

}  // namespace

Command add_bench(CLI::App& app) {
  const auto options = std::make_shared<ModelBenchOptions>();
  CLI::App* bench = app.add_subcommand("bench", "How fast a language model reads and writes");
  add_model_options(*bench, *options);
  add_gpus_option(*bench, *options);
  add_guess_options(*bench, *options);
  bench->add_option("-p,--prompt", options->prompt, "tokens to read at once")
      ->check(number_in(training::integers(1)))
      ->capture_default_str();
  bench->add_option("-n,--tokens", options->tokens, "tokens to write one by one")
      ->check(number_in(training::integers(1)))
      ->capture_default_str();
  bench
      ->add_option("--sequences", options->sequences,
                   "sequences that are written at once; their tokens are counted together")
      ->check(number_in(training::integers(1, 1024)))
      ->capture_default_str();
  bench->add_option("--repeat", options->repeat, "runs, after one that does not count; medians are shown")
      ->check(number_in(training::integers(1, 1000)))
      ->capture_default_str();
  bench->add_flag("--no-cpu{false}", options->cpu, "leave out the CPU, which one GPU is compared with");
  add_output(*bench, "--json", options->json, "also write the figures to this file", options->force);
  add_receipt_option(*bench, options->receipt, options->force);
  return {bench, [options] { return run_on_ranks(*options, [options] { return bench_model(*options); }); }};
}

}  // namespace etna::cli
