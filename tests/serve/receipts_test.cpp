#include <gmock/gmock.h>

#include <etna/serve/receipts.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops.h>
#include <etna/train/internal/sha256.h>
#include <etna/train/receipt.h>

#include "data/temporary_folder.h"
#include "serve/small_server.h"

// Receipts of requests: the header X-Etna-Receipt, and GET /receipts/{id}.
namespace etna::serve {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const httplib::Headers kAsk = {{"X-Etna-Receipt", "1"}};

class ReceiptOfARequest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      training::Sha256();
    } catch (const Error&) {
      GTEST_SKIP() << "this build has no libcrypto";
    }
  }
  void start(std::size_t kept = 8, HttpOptions http = {}) {
    folder_.write("model.gguf", "weights");
    service_ = std::make_unique<training::Receipt>(training::ReceiptProgram{"etna", "0", {"etna", "serve"}});
    service_->file("model", folder_ / "model.gguf");
    service_->hash_now();
    receipts_ = std::make_unique<Receipts>(*service_, kept);
    ServiceOptions options;
    options.receipts = receipts_.get();
    server_ = std::make_unique<SmallServer>(std::move(http), EngineOptions{}, options);
  }
  void TearDown() override { server_.reset(); }

  static Json body(int tokens, bool stream = false) {
    return {{"model", "small"}, {"prompt", "the river"}, {"ignore_eos", true}, {"max_tokens", tokens},
            {"seed", 7},        {"stream", stream},      {"temperature", 0}};
  }
  httplib::Result post(const Json& body, httplib::Headers headers = kAsk,
                       const std::string& path = "/v1/completions") const {
    return server_->client().Post(path, headers, body.dump(), "application/json");
  }
  /// The receipt of a reply.
  std::pair<int, Json> receipt_of(const httplib::Result& reply, const httplib::Headers& headers = {}) const {
    return SmallServer::read(
        server_->client().Get("/receipts/" + reply->get_header_value("X-Etna-Receipt-Id"), headers));
  }
  static Json error_of(const httplib::Result& reply) { return Json::parse(reply->body)["error"]; }

  TemporaryFolder folder_;
  std::unique_ptr<training::Receipt> service_;
  std::unique_ptr<Receipts> receipts_;
  std::unique_ptr<SmallServer> server_;
};

TEST_F(ReceiptOfARequest, StatesWhatItReadWroteAndRan) {
  start();
  const auto reply = post(body(6));
  ASSERT_EQ(reply->status, 200) << reply->body;
  EXPECT_FALSE(Json::parse(reply->body).contains("receipt")) << "clients' types stay as they are";
  const auto [status, json] = receipt_of(reply);
  ASSERT_EQ(status, 200) << json;
  EXPECT_EQ(json["compute_path"], "real");
  EXPECT_EQ(json["numbers"]["tokens_written"], 6);
  EXPECT_EQ(json["numbers"]["sequences"], 1);
  EXPECT_GT(json["numbers"]["tokens_read"], 0);
  EXPECT_EQ(json["numbers"]["tokens_cached"], 0);
  EXPECT_GE(json["numbers"]["steps"], 6);
  EXPECT_EQ(json["numbers"]["shared_with"], 0) << "it ran alone";
  EXPECT_EQ(json["seeds"]["sampling"], 7);
  EXPECT_EQ(json["request"]["endpoint"], "POST /v1/completions");
  EXPECT_EQ(json["request"]["model"], "small");
  EXPECT_EQ(json["request"]["finish"], "length");
  EXPECT_EQ(json["request"]["request_id"], reply->get_header_value("X-Request-Id"));
  EXPECT_EQ(json["files"][0]["bytes"], 7);
  EXPECT_GT(json["totals"]["on_selected_device"], 0);
  EXPECT_GE(json["totals"]["replays"], 3) << "tokens are written by replays";
}

TEST_F(ReceiptOfARequest, IsVerifiedAndShown) {
  start();
  const auto reply = post(body(3));
  const std::string text = server_->client().Get("/receipts/" + reply->get_header_value("X-Etna-Receipt-Id"))->body;
  EXPECT_THAT(training::check_receipt(text).mismatches, IsEmpty());
  EXPECT_THAT(training::receipt_summary(text), HasSubstr("endpoint POST /v1/completions"));
  EXPECT_EQ(server_->client().Get("/receipts/" + reply->get_header_value("X-Etna-Receipt-Id"))->body, text)
      << "it is the same each time";
  folder_.write("model.gguf", "weightz");
  EXPECT_THAT(training::check_receipt(text).mismatches, testing::ElementsAre(HasSubstr("its SHA-256 is")));
  const std::string later = server_->client().Get("/receipts/" + reply->get_header_value("X-Etna-Receipt-Id"))->body;
  EXPECT_THAT(later, HasSubstr("changed_during_run")) << "a file that is not the one that was loaded";
}

