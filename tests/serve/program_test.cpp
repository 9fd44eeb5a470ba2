#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/model_file.h>
#include <etna/tensor/ops.h>
#include <etna/train/receipt.h>

#include "serve/serve_program.h"

// `etna serve` as a program: its start, its signals, and its end.
namespace etna::serve {
namespace {

using testing::HasSubstr;

TEST_F(ServeProgram, AnswersAndEndsAtSigterm) {
  ASSERT_TRUE(start()) << errors();
  EXPECT_EQ(status("/health"), 200);
  EXPECT_EQ(status("/v1/models/small"), 200) << "the file's name is the model's";
  EXPECT_EQ(end(SIGTERM), 0) << errors();
}

TEST_F(ServeProgram, LetsRunningAnswersFinish) {
  ASSERT_TRUE(start()) << errors();
  const RawConnection connection(port_);
  connection.post("/v1/completions", stream(1500));
  EXPECT_THAT(connection.receive("data: "), HasSubstr("200 OK"));
  ::kill(process_, SIGTERM);
  EXPECT_THAT(connection.receive("[DONE]"), HasSubstr("[DONE]"));
  EXPECT_EQ(wait(), 0) << errors();
}

TEST_F(ServeProgram, CutsAnswersThatTakeTooLongAtTheEnd) {
  ASSERT_TRUE(start({"--drain-seconds", "0"})) << errors();
  const RawConnection connection(port_);
  connection.post("/v1/completions", stream(4000));
  connection.receive("data: ");
  const auto begin = std::chrono::steady_clock::now();
  ::kill(process_, SIGINT);
  EXPECT_THAT(connection.receive(), HasSubstr("shutting_down")) << "the client is told";
  EXPECT_EQ(wait(), 0) << errors();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(ServeProgram, StartsAgainAfterKill) {
  ASSERT_TRUE(start()) << errors();
  const int port = port_;
  const RawConnection connection(port_);
  connection.post("/v1/completions", stream(4000));
  connection.receive("data: ");
  EXPECT_EQ(end(SIGKILL), -SIGKILL);
  ASSERT_TRUE(start({}, port)) << errors() << "; the port must be free at once";
  EXPECT_EQ(status("/health"), 200);
}

TEST_F(ServeProgram, ServesAdaptersByName) {
  const SmallModel model(1);
  model.decoder->add_adapters(2, 8, true);
  {
    const NoGrad no_grad;
    for (const auto& p : model.decoder->named_parameters())
      if (p.name.ends_with("lora_b")) Tensor(p.tensor).copy_(randn(p.tensor.shape()));
  }
  const std::string file = folder_ / "adapter.gguf";
  models::save_adapters(file, *model.decoder);
  const auto text = [&](const std::string& name) -> std::string {
    const std::string body = R"({"model": ")" + name + R"(", "prompt": "the", "temperature": 0, "max_tokens": 20})";
    const auto result = httplib::Client("127.0.0.1", port_).Post("/v1/completions", body, "application/json");
    return result ? nlohmann::json::parse(result->body)["choices"][0]["text"].get<std::string>() : "no reply";
  };
  ASSERT_TRUE(start({"--adapter", "one=" + file, "--adapter", "two=" + file, "--parallel", "3"})) << errors();
  const std::string plain = text("small"), adapted = text("one");
  EXPECT_NE(plain, adapted);
  EXPECT_EQ(text("two"), adapted);
  const auto slots = httplib::Client("127.0.0.1", port_).Get("/slots");
  EXPECT_EQ(nlohmann::json::parse(slots->body).size(), 3u) << "they share the slots";
  EXPECT_EQ(end(SIGTERM), 0) << errors();
  ASSERT_TRUE(start({"--adapter", file})) << errors();
  EXPECT_EQ(text("small"), adapted) << "a file without a name is for all";
  EXPECT_EQ(end(SIGTERM), 0) << errors();
  EXPECT_FALSE(start({"--adapter", file, "--adapter", file}));
  EXPECT_EQ(wait(), 4);
  EXPECT_THAT(errors(), HasSubstr("give this one a name"));
  EXPECT_FALSE(start({"--adapter", "small=" + file}));
  EXPECT_EQ(wait(), 4);
  EXPECT_THAT(errors(), HasSubstr("two models have the name 'small'"));
}

TEST_F(ServeProgram, AsksForKeysOfAFile) {
  std::ofstream(folder_ / "keys") << "abc\n";
  ASSERT_TRUE(start({"--api-key-file", (folder_ / "keys").string()})) << errors();
  EXPECT_EQ(status("/v1/models"), 401);
  EXPECT_EQ(status("/v1/models", {{"Authorization", "Bearer abc"}}), 200);
}

TEST_F(ServeProgram, WritesAReceiptOfAllItDid) {
  const std::filesystem::path file = folder_ / "receipt.json";
  if (!start({"--receipt", file.string(), "--receipts", "4"})) {
    ASSERT_THAT(errors(), HasSubstr("libcrypto"));
    GTEST_SKIP() << "this build has no libcrypto";
  }
  const std::string body = R"({"model": "small", "prompt": "the", "ignore_eos": true, "max_tokens": 5, "seed": 1})";
  httplib::Client client("127.0.0.1", port_);
  const auto first = client.Post("/v1/completions", {{"X-Etna-Receipt", "1"}}, body, "application/json");
  ASSERT_EQ(first->status, 200) << first->body;
  const auto of_one = client.Get("/receipts/" + first->get_header_value("X-Etna-Receipt-Id"));
  EXPECT_EQ(of_one->status, 200) << of_one->body;
  EXPECT_THAT(training::check_receipt(of_one->body).mismatches, testing::IsEmpty());
  EXPECT_EQ(client.Post("/v1/completions", body, "application/json")->status, 200);
  EXPECT_EQ(client.Post("/v1/completions", "{}", "application/json")->status, 400);
  EXPECT_EQ(end(SIGTERM), 0) << errors();

  std::ifstream written(file);
  const std::string text{std::istreambuf_iterator<char>(written), {}};
  EXPECT_THAT(training::check_receipt(text).mismatches, testing::IsEmpty()) << text;
  const Json json = Json::parse(text);
  EXPECT_EQ(json["compute_path"], "real");
  EXPECT_EQ(json["command"][1], "serve");
  EXPECT_EQ(json["files"][0]["role"], "model");
  EXPECT_EQ(json["numbers"]["sequences_finished"], 2);
  EXPECT_EQ(json["numbers"]["tokens_written"], 10);
  EXPECT_EQ(json["numbers"]["requests"], 4);
  EXPECT_EQ(json["numbers"]["requests_refused_or_failed"], 1);

  // Another one replaces it; another file is not replaced.
  ASSERT_TRUE(start({"--receipt", file.string()})) << errors();
  EXPECT_EQ(end(SIGINT), 0) << errors();
  EXPECT_FALSE(start({"--receipt", (folder_ / "small.gguf").string()}));
  EXPECT_NE(wait(), 0);
}

TEST_F(ServeProgram, SaysWhyItDoesNotStart) {
  EXPECT_FALSE(start({"--api-key-file", (folder_ / "none").string()}));
  EXPECT_EQ(wait(), 4);
  EXPECT_THAT(errors(), HasSubstr("none: the file of API keys cannot be read"));
  ASSERT_TRUE(start()) << errors();
  const pid_t first = std::exchange(process_, -1);
  EXPECT_FALSE(start({}, port_));
  EXPECT_EQ(wait(), 1);
  EXPECT_THAT(errors(), HasSubstr("another program may use the port"));
  process_ = first;
}

}  // namespace
}  // namespace etna::serve
