#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/data/text_file.h>
#include <etna/tensor/ops.h>
#include <etna/train/checkpointer.h>
#include <etna/train/internal/answer_rows.h>
#include <etna/train/internal/fine_tune_files.h>
#include <etna/train/metrics.h>
#include <etna/train/training_loop.h>
#include <nn/on_device.h>

#include "fine_tuned_model.h"

namespace etna::training {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string bytes_of(const FilePath& file) {
  std::ifstream in(std::filesystem::path(file), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

double first_loss(const FilePath& run) { return read_metrics(run).points("loss").front().value; }

class FineTune : public OnDevice {
 protected:
  FineTuneOptions options(const std::string& rows, const std::string& run) const {
    return folder_.options(device(), rows, run);
  }
  TuningFolder folder_;
};

/// On each kind of base, with one first loss. A software rasterizer takes seconds for a step.
TEST_P(FineTune, LowersTheLossOfAnswersOnEveryBase) {
  const bool host = device().is_cpu();
  std::vector<const char*> bases = {"Q4_K.gguf"};
  if (host) bases = {"model.gguf", "BF16.gguf", "Q4_K.gguf"};
  double exact = 0;
  for (const char* base : bases) {
    FineTuneOptions own = options(folder_.completions(2), base + std::string(".run"));
    own.model = folder_.path(base).string();
    own.epochs = host ? 16 : 3;
    const FineTuneResult result = fine_tune(own);
    const double first = first_loss(own.folder);
    if (exact == 0) exact = first;
    EXPECT_NEAR(first, exact, 0.02 * exact) << base;
    EXPECT_LT(*result.loss, (host ? 0.9 : 1.0) * first) << base;
    EXPECT_TRUE(std::filesystem::exists(own.folder / "adapter" / "adapter_config.json")) << base;
    EXPECT_TRUE(std::filesystem::exists(own.folder / "adapter.gguf")) << base;
    EXPECT_TRUE(std::filesystem::exists(own.folder / "report.html")) << base;
  }
}

/// A convolution's state does not tell texts of a row apart, so that each has a row, packing or not.
TEST(FineTuneWithStates, GivesEachTextARow) {
  const TuningFolder folder;
  const data::ModelTokenizer tokenizer = some_tokenizer();
  manual_seed(5);
  const models::Decoder decoder(models::decoder_config(
      fmt::format(R"({{"model_type": "lfm2", "vocab_size": {}, "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "conv_L_cache": 3,
        "max_position_embeddings": 256, "block_auto_adjust_ff_dim": false, "rope_theta": 10000.0,
        "layer_types": ["conv", "full_attention"], "tie_word_embeddings": false}})",
                  tokenizer.size()),
      "config.json"));
  models::save_gguf_model(folder.path("lfm2.gguf"), decoder, &tokenizer);
  double first[2];
  for (const bool packs : {false, true}) {
    FineTuneOptions own = folder.options(kCPU, folder.completions(4), packs ? "packed" : "apart");
    own.model = folder.path("lfm2.gguf").string();
    own.packing = packs ? "on" : "off";
    own.epochs = 8;
    const FineTuneResult result = fine_tune(own);
    first[packs] = first_loss(own.folder);
    EXPECT_LT(*result.loss, 0.98 * first[packs]) << packs;
  }
  EXPECT_EQ(first[0], first[1]);
  FineTuneOptions whole = folder.options(kCPU, folder.completions(4), "whole");  // a config.json of lfm2 is not written
  whole.model = folder.path("lfm2.gguf").string();
  whole.method = "full";
  whole.steps = 2;
  const FineTuneResult result = fine_tune(whole);
  EXPECT_EQ(models::load_model(result.merged).decoder->config.architecture, "lfm2");
}