TEST_F(ReceiptOfARequest, CountsCachedTokensAndSeveralTexts) {
  start();
  Json asked = body(4);
  std::vector<int> prompt(200, 260);
  prompt[0] = 1;
  asked["prompt"] = prompt;
  EXPECT_EQ(post(asked)->status, 200);
  asked["n"] = 2;
  const auto [status, json] = receipt_of(post(asked));
  EXPECT_EQ(json["numbers"]["sequences"], 2);
  EXPECT_EQ(json["numbers"]["tokens_written"], 8);
  EXPECT_GT(json["numbers"]["tokens_cached"], 0);
  EXPECT_EQ(json["numbers"]["tokens_cached"].get<int>() + json["numbers"]["tokens_read"].get<int>(), 400);
  EXPECT_EQ(json["seeds"]["sampling 1"], 8);
  EXPECT_EQ(json["request"]["finish"], "length, length");
  EXPECT_EQ(json["numbers"]["shared_with"], 0) << "its own texts are no others";
}

TEST_F(ReceiptOfARequest, OfAStreamCanBeReadAtItsEnd) {
  start();
  const auto reply = post(body(40, true));
  ASSERT_THAT(reply->body, HasSubstr("[DONE]"));
  const auto [status, json] = receipt_of(reply);
  ASSERT_EQ(status, 200) << json;
  EXPECT_EQ(json["numbers"]["tokens_written"], 40);
}

TEST_F(ReceiptOfARequest, SaysThatOthersRan) {
  start();
  const RawConnection other(server_->port);
  other.post("/v1/completions", body(3000, true).dump());
  other.receive("data: ");
  auto [status, json] = receipt_of(post(body(5)));
  EXPECT_EQ(json["numbers"]["shared_with"], 1) << "one ran already";
  EXPECT_EQ(json["compute_path"], "real");

  // One that begins later, and is not finished when its receipt is asked for.
  const RawConnection first(server_->port);
  first.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Etna-Receipt: 1\r\nContent-Type: "
      "application/json\r\nContent-Length: " +
      std::to_string(body(2000, true).dump().size()) + "\r\n\r\n" + body(2000, true).dump());
  const std::string head = first.receive("\r\n\r\n");
  const std::size_t at = head.find("X-Etna-Receipt-Id: ");
  ASSERT_NE(at, std::string::npos) << head;
  const std::string id = head.substr(at + 19, head.find('\r', at) - at - 19);
  const auto early = server_->client().Get("/receipts/" + id);
  EXPECT_EQ(early->status, 409);
  EXPECT_EQ(early->get_header_value("Retry-After"), "1");
  EXPECT_EQ(error_of(early)["code"], "receipt_not_finished");
}

TEST_F(ReceiptOfARequest, OfAClientThatLeftSaysSo) {
  start();
  std::string id;
  {
    const RawConnection leaving(server_->port);
    const std::string text = body(3500, true).dump();
    leaving.send(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Etna-Receipt: 1\r\nContent-Type: "
        "application/json\r\nContent-Length: " +
        std::to_string(text.size()) + "\r\n\r\n" + text);
    const std::string head = leaving.receive("data: ");
    const std::size_t at = head.find("X-Etna-Receipt-Id: ");
    ASSERT_NE(at, std::string::npos) << head;
    id = head.substr(at + 19, head.find('\r', at) - at - 19);
  }
  ASSERT_TRUE(server_->idle());
  const auto [status, json] = server_->get("/receipts/" + id);
  ASSERT_EQ(status, 200) << json;
  EXPECT_EQ(json["request"]["finish"], "cancelled");
  EXPECT_LT(json["numbers"]["tokens_written"], 3500);
}

TEST_F(ReceiptOfARequest, AForcedReferenceShows) {
  start();
  // In the engine's thread, between the steps of a request.
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) {
      server_->engine.run("other", [] {
        const Override compose(&Overrides::compose_ops, true);
        softmax(ones({2, 3}), 1);
      });
    }
  });
  const auto [status, json] = receipt_of(post(body(200)));
  done = true;
  other.join();
  ASSERT_EQ(status, 200) << json;
  EXPECT_EQ(json["compute_path"], "reference");
  EXPECT_EQ(json["references"][0]["op"], "softmax");
  EXPECT_GT(json["numbers"]["shared_with"], 0) << "and who may have caused it";
}

