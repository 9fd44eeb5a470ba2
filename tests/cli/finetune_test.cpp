#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>

#include "etna_model.h"

// etna finetune and etna evaluate.
namespace etna {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class EtnaFinetune : public EtnaModel {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return quoted(folder_ / name);
  }
  /// A question in GSM8K's layout, and as a row to learn.
  std::string question() const { return write("task.jsonl", R"({"question": "a", "answer": "It is b. #### 7"})"); }
  std::string rows() const {
    std::string text;
    for (int i = 0; i < 4; ++i)
      text += R"({"prompt": "Question: a\nAnswer:", "completion": " #### 7"})"
              "\n";
    return write("rows.jsonl", text);
  }
  Result finetune(const std::string& rest, const std::string& run = "run") const {
    return etna(with_model("finetune") + "--no-forecast --seq 64 --valid 0 --sample-tokens 8 --out " +
                    quoted(folder_ / run) + " " + rest,
                "ETNA_RUNS=" + quoted(folder_ / "list"));
  }
  Result evaluate(const std::string& rest) const { return etna(with_model("evaluate") + "--quiet " + rest); }
  void expect_refused(const Result& run, int code, const std::string& why) const {
    EXPECT_EQ(run.code, code) << run.output;
    EXPECT_THAT(run.output, HasSubstr(why));
  }

  /// -log p of each token but the first.
  std::vector<double> losses(const std::string& text) const {
    static const data::ModelTokenizer tokenizer = some_tokenizer();
    const models::Model whole = models::load_model(model(), {.trainable = true});
    const std::vector<std::int32_t> ids = tokenizer.encode_prompt(text);
    const auto count = static_cast<std::int64_t>(ids.size());
    const NoGrad no_grad;
    const Tensor x = from_vector(ids, {1, count});
    return cross_entropy(whole.decoder->forward(x).select(0, 0).slice(0, 0, count - 1),
                         x.select(0, 0).slice(0, 1, count), -100, 0, Reduction::none)
        .to_vector<double>();
  }
};

TEST_F(EtnaFinetune, TeachesAnAnswerThatTheTableShows) {
  const Result trained =
      finetune("--data " + rows() + " --epochs 40 --lr 1e-2 --warmup 0 --receipt " + quoted(folder_ / "receipt.json"));
  EXPECT_EQ(trained.code, 0) << trained.output;
  EXPECT_THAT(trained.output, AllOf(HasSubstr("device: requested=cpu"), HasSubstr("are trained (lora)"),
                                    HasSubstr("after: "), HasSubstr("--adapter"), HasSubstr("#### 7")));
  EXPECT_EQ(etna("receipt check " + quoted(folder_ / "receipt.json")).code, 0);
  const Result scores = evaluate("--task " + question() + " --adapter " + quoted(folder_ / "run" / "adapter.gguf") +
                                 " --json " + quoted(folder_ / "scores.json"));
  EXPECT_EQ(scores.code, 0) << scores.output;
  std::ifstream file(folder_ / "scores.json");
  const nlohmann::json line = nlohmann::json::parse(file)["scores"][0];
  EXPECT_EQ(line["name"], "exact match");
  EXPECT_EQ(line["before"]["mean"], 0.0);
  EXPECT_EQ(line["after"]["mean"], 1.0);
}

TEST_F(EtnaFinetune, GoesOnAndRefusesWhatItCannotUse) {
  const std::string data = "--data " + rows() + " ";
  EXPECT_EQ(finetune(data + "--steps 1").code, 0);
  expect_refused(finetune(data + "--steps 1"), 4, "--resume goes on with it");
  expect_refused(finetune("--resume --rank 3"), 2, "rank is another one");
  const Result resumed =
      etna("finetune --device cpu --no-forecast --resume --epochs 2 --steps 2 --out " + quoted(folder_ / "run"),
           "ETNA_RUNS=" + quoted(folder_ / "list"));
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("resumed: "));
  EXPECT_THAT(etna("runs", "ETNA_RUNS=" + quoted(folder_ / "list")).output, HasSubstr("finished"));

  expect_refused(finetune(data + "--rank 0", "other"), 2, "rank is '0'");
  expect_refused(finetune(data + "--targets q_prog", "other"), 2, "q_prog");
  expect_refused(finetune("", "other"), 2, "data is not given");
  expect_refused(finetune("--data " + write("bad.jsonl", "{\n"), "other"), 4, "line 1");
  expect_refused(finetune("--data /nowhere.jsonl", "other"), 4, "/nowhere.jsonl");
  expect_refused(etna(with_model("finetune") + data), 2, "--out");
  expect_refused(etna(with_model("finetune") + data + "--out /proc/nothing"), 4, "/proc/nothing");
  EXPECT_THAT(finetune(data + "--print-config --lr 1e-3").output, HasSubstr("lr = 0.001"));
}

TEST_F(EtnaFinetune, ScoresChoicesByTheirLikelihood) {
  const std::vector<std::string> endings = {"the river a", "b", "c c c ."};
  std::string hellaswag, arc;
  for (const std::string context : {"the river", "a b", "c"}) {
    std::vector<double> plain, by_length;
    for (const std::string& ending : endings) {
      const std::vector<double> all = losses("Question: " + context + "\nAnswer: " + ending);
      const std::size_t before = losses("Question: " + context + "\nAnswer:").size();
      double sum = 0;
      for (std::size_t i = before; i < all.size(); ++i) sum -= all[i];
      plain.push_back(sum);
      by_length.push_back(sum / static_cast<double>(ending.size()));
    }
    const auto best = [](const std::vector<double>& scores) {
      return std::max_element(scores.begin(), scores.end()) - scores.begin();
    };
    arc += nlohmann::json{{"question", context},
                          {"choices", {{"text", endings}, {"label", {"A", "B", "C"}}}},
                          {"answerKey", std::string(1, static_cast<char>('A' + best(plain)))}}
               .dump() +
           "\n";
    hellaswag += nlohmann::json{{"ctx", "Question: " + context + "\nAnswer:"},
                                {"endings", endings},
                                {"label", std::to_string(best(by_length))}}
                     .dump() +
                 "\n";
  }
  const Result first = evaluate("--task " + write("arc.jsonl", arc) + " --cache f32");
  EXPECT_THAT(first.output, testing::ContainsRegex("accuracy +3 +1.0000 . 0.0000|accuracy +3 +1.0000 .. 0.0000"));
  const Result second = evaluate("--task " + write("hellaswag.jsonl", hellaswag) + " --cache f32");
  EXPECT_THAT(second.output, testing::ContainsRegex("by length +3 +1.0000"));
  EXPECT_THAT(evaluate("--limit 2 --task " + quoted(folder_ / "arc.jsonl")).output,
              testing::ContainsRegex("accuracy +2 "));
}

TEST_F(EtnaFinetune, MeasuresPerplexityByGroup) {
  const std::string texts = R"({"text": "the river a", "group": "x"})"
                            "\n"
                            R"({"text": "b c . the", "group": "y"})"
                            "\n"
                            R"({"text": "a a a", "group": "x"})"
                            "\n";
  EXPECT_EQ(
      evaluate("--cache f32 --task " + write("texts.jsonl", texts) + " --json " + quoted(folder_ / "s.json")).code, 0);
  std::ifstream file(folder_ / "s.json");
  const nlohmann::json scores = nlohmann::json::parse(file)["scores"];
  ASSERT_EQ(scores.size(), 3U);
  double nats = 0;
  std::size_t tokens = 0;
  for (const char* text : {"the river a", "a a a"})
    for (const double loss : losses(text)) {
      nats += loss;
      ++tokens;
    }
  EXPECT_EQ(scores[0]["name"], "perplexity, x");
  EXPECT_EQ(scores[0]["rows"], 2);
  const double wanted = std::exp(nats / static_cast<double>(tokens));
  EXPECT_NEAR(scores[0]["score"]["mean"].get<double>(), wanted, 2e-3 * wanted);
}

TEST_F(EtnaFinetune, EvaluationGoesOnWithItsRows) {
  const std::string texts = R"({"text": "the river a"})"
                            "\n"
                            R"({"text": "b c . the"})"
                            "\n";
  const std::string task = "--task " + write("texts.jsonl", texts) + " --out " + quoted(folder_ / "rows.out") + " ";
  EXPECT_EQ(evaluate(task + "--limit 1").code, 0);
  std::ofstream(folder_ / "rows.out", std::ios::app) << R"({"row": 1, "sco)";  // as a kill leaves it
  const Result rest = evaluate(task + "--resume"), whole = evaluate("--task " + quoted(folder_ / "texts.jsonl"));
  EXPECT_EQ(rest.code, 0) << rest.output;
  EXPECT_EQ(rest.output, whole.output);
  write("texts.jsonl", texts + R"({"text": "a b"})");
  expect_refused(evaluate(task + "--resume"), 4, "'task' is another one");
}

