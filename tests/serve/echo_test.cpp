#include <cmath>

#include <gmock/gmock.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>

#include "serve/script_model.h"
#include "serve/small_server.h"

// POST /v1/completions with `echo` and `logprobs`, by which texts are scored.
namespace etna::serve {
namespace {

const std::vector<std::int32_t> kText = {1, 260, 97, 265, 267, 98, 261, 266, 99, 260};

Json scored(Json prompt, int max_tokens = 1, int logprobs = 2) {
  return {{"model", "small"}, {"prompt", std::move(prompt)}, {"max_tokens", max_tokens},
          {"temperature", 0}, {"ignore_eos", true},          {"logprobs", logprobs},
          {"echo", true}};
}

/// As the model computes them from all logits; to be called before the first request.
std::vector<float> expected_of(const SmallServer& server, const std::vector<std::int32_t>& text) {
  const NoGrad no_grad;
  const Tensor all = log_softmax(server.model.generator->logits(text).to(f32), -1);
  std::vector<float> own;
  for (std::size_t i = 1; i < text.size(); ++i)
    own.push_back(all.select(0, static_cast<std::int64_t>(i) - 1).select(0, text[i]).item<float>());
  return own;
}

void expect_scores(const Json& logprobs, const std::vector<float>& expected) {
  ASSERT_GT(logprobs["token_logprobs"].size(), expected.size());
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null()) << "nothing comes before the first token";
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(logprobs["token_logprobs"][i + 1].get<float>(), expected[i], 1e-4) << "token " << i + 1;
}

TEST(Echo, ScoresTheTokensOfAPrompt) {
  const SmallServer server;
  const std::vector<float> expected = expected_of(server, kText);
  const auto [status, reply] = server.ask("/v1/completions", scored(kText));
  ASSERT_EQ(status, 200) << reply;
  const Json& logprobs = reply["choices"][0]["logprobs"];
  for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
    EXPECT_EQ(logprobs[list].size(), kText.size() + 1) << list;
  expect_scores(logprobs, expected);
  for (std::size_t i = 1; i < kText.size(); ++i) {
    double best = -1e9;
    for (const auto& [text, logprob] : logprobs["top_logprobs"][i].items())
      best = std::max(best, logprob.get<double>());
    EXPECT_GE(best, logprobs["token_logprobs"][i].get<double>() - 1e-6);
  }
  EXPECT_EQ(reply["usage"]["prompt_tokens"], kText.size());
  EXPECT_EQ(reply["usage"]["completion_tokens"], 1);
  // Where each token begins in the text.
  const std::string text = reply["choices"][0]["text"];
  EXPECT_EQ(logprobs["text_offset"][0], 0);
  for (std::size_t i = 1; i <= kText.size(); ++i) {
    EXPECT_GE(logprobs["text_offset"][i], logprobs["text_offset"][i - 1]);
    EXPECT_LE(logprobs["text_offset"][i], text.size());
  }
}

TEST(Echo, NeedsNoNewToken) {
  const SmallServer server;
  const auto [status, reply] = server.ask("/v1/completions", scored("the river a b c", 0));
  ASSERT_EQ(status, 200) << reply;
  EXPECT_EQ(reply["choices"][0]["text"], "the river a b c");
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(reply["choices"][0]["logprobs"]["tokens"].size(), reply["usage"]["prompt_tokens"]);
  const auto one = server.ask("/v1/completions", scored(Json::array({5}), 0)).second;
  EXPECT_EQ(one["choices"][0]["logprobs"]["token_logprobs"], Json::array({nullptr})) << one;
}

TEST(Echo, HasOneTokenMoreAlsoWhereTheTextEnds) {
  const ScriptModel model({"Hi"}, "vicuna");
  Engine engine({model.served});
  Service service(engine);
  HttpServer server(service, {.port = 0, .log = false});
  httplib::Client client("127.0.0.1", server.start());
  Json body = scored(Json::array({84, 257}));
  body["model"] = "script";
  body.erase("ignore_eos");
  const auto reply = client.Post("/v1/completions", body.dump(), "application/json");
  ASSERT_EQ(reply->status, 200) << reply->body;
  const Json choice = Json::parse(reply->body)["choices"][0];
  EXPECT_EQ(choice["logprobs"]["token_logprobs"].size(), 3u) << "the last is that of the end";
  body["max_tokens"] = 5;
  const Json more = Json::parse(client.Post("/v1/completions", body.dump(), "application/json")->body);
  EXPECT_EQ(more["choices"][0]["finish_reason"], "stop");
  server.stop();
}

TEST(Echo, ScoresLongAndSeveralPrompts) {
  const SmallServer server;
  std::vector<std::int32_t> longer;
  for (std::int32_t i = 0; i < 700; ++i) longer.push_back(1 + i * 37 % 267);
  const std::vector<float> expected = expected_of(server, kText), expected_longer = expected_of(server, longer);
  Json body = scored({longer, kText}, 2, 0);
  body["n"] = 2;
  const auto [status, reply] = server.ask("/v1/completions", body);
  ASSERT_EQ(status, 200) << reply;
  ASSERT_EQ(reply["choices"].size(), 4u);
  for (int i = 0; i < 4; ++i) {
    const Json& logprobs = reply["choices"][i]["logprobs"];
    const std::vector<std::int32_t>& text = i < 2 ? longer : kText;
    EXPECT_EQ(logprobs["tokens"].size(), text.size() + 2);
    expect_scores(logprobs, i < 2 ? expected_longer : expected);
  }
}

TEST(Echo, StreamsTheSame) {
  const SmallServer server;
  Json body = scored(kText, 3);
  const Json whole = server.ask("/v1/completions", body).second["choices"][0];
  body["stream"] = true;
  const auto streamed = server.post("/v1/completions", body.dump());
  Json joined = {{"tokens", Json::array()}, {"token_logprobs", Json::array()}, {"text_offset", Json::array()}};
  std::string text;
  std::size_t at = 0;
  while ((at = streamed->body.find("data: {", at)) != std::string::npos) {
    const Json chunk = Json::parse(streamed->body.substr(at + 6, streamed->body.find('\n', at) - at - 6));
    at += 6;
    const Json& choice = chunk["choices"][0];
    text += choice["text"].get<std::string>();
    if (choice["logprobs"].is_null()) continue;
    for (auto& [name, list] : joined.items())
      for (const Json& value : choice["logprobs"][name]) list.push_back(value);
  }
  EXPECT_EQ(text, whole["text"].get<std::string>());
  EXPECT_EQ(joined["tokens"], whole["logprobs"]["tokens"]);
  EXPECT_EQ(joined["text_offset"], whole["logprobs"]["text_offset"]);
  EXPECT_EQ(joined["token_logprobs"].size(), kText.size() + 3);
}

TEST(Echo, GoesOnBesideOtherRequests) {
  const SmallServer server;
  const std::vector<float> expected = expected_of(server, kText);
  const RawConnection other(server.port);
  other.post("/v1/completions", R"({"model": "small", "prompt": "a", "max_tokens": 400, "stream": true,
                                    "ignore_eos": true, "temperature": 0})");
  other.receive("data: ");
  for (int i = 0; i < 5; ++i)
    expect_scores(server.ask("/v1/completions", scored(kText)).second["choices"][0]["logprobs"], expected);
  EXPECT_THAT(other.receive("[DONE]"), testing::HasSubstr("[DONE]"));
}

TEST(Echo, RefusesWhatCannotBeScored) {
  const SmallServer server;
  const auto code = [&](const Json& body) {
    const auto [status, reply] = server.ask("/v1/completions", body);
    EXPECT_EQ(status, 400) << reply;
    return reply["error"]["code"];
  };
  EXPECT_EQ(code(scored(std::vector<int>(5000, 7))), "context_length_exceeded");
  EXPECT_EQ(code(scored(Json::array({1, 1 << 30}))), "invalid_value");
  EXPECT_EQ(code(scored(kText, 1, 21)), "invalid_value");
}

}  // namespace
}  // namespace etna::serve
