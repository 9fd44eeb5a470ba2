#include <fstream>
#include <functional>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/io/gguf.h>
#include <etna/tensor/ops.h>

#include "etna_model.h"

// Weights that no text can come of end every command with exit code 8 and one sentence.
namespace etna {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class EtnaDamagedModel : public EtnaModel {
 protected:
  /// Writes the model with some weights changed.
  void damage(const std::function<void(models::Decoder&)>& change) const {
    const data::ModelTokenizer tokenizer = some_tokenizer();
    models::DecoderConfig config = models::small_config("llama");
    config.vocabulary = static_cast<std::int64_t>(tokenizer.size());
    const auto decoder = models::small_model(config);
    change(*decoder);
    models::save_gguf_model(model(), *decoder, &tokenizer);
  }
  /// Every command that computes with a model.
  std::vector<std::string> commands() const {
    std::ofstream(folder_ / "lines") << "the river\n";
    std::ofstream(folder_ / "text") << "the river the river a b c . the river\n";
    return {with_model("run") + "--prompt 'the river' --temperature 0",
            with_model("run") + "--prompt 'the river' --guesses 3 --seed 3",
            with_model("chat") + "--format chatml < " + quoted(folder_ / "lines"),
            with_model("bench") + "-p 4 -n 4 --repeat 1",
            with_model("perplexity") + "--file " + quoted(folder_ / "text")};
  }
  void expect_all_refuse(const std::string& sentence) const {
    for (const std::string& command : commands()) {
      const Result refused = etna(command);
      EXPECT_EQ(refused.code, 8) << command << refused.output;
      EXPECT_THAT(refused.output, AllOf(HasSubstr("etna: "), HasSubstr(sentence), HasSubstr("etna inspect --check")));
    }
    EXPECT_EQ(text_of(commands()[0]), "the river\n") << "nothing but the prompt is written";
    EXPECT_EQ(etna("inspect --check " + quoted(model())).code, 8);
  }
};

TEST_F(EtnaDamagedModel, SoundWeightsAreNotRefused) {
  for (const std::string& command : commands()) EXPECT_EQ(etna(command).code, 0) << command;
}

TEST_F(EtnaDamagedModel, NaNEndsWith8) {
  damage([](models::Decoder& decoder) {
    decoder.blocks[1].ffn->down.weight.detach().select(0, 5).fill_(std::numeric_limits<double>::quiet_NaN());
  });
  expect_all_refuse("is NaN or infinite, so its weights are damaged");
}

TEST_F(EtnaDamagedModel, InfinityEndsWith8) {
  damage([](models::Decoder& decoder) { decoder.norm.weight.detach().fill_(std::numeric_limits<double>::infinity()); });
  expect_all_refuse("is NaN or infinite, so its weights are damaged");
}

TEST_F(EtnaDamagedModel, ZerosEndWith8) {
  damage([](models::Decoder& decoder) { decoder.norm.weight.detach().fill_(0); });
  expect_all_refuse("are equally likely, so its weights are damaged");
}

TEST_F(EtnaDamagedModel, ConvertNamesTheTensor) {
  damage([](models::Decoder& decoder) {
    decoder.blocks[1].ffn->down.weight.detach().select(0, 5).fill_(std::numeric_limits<double>::quiet_NaN());
  });
  for (const char* to : {"", " --to f16", " --to q8_0"}) {
    const Result refused = etna("convert " + quoted(model()) + to + " --out " + quoted(folder_ / "out.gguf"));
    EXPECT_EQ(refused.code, 8) << to << refused.output;
    EXPECT_THAT(refused.output, HasSubstr("etna: blocks.1.ffn.down.weight: 96 values are NaN or infinite"));
    EXPECT_FALSE(fs::exists(folder_ / "out.gguf"));
  }
  damage([](models::Decoder& decoder) {
    decoder.norm.weight.detach().select(0, 3).fill_(std::numeric_limits<double>::infinity());
  });
  const Result norm = etna("convert " + quoted(model()) + " --out " + quoted(folder_ / "out.gguf"));
  EXPECT_EQ(norm.code, 8) << norm.output;
  EXPECT_THAT(norm.output, HasSubstr("norm.weight: 1 value is NaN or infinite, at element 3"));
}

TEST_F(EtnaDamagedModel, ALostScaleEndsWith8) {
  ASSERT_EQ(etna("quantize --pure --to q8_0 --out " + quoted(folder_ / "q8.gguf") + " " + quoted(model())).code, 0);
  const io::GgufFile file(folder_ / "q8.gguf");
  const auto at = static_cast<std::streamoff>(file.tensor("blk.0.attn_q.weight").begin);
  fs::copy_file(folder_ / "q8.gguf", model(), fs::copy_options::overwrite_existing);
  std::fstream bytes(model(), std::ios::binary | std::ios::in | std::ios::out);
  bytes.seekp(at);
  bytes.write("\x00\x7e", 2);  // NaN as f16
  bytes.close();
  expect_all_refuse("is NaN or infinite");
  const Result refused = etna("convert " + quoted(model()) + " --out " + quoted(folder_ / "out.gguf"));
  EXPECT_EQ(refused.code, 8);
  EXPECT_THAT(refused.output, HasSubstr("blocks.0.attention.query.weight: 32 elements of Q8_0 have a scale"));
}

TEST_F(EtnaModel, InspectSaysWhetherItRuns) {
  const Result whole = etna("inspect " + quoted(model()));
  EXPECT_EQ(whole.code, 0) << whole.output;
  EXPECT_THAT(whole.output, HasSubstr("this build reads all of its tensors, and runs the model\n"));
  EXPECT_THAT(etna("inspect " + quoted(folder_ / "mute.gguf")).output,
              HasSubstr(", and runs the model, which has no tokenizer\n"));
  const auto verdict_of = [&](std::vector<std::pair<std::string, io::GgufValue>> metadata) {
    save_gguf(folder_ / "other.gguf", {{"x", ones({4})}}, {.metadata = std::move(metadata)});
    const Result shown = etna("inspect " + quoted(folder_ / "other.gguf"));
    EXPECT_EQ(shown.code, 0) << shown.output;
    return shown.output;
  };
  EXPECT_THAT(
      verdict_of({{"general.architecture", "rwkv"}}),
      HasSubstr("reads all of its tensors, but does not run the model: models of the architecture 'rwkv' do not "
                "run here; these do: llama"));
  std::vector<std::pair<std::string, io::GgufValue>> values = {{"general.architecture", "llama"}};
  for (const char* size : {"context_length", "embedding_length", "block_count", "attention.head_count",
                           "feed_forward_length", "attention.value_length"})
    values.emplace_back(std::string("llama.") + size, std::uint32_t{8});
  EXPECT_THAT(verdict_of(values), HasSubstr("does not run the model: heads of keys and of values have different"));
  values.pop_back();
  EXPECT_THAT(verdict_of(values), AllOf(HasSubstr("does not run the model: "), Not(HasSubstr("of values"))));

  // A vocabulary of a kind that is not known.
  const io::GgufFile from(model());
  io::GgufWriter to(folder_ / "strange.gguf");
  for (const io::GgufEntry& entry : from.metadata())
    to.set(entry.key, entry.key == "tokenizer.ggml.model" ? io::GgufValue("rwkv") : entry.value);
  for (const io::GgufTensor& t : from.tensors()) to.add(t.name, *t.format, t.shape);
  for (const io::GgufTensor& t : from.tensors()) to.write(t.name, from.bytes(t));
  to.finish();
  EXPECT_THAT(etna("inspect " + quoted(folder_ / "strange.gguf")).output,
              AllOf(HasSubstr("does not run the model: "), HasSubstr("rwkv")));
}

}  // namespace
}  // namespace etna
