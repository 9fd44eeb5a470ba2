#ifdef ETNA_WIKITEXT

#include <chrono>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cli/running_program.h>
#include <runner/rank_process.h>

#include "run_world.h"

// `etna chat`, `etna perplexity` and `etna bench` with a model that is divided over processes.
namespace etna {
namespace {

using testing::AllOf, testing::HasSubstr, testing::Not;

class CommandsWorld : public RunWorld {
 protected:
  std::string chat(const std::string& more = "") const {
    return "chat -m " + model() + " --device cpu --cache f32 -n 24 --temperature 0.7 --seed 5 --format chatml " + more;
  }
  /// With a model whose answers have no end.
  std::string endless_chat() const {
    data::VocabularyFields fields = some_fields();
    fields.eos.reset();
    fields.types[2] = 1;
    const data::ModelTokenizer tokenizer(fields);
    models::DecoderConfig config = models::small_config("llama");
    config.vocabulary = static_cast<std::int64_t>(tokenizer.size());
    config.context = 200'000;
    models::save_gguf_model(folder_ / "endless.gguf", *models::small_model(config), &tokenizer);
    return "chat -m '" + (folder_ / "endless.gguf").string() +
           "' --device cpu --gpus 2 --temperature 1 --top-k 0 --seed 3 -n 1000000 --format chatml ";
  }
  std::string with_input(const std::string& lines) {
    folder_.write("input", lines);
    return " < '" + (folder_ / "input").string() + "' ";
  }
};

TEST_F(CommandsWorld, AChatIsThatOfOneProcess) {
  const std::string input = with_input("the river\n\n/nothing\na b c\n/save /nowhere/chat.md\n/save\n/clear\n/help\n" +
                                       std::string(20'000, 'x') + "\nthe river\n/exit\nnot read\n");
  const std::string wanted = printed(chat() + input);
  ASSERT_THAT(wanted, AllOf(HasSubstr("unknown command /nothing"), HasSubstr("tokens with its markup; at most")));
  EXPECT_EQ(printed(chat("--gpus 2") + input), wanted);
  const std::string rest = with_input("the river");  // no end of the line, and no /exit
  EXPECT_EQ(printed(chat("--gpus 2") + rest), printed(chat() + rest));
  const std::string form =
      "--json-schema '{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"maxItems\": 3}' ";
  EXPECT_EQ(printed(chat(form + "--gpus 2") + rest), printed(chat(form) + rest));
  EXPECT_EQ(etna(chat("--gpus 2") + with_input("")).code, 0);
}

TEST_F(CommandsWorld, ErrorsOfAChatEndAllProcesses) {
  const Result template_error = etna(chat("--gpus 2 --format jinja") + with_input("a\n"));
  EXPECT_NE(template_error.code, 0) << template_error.output;
  EXPECT_THAT(template_error.output, Not(HasSubstr("launch:")));
  const Result schema = etna(chat("--gpus 2 --json-schema '{'") + with_input("a\n"));
  EXPECT_NE(schema.code, 0) << schema.output;
  const Result adapter = etna(chat("--gpus 2 --adapter " + model()) + with_input("a\n"));
  EXPECT_NE(adapter.code, 0);
  EXPECT_THAT(adapter.output, HasSubstr("an adapter's weights cannot be divided over processes"));
}

TEST_F(CommandsWorld, CtrlCEndsAnAnswerAndNotTheChat) {
  Running running(endless_chat() + "2>/dev/null");
  for (const char* question : {"the river\n", "a b c\n"}) {
    running.write(question);
    ASSERT_TRUE(running.wait_for(200)) << "no answer came: " << running.output();
    running.interrupt();
    running.write("/metrics\n");
    ASSERT_TRUE(running.wait_for(0, "cache: ")) << "the answer went on: " << running.output().size();
  }
  running.write("/exit\n");
  EXPECT_EQ(running.end(), 0);
}

TEST_F(CommandsWorld, OnATerminalTheFirstProcessReadsLines) {
  OnTerminal terminal(endless_chat() + "-q");
  ASSERT_TRUE(terminal.shows("> "));
  terminal.type("half a line\x03");
  ASSERT_TRUE(terminal.shows("/exit ends"));
  ASSERT_TRUE(terminal.shows("> "));
  terminal.type("/metrics\n");
  ASSERT_TRUE(terminal.shows("cache: "));
  ASSERT_TRUE(terminal.shows("> "));
  terminal.type("the river\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("\r\n> "));
  terminal.type("\x04");
  EXPECT_EQ(terminal.exit_code(), 0);
}

#ifdef __linux__

TEST_F(CommandsWorld, AKilledRankEndsTheChat) {
  for (const bool busy : {true, false}) {
    Running running(endless_chat() + "2>&1");
    running.write(busy ? "the river\n" : "/metrics\n");
    ASSERT_TRUE(running.wait_for(busy ? 200 : 0, busy ? "" : "cache: "));
    const pid_t other = process_of_rank(running.process(), 1);
    ASSERT_GT(other, 0);
    const auto begin = std::chrono::steady_clock::now();
    kill(other, SIGKILL);
    ASSERT_TRUE(running.wait_for(0, "rank 1 (")) << running.output();
    EXPECT_NE(running.end(), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    EXPECT_THAT(running.output(), HasSubstr("was killed by signal 9"));
  }
}

#endif

TEST_F(CommandsWorld, PerplexityIsThatOfOneProcess) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the river a b c. ";
  folder_.write("text", text);
  const std::string options =
      "perplexity -m " + model() + " --device cpu --cache f32 -q --chunk 64 -f '" + (folder_ / "text").string() + "' ";
  const std::string wanted = printed(options);
  ASSERT_THAT(wanted, HasSubstr("nats a token, perplexity "));
  EXPECT_EQ(printed(options + "--gpus 2"), wanted);
  EXPECT_EQ(printed("launch -n 2 -- " ETNA_PROGRAM " " + options), wanted);
  const Result missing = etna("perplexity -m " + model() + " --device cpu -f /nowhere.txt --gpus 2");
  EXPECT_EQ(missing.code, 4) << missing.output;
  EXPECT_THAT(missing.output, HasSubstr("/nowhere.txt"));
  EXPECT_EQ(missing.output.find("/nowhere.txt"), missing.output.rfind("/nowhere.txt")) << missing.output;
}

TEST_F(CommandsWorld, BenchMeasuresTheWholeJob) {
  const std::filesystem::path file = folder_ / "bench.json";
  const std::string options = "bench -m " + model() + " --device cpu -q -n 8 --repeat 1 --gpus 2 ";
  const Result two = etna(options + "-p 16 --sequences 2 --json '" + file.string() + "'");
  EXPECT_EQ(two.code, 0) << two.output;
  EXPECT_THAT(two.output, HasSubstr("2 x cpu"));
  EXPECT_EQ(two.output.find("2 x cpu"), two.output.rfind("2 x cpu")) << two.output;
  std::ifstream in(file);
  const auto json = nlohmann::json::parse(in);
  EXPECT_EQ(json["cpu"]["ranks"], 2);
  EXPECT_GT(json["cpu"]["decode_tokens_per_second"].get<double>(), 0);
  const Result long_prompt = etna(options + "--context 64 -p 100");
  EXPECT_EQ(long_prompt.code, 2) << long_prompt.output;
  EXPECT_THAT(long_prompt.output, HasSubstr("-p asks for a prompt of 100 tokens"));
}

}  // namespace
}  // namespace etna

#endif
