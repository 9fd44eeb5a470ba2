#include <etna/device/internal/vulkan/pipelines/push_block.h>

#include <gmock/gmock.h>

#include <etna/shaders/shaders.h>

namespace etna::vulkan {
namespace {

/// Those of quantize_activations.comp: x, norm, y, rows, k.
Arguments arguments_of_quantize_activations() {
  Arguments a;
  a.read({256, {256, 64}});
  a.read({});
  a.write({512, {512, 64}});
  a.number(1u);
  a.number(16u);
  return a;
}

TEST(PushBlock, AgreesWithTheArgumentsOfAKernel) {
  EXPECT_EQ(wrong_arguments(shaders::quantize_activations.words, arguments_of_quantize_activations()), "");
}

TEST(PushBlock, TellsOfAnArgumentTooFewOrTooMany) {
  Arguments more = arguments_of_quantize_activations();
  more.number(3.0f);
  EXPECT_EQ(wrong_arguments(shaders::quantize_activations.words, more),
            "36 bytes of arguments; the shader declares 32");
  EXPECT_EQ(wrong_arguments(shaders::quantize_activations.words, Arguments()),
            "0 bytes of arguments; the shader declares 32");
}

TEST(PushBlock, TellsOfAnAddressInThePlaceOfANumber) {
  Arguments a;
  a.read({256, {256, 64}});
  a.read({});
  a.number(1u);
  a.number(16u);
  a.write({512, {512, 64}});
  EXPECT_EQ(wrong_arguments(shaders::quantize_activations.words, a),
            "an address at byte 24, where the shader declares a number");
}

}  // namespace
}  // namespace etna::vulkan