TEST(FineTuneFiles, AreRefusedBeforeTraining) {
  models::DecoderConfig config = models::decoder_config(
      "llama", {.vocabulary = 32, .context = 16, .width = 32, .layers = 1, .heads = 2, .feed_forward = 32});
  config.activation = Activation::relu;
  const models::Model model{"a test's", std::make_unique<models::Decoder>(config), nullptr};
  FineTuneOptions own;
  check_tuned_model(own, model);
  own.method = "full";
  EXPECT_THAT([&] { check_tuned_model(own, model); },
              ThrowsMessage<FormatError>(HasSubstr("a GGUF file cannot hold the model: its activation")));
}

TEST_P(FineTune, GoesOnWithTheBitsOfARunThatWasNotStopped) {
  FineTuneOptions whole = options(folder_.completions(2), "whole");
  whole.dropout = 0.2;
  whole.targets = "query,value";
  FineTuneOptions first = whole;
  first.folder = folder_.path("parts");
  first.steps = 1;
  const std::int64_t steps = fine_tune(whole).steps;
  EXPECT_EQ(fine_tune(first).steps, 1);
  FineTuneOptions rest;
  SettingList list;
  rest.add_to(list);
  list.set("steps", std::to_string(steps), "the test");
  list.set("epochs", "2", "the test");
  rest.folder = first.folder;
  rest.device = device();
  rest.progress = rest.forecast = false;
  rest.existing = ExistingRun::resume;
  EXPECT_EQ(fine_tune(rest, &list).steps, steps);
  EXPECT_EQ(bytes_of(whole.folder / "adapter.gguf"), bytes_of(rest.folder / "adapter.gguf"));
}

ETNA_ON_EVERY_DEVICE(FineTune);

class FineTuneOnCpu : public testing::Test {
 protected:
  FineTuneOptions options(const std::string& rows, const std::string& run) const {
    return folder_.options(kCPU, rows, run);
  }
  TuningFolder folder_;
};

/// The loss of a step is the mean over its answers, however they are laid out.
TEST_F(FineTuneOnCpu, WeighsAnswersAlike) {
  std::vector<double> losses;
  for (const auto& [packing, batch, accumulation] :
       {std::tuple("on", 1, 1), std::tuple("on", 1, 2), std::tuple("off", 4, 1), std::tuple("off", 2, 2)}) {
    FineTuneOptions own = options(folder_.completions(4), "run" + std::to_string(losses.size()));
    own.packing = packing;
    own.order = "file";
    own.seq = packing == std::string("on") && accumulation == 1 ? 256 : 96;
    own.batch = batch;
    own.accumulation = accumulation;
    own.steps = 1;
    fine_tune(own);
    losses.push_back(first_loss(own.folder));
  }
  for (const double loss : losses) EXPECT_NEAR(loss, losses[0], 1e-4);
}

TEST_F(FineTuneOnCpu, TrainsEagerlyWithTheBitsOfCapturedSteps) {
  FineTuneOptions captured = options(folder_.completions(), "captured"), eager = captured;
  eager.folder = folder_.path("eager");
  eager.captured = false;
  fine_tune(captured);
  fine_tune(eager);
  EXPECT_EQ(bytes_of(captured.folder / "adapter.gguf"), bytes_of(eager.folder / "adapter.gguf"));
}

TEST_F(FineTuneOnCpu, ForecastsValidatesAndStopsEarly) {
  FineTuneOptions own = options(folder_.completions(16), "run");
  own.valid = 0.25;
  own.patience = 1;
  own.epochs = 30;
  own.lr = 0.5;
  own.forecast = true;
  own.sample_tokens = 4;
  const FineTuneResult result = fine_tune(own);
  EXPECT_LT(result.steps, 60);
  EXPECT_TRUE(result.valid_loss.has_value());
  EXPECT_THAT(result.prompt, HasSubstr("the river"));
  EXPECT_THAT(bytes_of(own.folder / "summary.json"), HasSubstr("valid_perplexity"));
}

