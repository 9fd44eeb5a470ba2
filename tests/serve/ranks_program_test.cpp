#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "runner/rank_process.h"
#include "serve/serve_program.h"

// `etna serve --gpus 2`: a model that is divided over processes, of which rank 0 serves.
namespace etna::serve {
namespace {

using testing::AllOf, testing::HasSubstr, testing::Not;

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class ServeRanks : public ServeProgram {
 protected:
  bool start_ranks(std::vector<std::string> more = {}, const std::string& ranks = "2") {
    more.insert(more.end(), {"--gpus", ranks});
    return start(more);
  }

  /// What a server answers to different kinds of requests, without times and ids.
  std::vector<std::string> answers() const {
    const Json base = {{"model", "small"}, {"prompt", "the river a"}, {"max_tokens", 24}, {"ignore_eos", true}};
    const auto completion = [&](const Json& more) {
      Json body = base;
      body.update(more);
      const auto result = post("/v1/completions", body);
      if (!result) return std::string("no reply");
      const Json json = Json::parse(result->body);
      if (result->status != 200) return json.dump();
      std::string all;
      for (const Json& choice : json["choices"]) all += choice["text"].dump() + choice["finish_reason"].dump();
      return all + json["usage"].dump();
    };
    std::vector<std::string> all;
    all.push_back(completion({{"temperature", 0}}));
    all.push_back(completion({{"temperature", 0}}));  // its prefix is cached
    all.push_back(completion({{"temperature", 1}, {"seed", 3}, {"n", 3}, {"top_p", 0.9}, {"min_p", 0.01}}));
    all.push_back(completion({{"temperature", 0.7},
                              {"seed", 4},
                              {"presence_penalty", 0.5},
                              {"frequency_penalty", 0.25},
                              {"logit_bias", {{"260", 2}}},
                              {"stop", {"e"}}}));
    all.push_back(completion({{"temperature", 1}, {"seed", 5}, {"ignore_eos", false}, {"regex", "(a|b| )*"}}));
    all.push_back(completion({{"prompt", ""}, {"max_tokens", 0}}));
    all.push_back(completion({{"prompt", {1, 2, 100'000}}}));
    const auto vector = post("/v1/embeddings", {{"model", "small"}, {"input", "the river"}});
    if (!vector || vector->status != 200) return {vector ? vector->body : "no embedding"};
    const Json embedding = Json::parse(vector->body);
    for (const Json& number : embedding["data"][0]["embedding"])
      all.push_back(fmt::format("{:.3f}", number.get<double>()));
    const auto scored =
        post("/v1/completions",
             {{"model", "small"}, {"prompt", "the river a"}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}});
    if (!scored || scored->status != 200) return {scored ? scored->body : "no log-probabilities"};
    const Json logprobs = Json::parse(scored->body);
    for (const Json& number : logprobs["choices"][0]["logprobs"]["token_logprobs"])
      if (!number.is_null()) all.push_back(fmt::format("{:.2f}", number.get<double>()));
    return all;
  }
};

TEST_F(ServeRanks, AnswersAsOneProcess) {
  ASSERT_TRUE(start()) << errors();
  const std::vector<std::string> wanted = answers();
  ASSERT_GT(wanted.size(), 20u) << testing::PrintToString(wanted);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_THAT(wanted[i], Not(HasSubstr("error")));
  EXPECT_EQ(end(SIGTERM), 0) << errors();
  ASSERT_TRUE(start_ranks()) << errors();
  EXPECT_EQ(answers(), wanted);
  // Many at once, which begin and end at different times.
  std::vector<std::thread> clients;
  std::vector<std::string> texts(6);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    clients.emplace_back([&, i] {
      const auto result = post("/v1/completions", {{"model", "small"},
                                                   {"prompt", "the river a"},
                                                   {"temperature", 0},
                                                   {"ignore_eos", true},
                                                   {"max_tokens", 24 + 10 * i}});
      texts[i] = result ? Json::parse(result->body)["choices"][0]["text"].get<std::string>() : "no reply";
    });
  }
  for (std::thread& client : clients) client.join();
  for (const std::string& text : texts) EXPECT_TRUE(text.starts_with(texts[0])) << text << "\n" << texts[0];
  EXPECT_EQ(end(SIGTERM), 0) << errors();
}

TEST_F(ServeRanks, SayHowManyTheyAre) {
  const std::filesystem::path file = folder_ / "receipt.json";
  const bool receipts = start_ranks({"--receipt", file.string()});
  if (!receipts) {
    ASSERT_THAT(errors(), HasSubstr("libcrypto"));
    wait();
    ASSERT_TRUE(start_ranks()) << errors();
  }
  httplib::Client client("127.0.0.1", port_);
  EXPECT_EQ(Json::parse(client.Get("/health")->body)["ranks"], 2);
  EXPECT_EQ(Json::parse(client.Get("/slots")->body)[0]["ranks"], 2);
  EXPECT_THAT(client.Get("/metrics")->body, HasSubstr("\netna_ranks 2\n"));
  EXPECT_EQ(end(SIGINT), 0) << errors();
  if (receipts) {
    EXPECT_EQ(Json::parse(content_of(file))["numbers"]["ranks"], 2);
  }
}

TEST_F(ServeRanks, LetRunningAnswersFinish) {
  ASSERT_TRUE(start_ranks()) << errors();
  const RawConnection connection(port_);
  connection.post("/v1/completions", stream(300));
  EXPECT_THAT(connection.receive("data: "), HasSubstr("200 OK"));
  ::kill(process_, SIGTERM);
  EXPECT_THAT(connection.receive("[DONE]"), HasSubstr("[DONE]"));
  EXPECT_EQ(wait(), 0) << errors();
}

TEST_F(ServeRanks, GoOnAfterClientsLeave) {
  ASSERT_TRUE(start_ranks({"--parallel", "1"})) << errors();
  for (int i = 0; i < 3; ++i) {
    const RawConnection connection(port_);
    connection.post("/v1/completions", stream(4000));
    connection.receive("data: ");
  }
  const auto result = post("/v1/completions", {{"model", "small"}, {"prompt", "the"}, {"max_tokens", 4}});
  ASSERT_TRUE(result) << errors();
  EXPECT_EQ(result->status, 200) << result->body;
  EXPECT_EQ(end(SIGTERM), 0) << errors();
}

TEST_F(ServeRanks, WaitLongForTheNextRequest) {
  environment_ = {{"ETNA_LATE_SECONDS", "1"}};
  ASSERT_TRUE(start_ranks()) << errors();
  for (int i = 0; i < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    const auto result = post("/v1/completions", {{"model", "small"}, {"prompt", "the"}, {"max_tokens", 4}});
    ASSERT_TRUE(result) << errors();
    EXPECT_EQ(result->status, 200) << result->body;
  }
  EXPECT_EQ(end(SIGTERM), 0) << errors();
}

TEST_F(ServeRanks, AreRefusedWhatCannotBeDivided) {
  EXPECT_FALSE(start_ranks({"--adapter", "a=" + (folder_ / "small.gguf").string()}));
  EXPECT_EQ(wait(), 2);
  EXPECT_THAT(errors(), AllOf(HasSubstr("--adapter: an adapter's weights cannot be divided over processes"),
                              Not(HasSubstr("mpirun"))));
  EXPECT_FALSE(start_ranks({"--cache-file", (folder_ / "prefixes").string()}));
  EXPECT_EQ(wait(), 2);
  EXPECT_THAT(errors(), HasSubstr("--cache-file: a model that is divided over processes"));
  EXPECT_FALSE(start_ranks({}, "3"));
  EXPECT_EQ(wait(), 4);
  EXPECT_THAT(errors(), HasSubstr("cannot be divided over 3 ranks"));
  EXPECT_FALSE(start_ranks({"--api-key-file", (folder_ / "none").string()}));
  EXPECT_EQ(wait(), 4);
  EXPECT_THAT(errors(), HasSubstr("none: the file of API keys cannot be read"));
}

#ifdef __linux__

TEST_F(ServeRanks, AKilledRankEndsTheServer) {
  for (const bool busy : {true, false}) {
    ASSERT_TRUE(start_ranks({"--parallel", "1"})) << errors();
    const RawConnection running(port_), waiting(port_);
    if (busy) {
      running.post("/v1/completions", stream(4000));
      EXPECT_THAT(running.receive("data: "), HasSubstr("200 OK"));
      waiting.post("/v1/completions", R"({"model": "small", "prompt": "the", "max_tokens": 4})");
    }
    const auto begin = std::chrono::steady_clock::now();
    const pid_t other = process_of_rank(process_, 1);
    ASSERT_GT(other, 0);
    ::kill(other, SIGKILL);
    if (busy) {
      EXPECT_THAT(running.receive(), AllOf(HasSubstr("the model cannot run any more"), HasSubstr("rank 1 (")));
      EXPECT_THAT(waiting.receive(), HasSubstr("503 Service Unavailable"));
    }
    EXPECT_NE(wait(), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    EXPECT_THAT(errors(), AllOf(HasSubstr("rank 1 ("), HasSubstr("was killed by signal 9")));
  }
}

TEST_F(ServeRanks, EndWithTheProcessThatStartedThem) {
  ASSERT_TRUE(start_ranks()) << errors();
  const pid_t first = process_of_rank(process_, 0), other = process_of_rank(process_, 1);
  ASSERT_GT(first, 0);
  ASSERT_GT(other, 0);
  EXPECT_EQ(end(SIGKILL), -SIGKILL);
  EXPECT_TRUE(soon([&] { return ::kill(first, 0) != 0 && ::kill(other, 0) != 0; }));
}

#endif

}  // namespace
}  // namespace etna::serve
