#include <algorithm>
#include <cstddef>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <etna/tensor/quant/internal/formats.h>

// Compares the tables of formats in shaders with the traits, from which the CPU's kernels are generated.
// tests/ops/quantized/quantized_gpu_test.cpp compares the results of GPUs with those of the CPU.
namespace etna::quant {
namespace {

std::string shader_text(const std::string& path) {
  std::ifstream file(std::string(ETNA_SOURCE_DIR "/shaders/") + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The body of a function, or the text between `from` and `to`.
std::string between(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t begin = text.find(from);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find(to, begin + from.size()) - begin);
}
std::string body(const std::string& glsl, const std::string& function) { return between(glsl, function, "\n}"); }

bool names(const std::string& text, std::string_view word) {
  return std::regex_search(text, std::regex("\\b" + std::string(word) + "\\b"));
}

/// The text of `case NAME:` ... `break;` in a switch; several cases may share one block of code.
std::string case_of(const std::string& function, std::string_view name) {
  const std::size_t at = function.find("case " + std::string(name) + ":");
  return at == std::string::npos ? "" : function.substr(at, function.find("break;", at) - at);
}
int returned(const std::string& function, std::string_view name) {
  std::smatch found;
  const std::string text = function.substr(std::min(function.size(), function.find("case " + std::string(name) + ":")));
  return std::regex_search(text, found, std::regex("return (\\d+);")) ? std::stoi(found[1]) : 0;
}

template <typename F>
constexpr bool kHasSigns = false;
template <typename F>
requires(F::kPacking == Packing::points) constexpr bool kHasSigns<F> = F::kSigns;

class ShaderFormats : public testing::Test {
 protected:
  template <typename F>
  void check() {
    constexpr std::string_view kName = F::kDescription.name;
    if (F::kDescription.gguf_type == kNoGgufType) return;  // integers in groups, which shaders describe by their number
    SCOPED_TRACE(kName);
    EXPECT_TRUE(std::regex_search(
        numbers_, std::regex("\\b" + std::string(kName) + " = " + std::to_string(F::kDescription.gguf_type) + "\\b")));
    EXPECT_EQ(names(body(glsl_, "bool has_minimum("), kName), F::kMinimums);
    EXPECT_EQ(names(levels_, kName), kHasLevels<F>);
    const bool has_signs = names(body(glsl_, "bool has_signs("), kName);
    EXPECT_EQ(has_signs, kHasSigns<F>);
    const bool is_signed = F::kPacking == Packing::bytes || kHasLevels<F> || kHasSigns<F>;
    EXPECT_EQ(returned(body(glsl_, "uint quant_of_zero("), kName), is_signed ? 0 : F::kZero);
    EXPECT_EQ(names(body(glsl_, "bool has_signed_quants("), kName) || kHasLevels<F> || has_signs, is_signed);
    const bool points = F::kPacking == Packing::points;
    const std::string decoder = points ? case_of(body(grids_, "void decode_points("), kName)
                                       : case_of(body(glsl_, "PackedChunk decode_bytes("), kName);
    EXPECT_NE(decoder, "") << "no decoder";
    // Blocks of I2_S are multiplied as u32s.
    if (kName != "I2_S") {
      EXPECT_TRUE(names(decoder, std::to_string(F::kBytes))) << F::kBytes << " bytes a block";
    }
  }
  template <typename... F>
  void check_all(FormatList<F...>) {
    (check<F>(), ...);
  }

  const std::string glsl_ = shader_text("lib/quant_blocks.glsl");
  const std::string grids_ = shader_text("lib/quant_grids.glsl");
  const std::string numbers_ = between(glsl_, "const uint Q_F32", ";");
  const std::string levels_ = between(glsl_, "bool has_levels(", ";");
};

TEST_F(ShaderFormats, AreWhatTraitsSay) {
  ASSERT_NE(numbers_, "") << "the shader was not read";
  check_all(BlockFormats());
}

TEST_F(ShaderFormats, HaveTheLevelsOfTraits) {
  std::string list = between(glsl_, "const int kLevels[32] = int[32](", ")");
  list = list.substr(list.rfind('(') + 1);
  std::vector<int> got, wanted(std::begin(NonLinear::kLevels), std::end(NonLinear::kLevels));
  wanted.insert(wanted.end(), std::begin(MXFP4::kLevels), std::end(MXFP4::kLevels));
  const std::regex number("-?\\d+");
  for (std::sregex_iterator at(list.begin(), list.end(), number); at != std::sregex_iterator(); ++at)
    got.push_back(std::stoi(at->str()));
  EXPECT_EQ(got, wanted);
}

TEST_F(ShaderFormats, FindPointsWhereTheyLie) {
  const std::string places = body(grids_, "uint first_point(");
  EXPECT_EQ(offsetof(GridPoints, iq2_xxs), 0u);
  EXPECT_EQ(returned(places, "IQ2_XS") * sizeof(std::uint64_t), offsetof(GridPoints, iq2_xs));
  EXPECT_EQ(returned(places, "IQ2_S") * sizeof(std::uint64_t), offsetof(GridPoints, iq2_s));
  EXPECT_EQ(returned(places, "IQ1_S") * sizeof(std::uint64_t), offsetof(GridPoints, iq1));
  EXPECT_EQ(returned(places, "IQ1_M"), returned(places, "IQ1_S"));
  EXPECT_EQ(returned(places, "IQ3_XXS") * sizeof(std::uint32_t), offsetof(GridPoints, iq3_xxs));
  EXPECT_EQ(returned(places, "IQ3_S") * sizeof(std::uint32_t), offsetof(GridPoints, iq3_s));
}

/// Magnitudes, since with_signs() negates bytes as if none were 0.
TEST_F(ShaderFormats, HavePointsWithoutZeros) {
  const auto least = [](const auto& points) {
    unsigned smallest = 255;
    for (auto point : points)
      for (std::size_t i = 0; i < sizeof point; ++i, point >>= 8)
        smallest = std::min(smallest, static_cast<unsigned>(point & 0xff));
    return smallest;
  };
  EXPECT_EQ(least(kGridPoints.iq2_xxs), 8u);
  EXPECT_EQ(least(kGridPoints.iq2_xs), 8u);
  EXPECT_EQ(least(kGridPoints.iq2_s), 8u);
  EXPECT_EQ(least(kGridPoints.iq3_xxs), 4u);
  EXPECT_EQ(least(kGridPoints.iq3_s), 1u);
}

TEST_F(ShaderFormats, OfCudaTakeGroupsOfTheSameSize) {
  const std::string cuda = shader_text("sm90/skinny_formats.cuh");
  const auto row = [&](const char* name) {
    std::smatch found;
    const std::regex pattern(std::string("struct ") + name + " : BlockRow<(\\d+)");
    return std::regex_search(cuda, found, pattern) ? std::stoi(found[1]) : 0;
  };
  EXPECT_EQ(row("Q4KRow"), kGroupBytes<Q4_K>);
  EXPECT_EQ(row("Q6KRow"), kGroupBytes<Q6_K>);
  EXPECT_EQ(row("Q8Row"), kGroupBytes<Q8_0>);
}

}  // namespace
}  // namespace etna::quant
