#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/data/tokenizers/internal/chat/jinja_template.h>
#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/models/model_file.h>
#include <etna/tensor/ops.h>

#include "etna_model.h"

namespace etna {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(EtnaModel, RunsGreedily) {
  const std::string run = with_model("run") + "--temperature 0 --max-tokens 20 --quiet --prompt 'the river'";
  const Result two = etna(run);
  ASSERT_EQ(two.code, 0) << two.output;
  EXPECT_THAT(two.output, HasSubstr("the river"));
  EXPECT_EQ(etna(run).output, two.output);
  const Result other =
      etna(with_model("run") +
           "--temperature 5 --top-k 0 --top-p 1 --min-p 0 --seed 3 --max-tokens 20 --quiet --prompt 'the river'");
  EXPECT_EQ(other.code, 0);
  EXPECT_NE(other.output, two.output);
}

TEST_F(EtnaModel, StopsBeforeAStopWord) {
  const std::string run = with_model("run") + "--temperature 0 --max-tokens 40 --quiet --prompt 'the river' ";
  const std::string whole = text_of(run);
  ASSERT_GT(whole.size(), 14u) << whole;
  // Whatever the shell and the lines of the output leave alone.
  const std::size_t at = whole.find_first_not_of("'\n", 12);
  ASSERT_NE(at, std::string::npos) << whole;
  const std::string word = whole.substr(at, 1);
  EXPECT_EQ(text_of(run + "--stop '" + word + "'"), whole.substr(0, whole.find(word, 9)) + "\n");
}

TEST_F(EtnaModel, NeverWritesATokenThatABiasForbids) {
  const std::string run = with_model("run") + "--temperature 0 --max-tokens 12 --quiet --prompt 'the river' ";
  const std::string whole = text_of(run);
  std::string forbidden;
  for (int token = 0; token < 256; ++token) forbidden += " --logit-bias " + std::to_string(token) + "=-inf";
  EXPECT_NE(text_of(run + forbidden), whole);
  EXPECT_EQ(text_of(run + "--logit-bias 3=-0.0"), whole);
  for (const char* bias : {"3", "=1", "x=1", "3=", "3=nan", "3=inf", "-1=2", "3=1=2"}) {
    const Result refused = etna(run + "--logit-bias=" + bias);
    EXPECT_EQ(refused.code, 2) << bias;
    EXPECT_THAT(refused.output, HasSubstr(" is not TOKEN=NUMBER")) << bias;
  }
  const Result outside = etna(run + "--logit-bias 99999999=1");
  EXPECT_EQ(outside.code, 1);
  EXPECT_THAT(outside.output, HasSubstr("logit bias for token 99999999; the vocabulary has "));
}

TEST_F(EtnaModel, SaysWhatIsWrong) {
  EXPECT_EQ(etna("run --prompt x").code, 2);
  EXPECT_EQ(etna(with_model("run") + "--temperature -1").code, 2);
  EXPECT_EQ(etna(with_model("run") + "--top-p 2").code, 2);
  EXPECT_EQ(etna(with_model("run") + "--cache q3").code, 2);
  for (const char* option : {"--temperature nan", "--temperature inf", "--top-p nan", "--min-p -0.1", "--typical-p x",
                             "--repetition-penalty 0", "--repetition-penalty nan", "--presence-penalty inf"}) {
    const Result refused = etna(with_model("run") + "--prompt x " + option);
    EXPECT_EQ(refused.code, 2) << option;
    EXPECT_THAT(refused.output, HasSubstr("' should be a ")) << option;
    EXPECT_LT(refused.output.size(), 200u) << option;
  }
  const Result missing = etna("run --device cpu --model " + quoted(folder_ / "none.gguf"));
  EXPECT_EQ(missing.code, 4);
  EXPECT_THAT(missing.output, HasSubstr("none.gguf: there is no such file"));
  const Result mute = etna("run --device cpu --prompt x --model " + quoted(folder_ / "mute.gguf"));
  EXPECT_EQ(mute.code, 4);
  EXPECT_THAT(mute.output, HasSubstr("the model has no tokenizer"));
  std::ofstream(folder_ / "noise.gguf") << "GGUF and then nothing";
  EXPECT_EQ(etna("run --device cpu --model " + quoted(folder_ / "noise.gguf")).code, 4);
  EXPECT_EQ(etna("run --device vulkan:77 --model " + quoted(model())).code, 3);
}

TEST_F(EtnaModel, Chats) {
  std::ofstream(folder_ / "lines") << "/help\nthe river\n/metrics\n/save " << (folder_ / "talk.md").string()
                                   << "\n/nothing\n/clear\n/exit\nnot read\n";
  const Result chat =
      etna(with_model("chat") + "--temperature 0 --max-tokens 5 --format chatml < " + quoted(folder_ / "lines"));
  ASSERT_EQ(chat.code, 0) << chat.output;
  EXPECT_THAT(chat.output, AllOf(HasSubstr("/metrics"), HasSubstr("wrote 5"), HasSubstr("2 messages are in"),
                                 HasSubstr("unknown command /nothing")));
  std::ifstream talk(folder_ / "talk.md");
  std::string first;
  std::getline(talk, first);
  EXPECT_EQ(first, "<!-- etna chat -->");
}

TEST_F(EtnaModel, MeasuresItsSpeed) {
  const Result bench = etna(with_model("bench") + "-p 20 -n 5 --repeat 1 --json " + quoted(folder_ / "speed.json"));
  ASSERT_EQ(bench.code, 0) << bench.output;
  EXPECT_THAT(bench.output, AllOf(HasSubstr("prompt of 20"), HasSubstr("decode"), HasSubstr("quantized_linear")));
  const auto json = nlohmann::json::parse(std::ifstream(folder_ / "speed.json"));
  EXPECT_GT(json["cpu"]["decode_tokens_per_second"], 0);
  EXPECT_EQ(json["cpu"]["prompt_tokens"], 20);
}

TEST_F(EtnaModel, MeasuresSeveralSequencesTogether) {
  const Result bench = etna(with_model("bench") + "-p 4 -n 5 --sequences 3 --repeat 1");
  ASSERT_EQ(bench.code, 0) << bench.output;
  EXPECT_THAT(bench.output, HasSubstr("decode of 3 sequences"));
  EXPECT_EQ(etna(with_model("bench") + "--sequences 0").code, 2);
}

TEST_F(EtnaModel, RunsWithGuessesAndAdapters) {
  const std::string run = with_model("run") + "--temperature 0 --max-tokens 30 --quiet --prompt 'the river the river' ";
  const std::string plain = text_of(run);
  EXPECT_EQ(text_of(run + "--guesses 4"), plain);
  EXPECT_EQ(etna(run + "--guesses 65").code, 2);

  const models::Model base = models::load_model(model());
  base.decoder->add_adapters(2, 8);
  manual_seed(3);
  for (models::DecoderBlock& block : base.decoder->blocks)
    block.attention->value->lora_b.detach().copy_(randn({32, 2}));
  models::save_adapters(folder_ / "adapter.gguf", *base.decoder);
  const std::string adapter = "--adapter " + quoted(folder_ / "adapter.gguf") + " ";
  const std::string adapted = text_of(run + adapter);
  EXPECT_NE(adapted, plain);
  ASSERT_EQ(etna("convert " + quoted(model()) + " " + adapter + "--out " + quoted(folder_ / "merged.gguf")).code, 0);
  EXPECT_EQ(text_of("run --device cpu --temperature 0 --max-tokens 30 --quiet --prompt 'the river the river' --model " +
                    quoted(folder_ / "merged.gguf")),
            adapted);
  const Result wrong = etna(run + "--adapter " + quoted(model()));
  EXPECT_EQ(wrong.code, 4);
  EXPECT_THAT(wrong.output, HasSubstr("no low-rank adapters"));
}

/// The model's context is 256, its tokens are mostly bytes.
TEST_F(EtnaModel, SaysThatAPromptIsTooLong) {
  const std::string words(300, 'a');
  const Result run = etna(with_model("run") + "--prompt " + words);
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.output, AllOf(HasSubstr("the prompt has 302 tokens, 256 fit at once"), Not(HasSubstr(words))));
  const Result small = etna(with_model("run") + "--context 64 --prompt " + words.substr(0, 100));
  EXPECT_EQ(small.code, 2);
  EXPECT_THAT(small.output, HasSubstr("64 fit at once; give a shorter one, or a larger --context"));
  const Result bench = etna(with_model("bench") + "-p 257 -n 1");
  EXPECT_EQ(bench.code, 2);
  EXPECT_THAT(bench.output, HasSubstr("-p asks for a prompt of 257 tokens, 256 fit"));
  // A conversation goes on.
  std::ofstream(folder_ / "lines") << words << "\nthe river\n/metrics\n";
  const Result chat =
      etna(with_model("chat") + "--temperature 0 --max-tokens 5 --format chatml < " + quoted(folder_ / "lines"));
  EXPECT_EQ(chat.code, 0) << chat.output;
  EXPECT_THAT(chat.output, AllOf(HasSubstr("at most 256 fit"), HasSubstr("wrote 5")));
}

