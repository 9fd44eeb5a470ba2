#include <etna/device/internal/vulkan/pipelines/push_block.h>

#include <gmock/gmock.h>

#include <etna/shaders/shaders.h>

namespace etna::vulkan {
namespace {

/// Those of quantize_activations.comp: x, norm, y, gate, rows, k, gate_pitch, eps.
Arguments arguments_of_quantize_activations() {
  Arguments a;
  a.read({256, {256, 64}});
  a.read({});
  a.write({512, {512, 64}});
  a.read({});
  a.number(1u);
  a.number(16u);
  a.number(0u);
  a.number(0.0f);
  return a;
}

TEST(PushBlock, AgreesWithTheArgumentsOfAKernel) {
  EXPECT_EQ(wrong_arguments(shaders::quantize_activations.words, arguments_of_quantize_activations()), "");
}

TEST(PushBlock, TellsOfAnArgumentTooFewOrTooMany) {
  Arguments more = arguments_of_quantize_activations();
  more.number(3.0f);
  EXPECT_EQ(wrong_arguments(shaders::quantize_activations.words, more),
            "52 bytes of arguments; the shader declares 48");
  EXPECT_EQ(wrong_arguments(shaders::quantize_activations.words, Arguments()),
            "0 bytes of arguments; the shader declares 48");
}

TEST(PushBlock, TellsOfAnAddressInThePlaceOfANumber) {
  Arguments a;
  a.read({256, {256, 64}});
  a.read({});
  a.write({512, {512, 64}});
  a.number(1u);
  a.number(16u);
  a.read({768, {768, 64}});
  a.number(0u);
  a.number(0.0f);
  EXPECT_EQ(wrong_arguments(shaders::quantize_activations.words, a),
            "an address at byte 32, where the shader declares a number");
}

}  // namespace
}  // namespace etna::vulkan