/// Written adapters, a merged model and all weights give what the trained model gave.
TEST_F(FineTuneOnCpu, WritesWhatItTrained) {
  const Tensor x = from_vector(std::vector<std::int32_t>{1, 259, 262, 263}, {1, 4});
  for (const char* method : {"lora", "dora", "full"}) {
    FineTuneOptions own = options(folder_.completions(), method);
    own.method = method;
    own.merge = "on";
    const FineTuneResult result = fine_tune(own);
    const NoGrad no_grad;
    const models::Model merged = models::load_model(result.merged, {.trainable = true});
    const models::Model base = models::load_model(own.model, {.trainable = true});
    EXPECT_GT((merged.decoder->forward(x) - base.decoder->forward(x)).abs().max().item<double>(), 0.01) << method;
    if (result.adapter_folder.empty()) {
      const FilePath checkpoint = find_checkpoints(own.folder / "checkpoints").latest;
      const models::Model trained = models::load_model(checkpoint, {.trainable = true});
      EXPECT_TRUE(equal(trained.decoder->forward(x), merged.decoder->forward(x)));
      continue;
    }
    models::load_adapters(result.adapter_folder, *base.decoder);
    EXPECT_LT((merged.decoder->forward(x) - base.decoder->forward(x)).abs().max().item<double>(), 1e-4) << method;
  }
}

TEST_F(FineTuneOnCpu, GoesOnWithGivenAdapters) {
  FineTuneOptions first = options(folder_.completions(), "first");
  const double before = *fine_tune(first).loss;
  FineTuneOptions second = options(first.data, "second");
  second.adapter = (first.folder / "adapter").string();
  fine_tune(second);
  EXPECT_LT(first_loss(second.folder), before + 0.1);
}

TEST_F(FineTuneOnCpu, LearnsPreferences) {
  for (const char* objective : {"dpo", "orpo"}) {
    FineTuneOptions own = options(folder_.preferences(), objective);
    own.objective = objective;
    own.valid = 0.25;
    const FineTuneResult result = fine_tune(own);
    if (own.objective == "dpo") {
      EXPECT_NEAR(first_loss(own.folder), std::log(2.0), 1e-5);
    }
    EXPECT_LT(*result.loss, first_loss(own.folder)) << objective;
    EXPECT_TRUE(result.valid_loss.has_value());
  }
}

/// A model that learns from itself has nothing to learn.
TEST_F(FineTuneOnCpu, LearnsFromATeacher) {
  FineTuneOptions own = options(folder_.completions(), "run");
  own.teacher = own.model;
  own.teacher_share = 1;
  own.steps = 1;
  fine_tune(own);
  EXPECT_NEAR(first_loss(own.folder), 0, 1e-4);
  FineTuneOptions other = options(own.data, "other");
  other.teacher = folder_.path("Q4_K.gguf").string();
  const FineTuneResult result = fine_tune(other);
  EXPECT_LT(*result.loss, first_loss(other.folder));
}