TEST_F(EtnaModel, RefusesATokenizerWithMoreTokens) {
  data::VocabularyFields fields = some_fields();
  fields.tokens.emplace_back("d");
  fields.types.push_back(1);
  fields.scores.push_back(-1);
  data::ModelTokenizer(fields).save(folder_ / "large.json");
  const Result refused = etna(with_model("run") + "--prompt x --tokenizer " + quoted(folder_ / "large.json"));
  EXPECT_EQ(refused.code, 4);
  EXPECT_THAT(refused.output, HasSubstr("large.json: it has 269 tokens, the model 268"));
}

TEST_F(EtnaModel, MergesAdaptersOfPackedMatrices) {
  const data::ModelTokenizer tokenizer = some_tokenizer();
  for (const char* architecture : {"gpt2", "phi3"}) {
    models::DecoderConfig config = models::small_config(architecture);
    config.vocabulary = static_cast<std::int64_t>(tokenizer.size());
    const auto decoder = models::small_model(config);
    models::save_gguf_model(folder_ / "base.gguf", *decoder, &tokenizer);
    decoder->add_adapters(2, 8);
    for (models::DecoderBlock& block : decoder->blocks)
      for (const models::NamedProjection& own : block.projections(false))
        if (own.name != "attention.output") own.layer->lora_b.detach().copy_(randn(own.layer->lora_b.shape()));
    models::save_adapters(folder_ / "packed.gguf", *decoder);
    const std::string settings = " --device cpu --temperature 0 --max-tokens 20 --quiet --prompt 'the river'";
    const std::string base = quoted(folder_ / "base.gguf"), adapter = " --adapter " + quoted(folder_ / "packed.gguf");
    const std::string plain = text_of("run --model " + base + settings),
                      adapted = text_of("run --model " + base + adapter + settings);
    EXPECT_NE(adapted, plain) << architecture;
    const Result merged = etna("convert --force " + base + adapter + " --out " + quoted(folder_ / "merged.gguf"));
    EXPECT_EQ(merged.code, 0) << merged.output;
    EXPECT_EQ(text_of("run --model " + quoted(folder_ / "merged.gguf") + settings), adapted) << architecture;
  }
}

