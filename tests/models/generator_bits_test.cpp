#include <bit>
#include <cstdlib>
#include <map>

#include <gtest/gtest.h>

#include <etna/models/generator.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/quant/block_format.h>

#include "small_models.h"

// What a sequence gives does not depend on who else is in the batch, to the last bit.
namespace etna::models {
namespace {

struct Given {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint32_t> logprobs;  ///< bits, of the token and of three alternatives
  bool operator==(const Given&) const = default;
};

/// @param weights "f32", or a format
std::unique_ptr<Decoder> bits_model(const std::string& weights, Device device) {
  DecoderConfig config = small_config("llama");
  config.width = config.feed_forward = 256;
  config.head_size = 64;
  config.rope.size = 64;
  config.context = 1024;
  auto model = small_model(config);
  if (weights != "f32") {
    for (const nn::NamedModule& part : model->named_modules())
      if (auto* layer = dynamic_cast<Projection*>(part.module))
        layer->freeze(quantize(layer->weight.detach(), quant::format_named(weights)));
  }
  model->to(device);
  return model;
}

struct Request {
  std::vector<std::int32_t> prompt;
  GenerationOptions options;
};

Request bits_request(std::int64_t i) {
  Request r{some_text(17 + 61 * i % 200, 97), {.max_tokens = 24, .logprobs = 3}};
  r.prompt[0] = static_cast<std::int32_t>(i);  // no prefix is shared
  r.options.sampling.temperature = i % 3 == 0 ? 0 : 0.9;
  r.options.sampling.top_k = i % 2 == 0 ? 0 : 20;
  r.options.sampling.seed = static_cast<std::uint64_t>(i);
  if (i % 4 == 1) r.options.sampling.repetition_penalty = 1.2;
  if (i % 5 == 2) r.options.sampling.logit_bias = {{7, 1.5f}};
  return r;
}

void take_bits(std::map<Generator::Id, Given>& given, const std::vector<GeneratedToken>& tokens) {
  for (const GeneratedToken& t : tokens) {
    Given& to = given[t.sequence];
    to.tokens.push_back(t.token);
    to.logprobs.push_back(std::bit_cast<std::uint32_t>(t.logprob));
    for (const auto& [token, logprob] : t.top) {
      to.logprobs.push_back(static_cast<std::uint32_t>(token));
      to.logprobs.push_back(std::bit_cast<std::uint32_t>(logprob));
    }
  }
}

/// @param longest positions that another sequence of the batch reaches
void check_bits(Device device, std::int64_t longest) {
  for (const std::string weights : {"f32", "F16", "Q4_K"}) {
    const auto model = bits_model(weights, device);
    // Kernels for other numbers of rows add in another order, except for plain formats on the CPU.
    const bool all_slots = !device.is_cpu() || weights == "Q4_K";
    const GeneratorOptions options{
        .device = device, .slots = 4, .all_slots = all_slots, .chunk = 32, .cache = {.tokens = 4096}};
    std::vector<Given> alone;
    for (std::int64_t i = 0; i < 6; ++i) {
      Generator generator(*model, options);
      const Request r = bits_request(i);
      std::map<Generator::Id, Given> given;
      generator.begin(r.prompt, r.options);
      while (generator.busy()) take_bits(given, generator.step());
      alone.push_back(given.begin()->second);
    }
    Generator generator(*model, options);
    std::map<Generator::Id, Given> given;
    std::map<Generator::Id, std::int64_t> requests;
    std::int64_t next = 0, step = 0;
    // A sequence without log-probabilities, which leaves.
    const Generator::Id other = generator.begin(some_text(longest - 60, 97), {.max_tokens = 400});
    while (next < 6 || generator.busy()) {
      if (next < 6 && generator.has_room() && step % 3 == 0) {
        const Request r = bits_request(next);
        requests[generator.begin(r.prompt, r.options)] = next++;
      }
      if (++step == 60) generator.leave(other);
      take_bits(given, generator.step());
      ASSERT_LT(step, 2000);
    }
    for (const auto& [id, i] : requests) {
      const Given &one = alone[static_cast<std::size_t>(i)], &among = given[id];
      EXPECT_EQ(one.tokens, among.tokens) << device.str() << " " << weights << ", request " << i;
      std::size_t same = 0;
      while (same < one.logprobs.size() && same < among.logprobs.size() && one.logprobs[same] == among.logprobs[same])
        ++same;
      EXPECT_EQ(same, one.logprobs.size())
          << device.str() << " " << weights << ", request " << i << ", token " << same / 7;
    }
  }
}

/// The other sequence grows past a width of the block table.
TEST(GeneratorBits, AreThoseOfTheSequenceAlone) { check_bits(kCPU, 560); }

/// On a GPU the width of the block table chooses the kernel of attention, so the other one stays within the first.
TEST(GeneratorBits, AreThoseOfTheSequenceAloneOnVulkan) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  check_bits(kVulkan, 480);
}

}  // namespace
}  // namespace etna::models
