#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/data/vision.h>
#include <etna/tensor/ops.h>

#include "etna_model.h"
#include "models/vision_models.h"

// etna run and etna chat with images.
namespace etna {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class EtnaVision : public EtnaModel {
 protected:
  void SetUp() override {
    EtnaModel::SetUp();
    if (!models::VisionFixture("gemma3").reads_png()) GTEST_SKIP() << "this build has no libpng";
    std::filesystem::copy(ETNA_SOURCE_DIR "/tests/models/vision/gemma3", seeing());
    models::gemmas_tokenizer().save(seeing() / "tokenizer.json");
  }
  std::filesystem::path seeing() const { return folder_ / "seeing"; }
  std::string run_of(const std::filesystem::path& picture, const std::string& prompt = "what") const {
    return "run --device cpu --temperature 3 --seed 1 --top-k 0 --top-p 1 --min-p 0 --max-tokens 24 --quiet --model " +
           quoted(seeing()) + " --prompt '" + prompt + "' --image " + quoted(picture);
  }
};

TEST_F(EtnaVision, RunsWithImages) {
  const std::string exact = run_of(seeing() / "exact.png"), wide = run_of(seeing() / "wide.png");
  const Result first = etna(exact);
  ASSERT_EQ(first.code, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("what"));
  EXPECT_EQ(etna(exact).output, first.output);
  EXPECT_NE(etna(wide).output, first.output);
  EXPECT_EQ(etna(run_of(seeing() / "wide.jpg")).code, 0);
  const Result placed = etna(run_of(seeing() / "exact.png", "<start_of_image>what"));
  EXPECT_EQ(placed.output, "<start_of_image>" + first.output) << "images come first where the prompt has no place";
  const Result two = etna(exact + " --image " + quoted(seeing() / "wide.png"));
  EXPECT_EQ(two.code, 0) << two.output;
  EXPECT_NE(two.output, first.output);
}

TEST_F(EtnaVision, ChatsAboutImages) {
  std::ofstream(folder_ / "questions") << "what\nwhy\n/clear\nwhat\n";
  const auto chat = [&](const char* picture) {
    return text_of(
        "chat --device cpu --temperature 3 --seed 1 --top-k 0 --top-p 1 --min-p 0 --logit-bias 4=-inf --max-tokens 24 "
        "--quiet --model " +
        quoted(seeing()) + " --image " + quoted(seeing() / picture) + " < " + quoted(folder_ / "questions"));
  };
  const std::string exact = chat("exact.png");
  EXPECT_EQ(std::count(exact.begin(), exact.end(), '\n'), 3) << exact;
  EXPECT_EQ(chat("exact.png"), exact);
  EXPECT_NE(chat("wide.png"), exact);
}

TEST_F(EtnaVision, WhatIsWrongWithImagesIsOneSentence) {
  const auto refusal = [&](const std::string& arguments, int code) {
    const Result result = etna(arguments);
    EXPECT_EQ(result.code, code) << result.output;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
    return result.output;
  };
  std::ofstream(folder_ / "text.png") << "no picture";
  data::write_png(folder_ / "cut.png", zeros({3, 40, 40}, u8));
  std::filesystem::resize_file(folder_ / "cut.png", 60);
  EXPECT_THAT(refusal(run_of(folder_ / "text.png"), 4), HasSubstr("is neither a PNG nor a JPEG file"));
  EXPECT_THAT(refusal(run_of(folder_ / "cut.png"), 4), HasSubstr("is a damaged PNG file"));
  EXPECT_THAT(refusal(run_of(folder_ / "missing.png"), 4), HasSubstr("missing.png"));
  EXPECT_THAT(refusal(run_of(seeing() / "exact.png", "<start_of_image><start_of_image>"), 1),
              HasSubstr("places for 2 images"));
  std::string five = run_of(seeing() / "exact.png") + " --context 64";
  for (int i = 0; i < 4; ++i) five += " --image " + quoted(seeing() / "wide.png");
  EXPECT_THAT(refusal(five, 1), HasSubstr("the images take 80 tokens, 64 fit at once"));
  const std::string image = " --quiet --prompt a --image " + quoted(seeing() / "exact.png");
  EXPECT_THAT(refusal(with_model("run") + image, 4), AllOf(HasSubstr("sees no images"), HasSubstr("--mmproj")));
  EXPECT_THAT(refusal(with_model("run") + image + " --mmproj " + quoted(model()), 4), HasSubstr("sees no images"));
  EXPECT_THAT(refusal(with_model("run") + image + " --mmproj " + quoted(seeing()), 4),
              HasSubstr("it is of another model"));
}

}  // namespace
}  // namespace etna