TEST_F(EtnaModel, ChatsByTheModelsOwnTemplate) {
  const auto with_template = [&](const std::string& jinja) {
    data::VocabularyFields fields = some_fields();
    fields.chat_template = jinja;
    const data::ModelTokenizer tokenizer(fields);
    models::DecoderConfig config = models::small_config("llama");
    config.vocabulary = static_cast<std::int64_t>(tokenizer.size());
    models::save_gguf_model(folder_ / "chat.gguf", *models::small_model(config), &tokenizer);
    return "chat --device cpu --temperature 0 --max-tokens 5 --model " + quoted(folder_ / "chat.gguf") + " ";
  };
  std::ofstream(folder_ / "lines") << "the river\n/metrics\n";
  std::ofstream(folder_ / "line") << "the river\n";
  const std::string lines = " < " + quoted(folder_ / "lines");
  const std::string chat = with_template("{% for m in messages %}{{ m['content'] }} river {% endfor %}");
  const Result own = etna(chat + lines), forced = etna(chat + "--format jinja" + lines);
  if (!data::runs_jinja()) {
    EXPECT_EQ(own.code, 0) << own.output;
    EXPECT_THAT(own.output, AllOf(HasSubstr("this build cannot run Jinja"), HasSubstr("wrote 5")));
    EXPECT_EQ(forced.code, 4);
    EXPECT_THAT(forced.output, HasSubstr("libminja-dev"));
    return;
  }
  EXPECT_EQ(own.code, 0) << own.output;
  const std::string line = " < " + quoted(folder_ / "line");
  EXPECT_EQ(text_of(chat + "--format jinja" + line), text_of(chat + line));
  // <s>, and the bytes of " the river river "
  EXPECT_THAT(own.output, AllOf(HasSubstr("read 18 tokens"), HasSubstr("wrote 5")));
  for (const char* jinja : {"{% for m in", "{{ raise_exception('not so') }}",
                            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ 'x' * 20000000 }}"}) {
    const Result broken = etna(with_template(jinja) + lines);
    EXPECT_EQ(broken.code, 4) << jinja << broken.output;
    EXPECT_THAT(broken.output, HasSubstr("etna: chat template: "));
  }
}