TEST_F(EtnaFinetune, EvaluationRefusesBadTasksByLine) {
  const auto refuses = [&](const std::string& rows, const std::string& why) {
    expect_refused(evaluate("--task " + write("bad.jsonl", rows)), 4, why);
  };
  refuses("", "no rows");
  refuses("{", "line 1");
  refuses(R"({"prompt": "a"})", "line 1: there is none of");
  refuses(R"({"text": "a b"})"
          "\n"
          R"({"question": "a", "answer": "#### 1"})",
          "line 2: the row has another layout");
  refuses(R"({"ctx": "a", "endings": ["b"], "label": 1})", "line 1: 'label' is no index");
  refuses(R"({"ctx": "a", "endings": [], "label": 0})", "line 1: 'endings' is no list");
  refuses(R"({"question": "a", "choices": {"text": ["b"], "label": ["A"]}, "answerKey": "B"})", "'answerKey'");
  refuses(R"({"question": "a", "answer": "7"})", "line 1: 'answer' does not end with");
  refuses(R"({"text": ""})", "line 1: the text has no token");
  expect_refused(evaluate("--pattern '(' --task " + question()), 4, "--pattern '('");
  expect_refused(evaluate("--chat --task " + question()), 4, "chat template");
}

}  // namespace
}  // namespace etna