TEST_F(ReceiptOfARequest, AForcedFallbackShows) {
  std::optional<Device> gpu;
  for (const AdapterInfo& adapter : adapters())
    if (adapter.device.is_vulkan() && adapter.rejected.empty()) gpu = adapter.device;
  if (!gpu) GTEST_SKIP() << "no usable Vulkan device";
  start();
  const bool before = strict();
  set_strict(false);
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) server_->engine.run("other", [&] { linalg::eigh(eye(4, 4, {f32, *gpu})); });
  });
  const auto [status, json] = receipt_of(post(body(200)));
  done = true;
  other.join();
  set_strict(before);
  ASSERT_EQ(status, 200) << json;
  EXPECT_EQ(json["compute_path"], "fallback");
  EXPECT_EQ(json["fallbacks"][0]["op"], "eigh");
}

TEST_F(ReceiptOfARequest, HasAReadableIdOnlyForTheKeyThatAsked) {
  HttpOptions http;
  http.keys = {"alpha", "beta"};
  start(8, http);
  httplib::Headers asked = kAsk;
  asked.emplace("Authorization", "Bearer alpha");
  const auto reply = post(body(2), asked);
  ASSERT_EQ(reply->status, 200);
  EXPECT_EQ(receipt_of(reply, {{"Authorization", "Bearer alpha"}}).first, 200);
  EXPECT_EQ(receipt_of(reply, {{"Authorization", "Bearer beta"}}).first, 404);
  EXPECT_EQ(receipt_of(reply).first, 401);
}

TEST_F(ReceiptOfARequest, OnlyTheLastOnesAreKept) {
  start(2);
  const auto first = post(body(1)), second = post(body(1)), third = post(body(1));
  EXPECT_EQ(receipt_of(first).first, 404);
  EXPECT_EQ(receipt_of(second).first, 200);
  EXPECT_EQ(receipt_of(third).first, 200);
  const auto none = server_->client().Get("/receipts/receipt_0");
  EXPECT_EQ(error_of(none)["code"], "receipt_not_found");
  EXPECT_THAT(none->body, HasSubstr("the last 2 requests"));
}

TEST_F(ReceiptOfARequest, IsNotMadeForRequestsThatAreRefusedOrDoNotAsk) {
  start();
  EXPECT_FALSE(post(body(1), {})->has_header("X-Etna-Receipt-Id"));
  const auto refused = post({{"model", "small"}});
  EXPECT_EQ(refused->status, 400);
  EXPECT_FALSE(refused->has_header("X-Etna-Receipt-Id"));
}

TEST_F(ReceiptOfARequest, OfOtherEndpointsIsRefused) {
  start();
  for (const char* wrong : {"0", "true", "1, 1", "yes"}) {
    const auto reply = post(body(1), {{"X-Etna-Receipt", wrong}});
    EXPECT_EQ(reply->status, 400) << wrong;
    EXPECT_EQ(error_of(reply)["param"], "X-Etna-Receipt");
  }
  EXPECT_EQ(post(body(1), {{"X-Etna-Receipt", "1"}, {"X-Etna-Receipt", "1"}})->status, 400);
  const auto embedded = post({{"model", "small"}, {"input", "a"}}, kAsk, "/v1/embeddings");
  EXPECT_EQ(embedded->status, 400);
  EXPECT_THAT(embedded->body, HasSubstr("writes no text"));
  EXPECT_EQ(server_->client().Get("/v1/models", kAsk)->status, 400);
  const auto message =
      post({{"model", "small"}, {"max_tokens", 2}, {"messages", Json::array({{{"role", "user"}, {"content", "a"}}})}},
           kAsk, "/v1/messages");
  EXPECT_EQ(message->status, 200) << message->body;
  EXPECT_EQ(receipt_of(message).second["request"]["endpoint"], "POST /v1/messages");
}

TEST(ReceiptsOfRequests, AreRefusedWhereNothingIsCounted) {
  const SmallServer server;
  const auto reply =
      server.client().Post("/v1/completions", kAsk, R"({"model": "small", "prompt": "a"})", "application/json");
  EXPECT_EQ(reply->status, 400);
  EXPECT_THAT(reply->body, HasSubstr("--receipts"));
  EXPECT_EQ(Json::parse(reply->body)["error"]["code"], "receipts_disabled");
  EXPECT_EQ(server.get("/receipts/receipt_1").first, 404);
}

}  // namespace
}  // namespace etna::serve