/// ORPO's loss and that of a teacher, of the first step, from logits in f64.
TEST_F(FineTuneOnCpu, LossesFollowTheirFormulas) {
  const data::ModelTokenizer tokenizer = some_tokenizer();
  const models::Model model = models::load_model(folder_.model(), {.trainable = true});
  const models::Model teacher = models::load_model(folder_.path("Q4_K.gguf"), {.trainable = true});
  const auto answers_of = [](const models::Model& of, const AnswerText& text) {
    const auto count = static_cast<std::int64_t>(text.ids.size());
    const Tensor logits = of.decoder->forward(from_vector(text.ids, {1, count})).select(0, 0).to(f64);
    return logits.slice(0, count - 1 - text.answers(), count - 1);  // an answer is the end of its text
  };
  const auto mean_logprob = [&](const AnswerText& text) {
    const std::vector<std::int32_t> ends(text.ids.end() - text.answers(), text.ids.end());
    return -cross_entropy(answers_of(model, text), from_vector(ends)).item<double>();
  };
  RowLosses losses;
  FineTuneOptions orpo = options(folder_.preferences(), "orpo");
  orpo.objective = "orpo";
  orpo.beta = 0.7;
  orpo.batch = 8;
  orpo.steps = 1;
  fine_tune(orpo);
  double wanted = 0;
  const AnswerRows pairs = read_answer_rows(orpo.data, &tokenizer, {}, losses);
  for (std::size_t i = 0; i < pairs.texts.size(); i += 2) {
    const double better = mean_logprob(pairs.texts[i]), worse = mean_logprob(pairs.texts[i + 1]);
    const auto log_odds = [](double p) { return p - std::log1p(-std::exp(p)); };
    wanted += (-better + 0.7 * std::log1p(std::exp(log_odds(worse) - log_odds(better)))) / 8;
  }
  EXPECT_NEAR(first_loss(orpo.folder), wanted, 1e-4);

  FineTuneOptions distilled = options(folder_.completions(3), "distilled");
  distilled.teacher = folder_.path("Q4_K.gguf").string();
  distilled.teacher_share = 0.25;
  distilled.temperature = 3;
  distilled.steps = 1;
  fine_tune(distilled);
  double sum = 0;
  std::int64_t count = 0;
  for (const AnswerText& text : read_answer_rows(distilled.data, &tokenizer, {}, losses).texts) {
    const Tensor theirs = log_softmax(answers_of(teacher, text) / 3.0, -1),
                 ours = log_softmax(answers_of(model, text) / 3.0, -1);
    const double divergence = (exp(theirs) * (theirs - ours)).sum().item<double>();
    sum += 0.25 * 9 * divergence - 0.75 * mean_logprob(text) * static_cast<double>(text.answers());
    count += text.answers();
  }
  // The teacher's products of blocks round x.
  EXPECT_NEAR(first_loss(distilled.folder), sum / static_cast<double>(count), 2e-3);
}

TEST_F(FineTuneOnCpu, RefusesOtherSettingsAndRowsOfARunThatGoesOn) {
  FineTuneOptions own = options(folder_.completions(), "run");
  own.steps = 2;
  fine_tune(own);
  const auto resume = [&](const char* name, const char* value) {
    FineTuneOptions again;
    SettingList list;
    again.add_to(list);
    if (name != nullptr) list.set(name, value, "the test");
    again.folder = own.folder;
    again.progress = again.forecast = false;
    again.existing = ExistingRun::resume;
    fine_tune(again, &list);
  };
  EXPECT_THAT([&] { resume("rank", "7"); }, ThrowsMessage<SettingError>(HasSubstr("rank is another one")));
  folder_.write("completions.jsonl", R"({"prompt": "a", "completion": "b"})");
  EXPECT_THAT([&] { resume(nullptr, ""); }, ThrowsMessage<FormatError>(HasSubstr("the rows are others")));
  EXPECT_THROW(fine_tune(own), FolderTaken);
}

