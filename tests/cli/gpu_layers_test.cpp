#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etna_model.h"

// Devices for tests, and models of which a part stays on the CPU, by the commands.
namespace etna {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(FakeDeviceOfEtna, IsListed) {
  const std::string two =
      "ETNA_STRICT=0 ETNA_FAKE_DEVICE='name=Tiny GPU, memory=64MiB; name=Old GPU, rejected=too old'";
  const Result table = etna("devices", two);
  EXPECT_EQ(table.code, 0) << table.output;
  EXPECT_THAT(table.output, AllOf(HasSubstr("fake:0"), HasSubstr("Tiny GPU"), HasSubstr("64.0 MiB"),
                                  HasSubstr("for tests (ETNA_FAKE_DEVICE)"), HasSubstr("cannot be used: too old"),
                                  Not(HasSubstr("auto takes fake"))));
  EXPECT_THAT(etna("devices --json", two).output, HasSubstr("\"kind\": \"fake\""));
  EXPECT_THAT(etna("devices", "ETNA_STRICT=0 ETNA_FAKE_DEVICE=memory=lots").output,
              HasSubstr("cannot be used: ETNA_FAKE_DEVICE: 'lots' is not a number of bytes"));
}

/// A model of eight layers of 4.5 MiB.
class GpuLayers : public EtnaModel {
 protected:
  void SetUp() override {
    const data::ModelTokenizer tokenizer = some_tokenizer();
    models::DecoderConfig config = models::small_config("llama");
    config.vocabulary = static_cast<std::int64_t>(tokenizer.size());
    config.width = 512;
    config.layers = 8;
    config.heads = 8;
    config.kv_heads = 4;
    config.head_size = 64;
    config.feed_forward = 1024;
    models::fill_defaults(config);
    models::save_gguf_model(model(), *models::small_model(config), &tokenizer);
  }
  std::string run(const std::string& device) const {
    return "run --device " + device + " --model " + quoted(model()) +
           " --temperature 0 --max-tokens 12 --cache f32 --prompt 'the river' ";
  }
  static std::string fake(const std::string& memory) {
    return "ETNA_STRICT=0 ETNA_FAKE_DEVICE='memory=" + memory + "'";
  }
  std::string text(const std::string& arguments, const std::string& environment = "") const {
    return run_program(ETNA_PROGRAM, arguments, environment, "2>/dev/null").output;
  }
};

TEST_F(GpuLayers, AreAsManyAsFit) {
  const std::string wanted = text(run("cpu"));
  EXPECT_FALSE(wanted.empty());
  const Result roomy = etna(run("fake:0"), fake("1GiB"));
  EXPECT_EQ(roomy.code, 0) << roomy.output;
  EXPECT_THAT(roomy.output, Not(HasSubstr("layers:")));
  const Result tight = etna(run("fake:0"), fake("40MiB"));
  EXPECT_EQ(tight.code, 0) << tight.output;
  EXPECT_THAT(tight.output, testing::ContainsRegex("layers: [3-7] of 8 layers on fake:0 \\([0-9.]+ of 40.0 MiB\\), "
                                                   "[1-5] on the CPU"));
  EXPECT_EQ(text(run("fake:0"), fake("40MiB")), wanted);
  const Result none = etna(run("fake:0"), fake("8MiB"));
  EXPECT_EQ(none.code, 0) << none.output;
  EXPECT_THAT(none.output, HasSubstr("layers: 0 of 8 layers on fake:0"));
  EXPECT_EQ(text(run("fake:0"), fake("8MiB")), wanted);
}

TEST_F(GpuLayers, AreAsManyAsAsked) {
  const std::string wanted = text(run("cpu"));
  for (const char* layers : {"0", "1", "7", "8", "99"})
    EXPECT_EQ(text(run("fake:0") + "--gpu-layers " + layers, fake("1GiB")), wanted) << layers;
  const Result two = etna(run("fake:0") + "--gpu-layers 2", fake("1GiB"));
  EXPECT_THAT(two.output, AllOf(HasSubstr("layers: 2 of 8 layers on fake:0 ("), HasSubstr("), 6 on the CPU")));
  const Result too_many = etna(run("fake:0") + "--gpu-layers 8", fake("20MiB"));
  EXPECT_EQ(too_many.code, 5) << too_many.output;
  EXPECT_THAT(too_many.output, HasSubstr("the fake device has 20.0 MiB"));
  for (const char* wrong : {"-1", "some", "1.5", "''"})
    EXPECT_EQ(etna(run("cpu") + "--gpu-layers " + wrong).code, 2) << wrong;
}

TEST_F(GpuLayers, AreAllThereWithoutTheirExperts) {
  const data::ModelTokenizer tokenizer = some_tokenizer();
  models::DecoderConfig config = models::small_config("qwen3moe");
  config.vocabulary = static_cast<std::int64_t>(tokenizer.size());
  config.width = 256;
  config.layers = 4;
  config.experts.count = 16;
  config.experts.feed_forward = 256;
  models::fill_defaults(config);
  models::save_gguf_model(model(), *models::small_model(config), &tokenizer);
  const std::string wanted = text(run("cpu"));
  EXPECT_EQ(text(run("cpu") + "--experts cpu"), wanted);
  EXPECT_THAT(etna(run("fake:0"), fake("24MiB")).output, HasSubstr(" of 4 layers on fake:0"));
  const Result without = etna(run("fake:0") + "--experts cpu", fake("24MiB"));
  EXPECT_EQ(without.code, 0) << without.output;
  EXPECT_THAT(without.output, Not(HasSubstr("layers:")));
  EXPECT_EQ(text(run("fake:0") + "--experts cpu", fake("24MiB")), wanted);
  EXPECT_EQ(etna(run("cpu") + "--experts nowhere").code, 2);
}

TEST_F(GpuLayers, PerplexityAndBenchTakeThem) {
  const auto text_file = folder_.write("text.txt", "the river the river the the river . a b c the river the river");
  const std::string rest = " --model " + quoted(model()) + " --gpu-layers 3 ";
  const Result perplexity = etna("perplexity -f " + quoted(text_file) + " --device fake:0" + rest, fake("1GiB"));
  EXPECT_EQ(perplexity.code, 0) << perplexity.output;
  EXPECT_THAT(perplexity.output, HasSubstr("layers: 3 of 8 layers on fake:0"));
  const Result bench = etna("bench -p 8 -n 3 --repeat 1 --device fake:0" + rest, fake("1GiB"));
  EXPECT_EQ(bench.code, 0) << bench.output;
}

TEST_F(GpuLayers, StrictModeLeavesNoneOnTheCpuUnasked) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  const std::string wanted = text(run("cpu"));
  const std::string limited = "ETNA_MEMORY_LIMIT=40MiB";
  const Result refused = etna(run("vulkan:0") + "--strict", limited);
  EXPECT_EQ(refused.code, 5) << refused.output;
  EXPECT_THAT(refused.output, testing::ContainsRegex("strict mode leaves no layer on the CPU unless asked: "
                                                     "--gpu-layers [3-7] would fit"));
  const Result asked = etna(run("vulkan:0") + "--strict --gpu-layers 3");
  EXPECT_EQ(asked.code, 0) << asked.output;
  EXPECT_EQ(text(run("vulkan:0") + "--strict --gpu-layers 3"), wanted);
  EXPECT_EQ(etna(run("fake:0") + "--strict", "ETNA_STRICT=0 ETNA_FAKE_DEVICE=1").code, 3);
}

}  // namespace
}  // namespace etna
