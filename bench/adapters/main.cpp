#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/quant/block_format.h>

#include "devices.h"

/// Times what stacked adapters cost: tokens a second of sequences that have one each, as a ratio to those of a model
/// without. Rounds of all models take turns, so that each ratio is of one round.
using namespace etna;

namespace {

struct AdapterBench {
  std::int64_t width = 512, layers = 8, sequences = 8, tokens = 64;
  std::string format = "F32";
};

struct Stacked {
  std::int64_t adapters, rank;
  std::unique_ptr<models::Decoder> model;
  std::unique_ptr<models::Generator> generator;
  std::vector<double> speeds = {};
};

Stacked stacked_model(const AdapterBench& shape, std::int64_t adapters, std::int64_t rank, Device device) {
  models::DecoderConfig config = models::decoder_config("llama", {.vocabulary = 4096,
                                                                  .context = 512,
                                                                  .width = shape.width,
                                                                  .layers = shape.layers,
                                                                  .heads = shape.width / 64,
                                                                  .feed_forward = shape.width * 11 / 4});
  auto model = std::make_unique<models::Decoder>(config);
  const NoGrad no_grad;
  for (models::DecoderBlock& block : model->blocks)
    for (const models::NamedProjection& own : block.projections())
      if (shape.format != "F32")
        own.layer->freeze(quantize(own.layer->weight.detach(), quant::format_named(shape.format)));
  model->to(device);
  model->eval();
  for (std::int64_t i = 0; i < adapters; ++i) {
    for (models::DecoderBlock& block : model->blocks)
      for (const models::NamedProjection& own : block.projections())
        own.layer->stack_adapter(i, randn({rank, own.layer->in}) * 0.01, randn({own.layer->out, rank}) * 0.01, 1);
  }
  model->stacked_adapters = adapters;
  auto generator = std::make_unique<models::Generator>(
      *model, models::GeneratorOptions{.device = device,
                                       .slots = shape.sequences,
                                       .cache = {.tokens = shape.sequences * config.context, .reuse_prefixes = false}});
  return {adapters, rank, std::move(model), std::move(generator)};
}

/// Tokens a second while all sequences are decoded.
double speed_of(Stacked& stacked, const AdapterBench& shape) {
  models::Generator& generator = *stacked.generator;
  for (std::int64_t i = 0; i < shape.sequences; ++i) {
    const std::vector<std::int32_t> prompt(16, static_cast<std::int32_t>(i + 1));
    const std::int64_t adapter = stacked.adapters == 0 ? -1 : i % stacked.adapters;
    generator.begin(prompt, {.max_tokens = shape.tokens, .sampling = {.temperature = 0}, .adapter = adapter});
  }
  generator.step();
  const auto start = std::chrono::steady_clock::now();
  std::size_t count = 0;
  while (generator.busy()) count += generator.step().size();
  return static_cast<double>(count) / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure_adapters(const AdapterBench& shape, const std::vector<std::int64_t>& counts,
                      const std::vector<std::int64_t>& ranks, std::int64_t rounds, Device device) {
  std::vector<Stacked> models;
  models.push_back(stacked_model(shape, 0, 0, device));
  for (const std::int64_t rank : ranks)
    for (const std::int64_t count : counts) models.push_back(stacked_model(shape, count, rank, device));
  for (Stacked& stacked : models) speed_of(stacked, shape);
  for (std::int64_t round = 0; round < rounds; ++round)
    for (Stacked& stacked : models) stacked.speeds.push_back(speed_of(stacked, shape));
  for (const Stacked& stacked : models) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < stacked.speeds.size(); ++i) ratios.push_back(stacked.speeds[i] / models[0].speeds[i]);
    fmt::print("{} {} width {}: {:>2} adapters of rank {:>2}: {:>7.0f} tokens/s, {:.3f} of none ({:.3f} to {:.3f})\n",
               device.str(), shape.format, shape.width, stacked.adapters, stacked.rank, median_of(stacked.speeds),
               median_of(ratios), *std::min_element(ratios.begin(), ratios.end()),
               *std::max_element(ratios.begin(), ratios.end()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times sequences of one batch that have different adapters."};
  std::vector<std::string> devices;
  bench::add_device_option(app, devices);
  AdapterBench shape;
  std::vector<std::int64_t> counts{1, 4, 16}, ranks{8, 16};
  std::int64_t rounds = 7;
  const auto at_least_one = CLI::Range(std::int64_t{1}, std::int64_t{1} << 20);
  app.add_option("--format", shape.format, "of the weights: F32 or a block format")->capture_default_str();
  app.add_option("--width", shape.width, "of the model, a multiple of 64")
      ->check(CLI::Range(std::int64_t{64}, std::int64_t{1} << 14))
      ->capture_default_str();
  app.add_option("--layers", shape.layers)->check(at_least_one)->capture_default_str();
  app.add_option("--sequences", shape.sequences)->check(at_least_one)->capture_default_str();
  app.add_option("--tokens", shape.tokens, "of each sequence, 2 to 400")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{400}))
      ->capture_default_str();
  app.add_option("--adapters", counts, "how many are stacked, several by commas")
      ->delimiter(',')
      ->check(at_least_one)
      ->capture_default_str();
  app.add_option("--rank", ranks, "of each adapter, several by commas")
      ->delimiter(',')
      ->check(at_least_one)
      ->capture_default_str();
  app.add_option("--rounds", rounds)->check(at_least_one)->capture_default_str();
  return bench::run_program(app, argc, argv, [&] {
    for (const Device device : bench::chosen_devices(devices)) measure_adapters(shape, counts, ranks, rounds, device);
  });
}