TEST_F(FineTuneOnCpu, RefusesSettingsThatCannotBe) {
  const auto refuses = [&](auto change, const char* words) {
    FineTuneOptions own = options(folder_.completions(), "refused");
    own.existing = ExistingRun::overwrite;
    change(own);
    EXPECT_THAT([&] { fine_tune(own); }, ThrowsMessage<Error>(HasSubstr(words)));
  };
  refuses([](FineTuneOptions& o) { o.rank = 0; }, "rank is '0'");
  refuses([](FineTuneOptions& o) { o.batch = 0; }, "batch is '0'");
  refuses([](FineTuneOptions& o) { o.lr = std::nan(""); }, "lr is");
  refuses([](FineTuneOptions& o) { o.targets = "q_prog"; }, "no layer is named 'q_prog'");
  refuses([](FineTuneOptions& o) { o.targets = ","; }, "no target is named");
  refuses([](FineTuneOptions& o) { o.method = "qlora"; }, "method is 'qlora'");
  refuses([](FineTuneOptions& o) { o.patience = 2; }, "patience");
  refuses([](FineTuneOptions& o) { o.epochs = o.steps = 0; }, "how long to train");
  refuses([](FineTuneOptions& o) { o.objective = "dpo"; }, "the objective dpo learns from rows of");
  refuses([](FineTuneOptions& o) { o.objective = "teacher"; }, "no teacher is given");
  refuses([](FineTuneOptions& o) { o.folder = ""; }, "needs a folder");
  refuses([&](FineTuneOptions& o) { o.model = folder_.path("mute.gguf").string(); }, "without a tokenizer");
  refuses([](FineTuneOptions& o) { o.merge = "q9"; }, "Q9");
  refuses([](FineTuneOptions& o) { o.chat_format = "klingon"; }, "klingon");
}

/// Rows of tokens need none.
TEST_F(FineTuneOnCpu, TrainsAModelWithoutATokenizer) {
  const std::string rows = R"({"tokens": [1, 5, 6, 7, 8, 9], "learned": [0, 0, 1, 1, 1, 1]})"
                           "\n";
  for (const char* method : {"lora", "full"}) {
    FineTuneOptions own = options(folder_.write("tokens.jsonl", rows + rows + rows + rows), method);
    own.model = folder_.path("mute.gguf").string();
    own.method = method;
    own.merge = "f32";
    own.lr = 1e-2;
    own.epochs = 8;
    own.steps = 8;
    const FineTuneResult result = fine_tune(own);
    EXPECT_EQ(result.steps, 8);
    EXPECT_LT(*result.loss, 0.9 * first_loss(own.folder)) << method;
    EXPECT_TRUE(result.prompt.empty());
    ASSERT_TRUE(std::filesystem::exists(result.merged));
    EXPECT_EQ(models::load_model(result.merged).tokenizer, nullptr);
  }
  FineTuneOptions beyond = options(folder_.write("beyond.jsonl", R"({"tokens": [1, 999999]})"), "beyond");
  beyond.model = folder_.path("mute.gguf").string();
  EXPECT_THROW(fine_tune(beyond), FormatError);
}

TEST_F(FineTuneOnCpu, RefusesBadRowsByLine) {
  const std::string good = R"({"prompt": "a", "completion": "b"})"
                           "\n";
  const auto refuses = [&](const std::string& rows, const std::string& words) {
    FineTuneOptions own = options(folder_.write("bad.jsonl", rows), "refused");
    own.existing = ExistingRun::overwrite;
    EXPECT_THAT([&] { fine_tune(own); }, ThrowsMessage<FormatError>(AllOf(HasSubstr("bad.jsonl"), HasSubstr(words))));
  };
  refuses("", "no rows");
  refuses("\n \n", "no rows");
  refuses(good + "{\"prompt\": ", "line 2");
  refuses(good + "[1]", "line 2");
  refuses(good + R"({"question": "a"})", "line 2: there is none of 'messages'");
  refuses(good + R"({"text": "a"})", "line 2: the row has 'text', those before have 'prompt' and 'completion'");
  refuses(good + R"({"prompt": "a"})", "line 2: 'completion' is missing");
  refuses(good + R"({"prompt": 3, "completion": "b"})", "line 2: 'prompt' is 3");
  refuses(good + R"({"prompt": "a", "completion": [{"role": "assistant", "content": "b"}]})", "line 2");
  refuses(R"({"messages": []})", "line 1: 'messages'");
  refuses(R"({"messages": [{"role": "user", "content": "a"}]})", "chat template");
  refuses(R"({"prompt": "a", "completion": ""})"
          "\n"
          R"({"text": "a"})",
          "line 2");
}

}  // namespace
}  // namespace etna::training