TEST_F(EtnaModel, RunsWithADraft) {
  const data::ModelTokenizer tokenizer = some_tokenizer();
  models::DecoderConfig config = models::small_config("llama");
  config.vocabulary = static_cast<std::int64_t>(tokenizer.size());
  config.layers = 1;
  models::save_gguf_model(folder_ / "draft.gguf", *models::small_model(config, 3), &tokenizer);
  config.vocabulary += 1;
  models::save_gguf_model(folder_ / "large.gguf", *models::small_model(config), nullptr);
  config.vocabulary -= 1;
  data::VocabularyFields fields = some_fields();
  fields.tokens.back() = "!";
  const data::ModelTokenizer other(fields);
  models::save_gguf_model(folder_ / "other.gguf", *models::small_model(config), &other);

  const std::string settings = "--max-tokens 40 --prompt 'the river the river' ";
  for (const std::string& sampling : {std::string("--temperature 0 "), std::string("--temperature 1 --seed 7 ")}) {
    const std::string run = with_model("run") + sampling + settings, plain = text_of(run);
    EXPECT_EQ(text_of(run + "--draft " + quoted(folder_ / "draft.gguf")), plain);
    const Result itself = etna(run + "--guesses 3 --draft " + quoted(model()));
    EXPECT_EQ(itself.code, 0) << itself.output;
    EXPECT_THAT(itself.output, HasSubstr(plain.substr(0, plain.size() - 1)));
    EXPECT_TRUE(std::regex_search(itself.output, std::regex("([1-9][0-9]+) of \\1 guesses were right")));
    EXPECT_EQ(text_of(run + "--draft " + quoted(folder_ / "mute.gguf")), plain) << "no tokenizer to compare with";
  }
  const std::string run = with_model("run") + "--temperature 0 " + settings;
  const Result large = etna(run + "--draft " + quoted(folder_ / "large.gguf"));
  EXPECT_EQ(large.code, 4);
  EXPECT_THAT(large.output, HasSubstr("a draft model needs the same vocabulary; it has 269 tokens"));
  const Result strange = etna(run + "--draft " + quoted(folder_ / "other.gguf"));
  EXPECT_EQ(strange.code, 4);
  EXPECT_THAT(strange.output, AllOf(HasSubstr("its token 267 is '!'"), HasSubstr("model.gguf is '.'")));
  const Result headless = etna(run + "--draft mtp");
  EXPECT_EQ(headless.code, 4);
  EXPECT_THAT(headless.output, HasSubstr("model.gguf: there is no layer for further tokens (MTP)"));
  const Result idle = etna(run + "--guesses 0 --draft " + quoted(model()));
  EXPECT_EQ(idle.code, 2);
  EXPECT_THAT(idle.output, HasSubstr("--draft"));
  EXPECT_EQ(etna(run + "--draft " + quoted(folder_ / "none.gguf")).code, 4);

  const Result bench = etna(with_model("bench") + "-p 4 -n 9 --repeat 1 --guesses 3 --draft " + quoted(model()) +
                            " --json " + quoted(folder_ / "speed.json"));
  EXPECT_EQ(bench.code, 0) << bench.output;
  EXPECT_THAT(bench.output, HasSubstr("6 of 6 guesses were right"));
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(folder_ / "speed.json"))["cpu"]["guessed_right"], 6);
}

TEST_F(EtnaModel, MeasuresPerplexity) {
  std::ofstream(folder_ / "text") << "the river the river a b c . the river\n";
  const Result all = etna(with_model("perplexity") + "--file " + quoted(folder_ / "text"));
  ASSERT_EQ(all.code, 0) << all.output;
  EXPECT_THAT(all.output, HasSubstr("nats a token, perplexity"));
  EXPECT_EQ(etna(with_model("perplexity") + "--file " + quoted(folder_ / "none")).code, 4);
  const std::string mute = "perplexity --device cpu --model " + quoted(folder_ / "mute.gguf") + " --file " +
                           quoted(folder_ / "text") + " --tokenizer ";
  EXPECT_EQ(text_of(mute + quoted(model())), text_of(with_model("perplexity") + "--file " + quoted(folder_ / "text")));
  EXPECT_THAT(etna(mute + quoted(folder_ / "mute.gguf")).output, HasSubstr("contains no tokenizer"));
}

TEST_F(EtnaModel, Converts) {
  const Result f16 = etna("convert " + quoted(model()) + " --to f16 --out " + quoted(folder_ / "half.gguf"));
  ASSERT_EQ(f16.code, 0) << f16.output;
  EXPECT_LT(fs::file_size(folder_ / "half.gguf"), fs::file_size(model()));
  const std::string run = " --device cpu --temperature 0 --max-tokens 10 --quiet --prompt 'the river'";
  EXPECT_EQ(text_of("run --model " + quoted(folder_ / "half.gguf") + run),
            text_of("run --model " + quoted(model()) + run));
  EXPECT_EQ(etna("convert " + quoted(model()) + " --out " + quoted(folder_ / "half.gguf")).code, 2);
  EXPECT_EQ(etna("convert " + quoted(model()) + " --out " + quoted(model()) + " --force").code, 2);
  EXPECT_EQ(etna("convert " + quoted(model()) + " --to q9 --out " + quoted(folder_ / "x.gguf")).code, 2);
}

}  // namespace
}  // namespace etna
