#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>

#include "serve/small_server.h"

// What clients do wrong, and what goes wrong: the server answers, and goes on.
namespace etna::serve {
namespace {

using testing::AnyOf;
using testing::Ge;
using testing::HasSubstr;
using testing::StartsWith;

std::string long_answer(bool stream, const char* more = "") {
  return std::string(R"({"model": "small", "prompt": "the", "ignore_eos": true, "max_tokens": 4000, "stream": )") +
         (stream ? "true" : "false") + more + "}";
}

class Faults : public testing::Test {
 protected:
  /// After each fault: nothing runs, no sequence is left in the generator, and the server answers.
  void TearDown() override {
    if (!server) return;
    EXPECT_TRUE(server->idle());
    server->engine.run("test", [&] {
      EXPECT_EQ(server->model.generator->running(), 0);
      EXPECT_EQ(server->model.generator->cache().stats().in_use, 0);
    });
    const auto [status, reply] =
        server->ask("/v1/completions", {{"model", "small"}, {"prompt", "the"}, {"max_tokens", 2}});
    EXPECT_EQ(status, 200) << reply;
  }
  std::unique_ptr<SmallServer> server = std::make_unique<SmallServer>();
};

TEST_F(Faults, AClientThatLeavesMidStreamFreesItsSlot) {
  {
    const RawConnection connection(server->port);
    connection.post("/v1/completions", long_answer(true));
    EXPECT_THAT(connection.receive("data: "), HasSubstr("200 OK"));
    EXPECT_EQ(server->engine.state().running, 1);
  }
  EXPECT_TRUE(server->idle());
  EXPECT_EQ(server->engine.state().cancelled, 1u);
  EXPECT_LT(server->engine.state().tokens, 4000u);
}

TEST_F(Faults, AClientThatLeavesWhileItWaitsForAWholeAnswerFreesItsSlot) {
  {
    const RawConnection connection(server->port);
    connection.post("/v1/completions", long_answer(false));
    EXPECT_TRUE(soon([&] { return server->engine.state().running == 1; }));
  }
  EXPECT_TRUE(server->idle());
  EXPECT_EQ(server->engine.state().cancelled, 1u);
}

TEST_F(Faults, AClientThatLeavesTheQueueLosesItsPlace) {
  std::vector<std::unique_ptr<RawConnection>> running;
  for (int i = 0; i < 2; ++i) {
    running.push_back(std::make_unique<RawConnection>(server->port));
    running.back()->post("/v1/completions", long_answer(true));
    running.back()->receive("data: ");
  }
  auto waiting = std::make_unique<RawConnection>(server->port);
  waiting->post("/v1/completions", long_answer(false));
  EXPECT_TRUE(soon([&] { return server->engine.state().waiting == 1; }));
  waiting->close();
  EXPECT_TRUE(soon([&] { return server->engine.state().waiting == 0; }));
  EXPECT_EQ(server->engine.state().running, 2);
}

TEST_F(Faults, AReaderThatStopsReadingDoesNotHoldUpOthers) {
  server.reset();
  server = std::make_unique<SmallServer>(HttpOptions{.write_seconds = 1},
                                         EngineOptions{.stall_time = std::chrono::seconds(1)});
  const RawConnection connection(server->port);
  connection.post("/v1/completions", long_answer(true));
  for (int i = 0; i < 3; ++i) {
    const auto [status, reply] =
        server->ask("/v1/completions", {{"model", "small"}, {"prompt", "the"}, {"max_tokens", 20}});
    EXPECT_EQ(status, 200) << reply;
  }
}

TEST_F(Faults, ABodyOf100MegabytesIsRefused) {
  const std::string body(100 << 20, ' ');
  const auto result = server->post("/v1/completions", body);
  ASSERT_TRUE(result) << httplib::to_string(result.error());
  EXPECT_EQ(result->status, 413);
  EXPECT_THAT(result->body, HasSubstr("body_too_large"));
}

TEST_F(Faults, AnEndlessChunkedBodyIsCut) {
  const RawConnection connection(server->port);
  connection.send("POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
  for (int i = 0; i < 200 && connection.send(chunk); ++i) {}
  EXPECT_THAT(connection.receive(), HasSubstr("HTTP/1.1 413"));
}

TEST_F(Faults, ACompressedBodyMayNotGrow) {
  // 64 MiB of spaces as gzip: the library decompresses while it reads.
  const std::string path = testing::TempDir() + "/etna_serve_bomb.gz";
  ASSERT_EQ(std::system(("head -c 67108864 /dev/zero | gzip > " + path).c_str()), 0);
  std::ifstream file(path, std::ios::binary);
  const std::string body((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::remove(path.c_str());
  ASSERT_LT(body.size(), 1u << 20);
  const auto result = server->client().Post("/tokenize", {{"Content-Encoding", "gzip"}}, body, "application/json");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 413) << result->body;
}

TEST_F(Faults, TenThousandHeadersAreRefused) {
  const RawConnection connection(server->port);
  std::string head = "GET /health HTTP/1.1\r\n";
  for (int i = 0; i < 10'000; ++i) head += "X-" + std::to_string(i) + ": 1\r\n";
  connection.send(head + "\r\n");
  EXPECT_THAT(connection.receive(), StartsWith("HTTP/1.1 431"));
}

TEST_F(Faults, AnEndlessHeaderIsRefused) {
  const RawConnection connection(server->port);
  connection.send("GET /health HTTP/1.1\r\nX-Long: ");
  for (int i = 0; i < 64 && connection.send(std::string(65'536, 'x')); ++i) {}
  EXPECT_THAT(connection.receive(), StartsWith("HTTP/1.1 4"));
}

TEST_F(Faults, WhatIsNoHttpIsRefused) {
  for (const char* text : {"\r\n\r\n", "HELLO\r\n\r\n", "GET  HTTP/1.1\r\n\r\n", "GET /health HTTP/9.9\r\n\r\n",
                           "POST /tokenize HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                           "POST /tokenize HTTP/1.1\r\nContent-Length: 99999999999999999999\r\nContent-Type: "
                           "application/json\r\n\r\n"}) {
    const RawConnection connection(server->port);
    connection.send(text);
    const std::string reply = connection.receive();
    EXPECT_THAT(reply, AnyOf("", StartsWith("HTTP/1.1 4"))) << text;
  }
}

TEST_F(Faults, AHeadThatNeverEndsIsCutInTime) {
  server.reset();
  server = std::make_unique<SmallServer>(HttpOptions{.head_seconds = 1});
  const RawConnection connection(server->port);
  connection.send("GET /health HTTP/1.1\r\nX-Slow");
  EXPECT_THAT(connection.receive(), AnyOf("", StartsWith("HTTP/1.1 4")));
}

TEST_F(Faults, ABodyThatNeverEndsIsCutInTime) {
  server.reset();
  server = std::make_unique<SmallServer>(HttpOptions{.body_seconds = 1});
  const RawConnection connection(server->port);
  connection.send("POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_THAT(connection.receive(), StartsWith("HTTP/1.1 408"));
}

TEST_F(Faults, AFullQueueIsSaidAtOnce) {
  server.reset();
  server = std::make_unique<SmallServer>(HttpOptions{}, EngineOptions{.max_queue = 1}, ServiceOptions{}, 1);
  std::vector<std::unique_ptr<RawConnection>> held;
  for (int i = 0; i < 2; ++i) {
    held.push_back(std::make_unique<RawConnection>(server->port));
    held.back()->post("/v1/completions", long_answer(true));
    EXPECT_TRUE(soon([&] {
      const EngineState state = server->engine.state();
      return state.running + state.waiting == i + 1;
    }));
  }
  const auto result = server->post("/v1/completions", long_answer(false));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 429);
  EXPECT_THAT(std::atoi(result->get_header_value("Retry-After").c_str()), Ge(1));
  EXPECT_EQ(server->get("/health").second["waiting"], 1) << "others are answered";
}

TEST_F(Faults, MoreConnectionsThanAllowedAreAnswered) {
  server.reset();
  server = std::make_unique<SmallServer>(HttpOptions{.connections = 4});
  std::vector<std::unique_ptr<RawConnection>> held;
  for (int i = 0; i < 4; ++i) {
    held.push_back(std::make_unique<RawConnection>(server->port));
    held.back()->send("GET /health HTTP/1.1\r\n\r\n");
    EXPECT_THAT(held.back()->receive("running"), HasSubstr("200 OK"));
  }
  const auto result = server->client().Get("/health");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 503);
  EXPECT_THAT(result->body, HasSubstr("too_many_connections"));
  held.clear();
  EXPECT_TRUE(soon([&] { return server->client().Get("/health")->status == 200; }));
}

TEST_F(Faults, SixtyFourStreamsRunAtOnce) {
  std::vector<std::thread> clients;
  std::atomic<int> whole = 0;
  for (int i = 0; i < 64; ++i) {
    clients.emplace_back([&] {
      const auto result =
          server->post("/v1/completions",
                       R"({"model": "small", "prompt": "the", "ignore_eos": true, "max_tokens": 30, "stream": true})");
      if (result && result->status == 200 && result->body.ends_with("data: [DONE]\n\n")) ++whole;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(whole, 64);
  EXPECT_EQ(server->engine.state().finished, 64u);
}

TEST_F(Faults, WhileDrainingNothingNewIsTaken) {
  const RawConnection connection(server->port);
  connection.post("/v1/completions",
                  R"({"model": "small", "prompt": "the", "ignore_eos": true, "max_tokens": 300, "stream": true})");
  connection.receive("data: ");
  server->engine.drain();
  const auto result = server->post("/v1/completions", long_answer(false));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 503);
  EXPECT_EQ(result->get_header_value("Retry-After"), "10");
  EXPECT_EQ(server->get("/health").second["status"], "draining");
  EXPECT_THAT(connection.receive("[DONE]"), HasSubstr("[DONE]"));
  EXPECT_TRUE(server->idle());
  server.reset();
}

TEST_F(Faults, ALostDeviceIsSaid) {
  const RawConnection connection(server->port);
  connection.post("/v1/completions", long_answer(true));
  connection.receive("data: ");
  EXPECT_THROW(server->engine.run("test", [] { throw DeviceLost("vulkan:0 was lost"); }), DeviceLost);
  EXPECT_THAT(connection.receive(), HasSubstr("device_lost"));
  EXPECT_EQ(server->post("/v1/completions", long_answer(false))->status, 503);
  const auto [status, health] = server->get("/health");
  EXPECT_EQ(status, 503);
  EXPECT_EQ(health["status"], "error");
  server.reset();
}

TEST_F(Faults, AStreamThatIsSilentIsKeptOpenByComments) {
  server.reset();
  server = std::make_unique<SmallServer>(HttpOptions{}, EngineOptions{}, ServiceOptions{.comment_seconds = 1}, 1);
  const RawConnection first(server->port), second(server->port);
  first.post("/v1/completions", long_answer(true));
  first.receive("data: ");
  second.post("/v1/completions", long_answer(true));
  EXPECT_THAT(second.receive(": waiting"), HasSubstr("200 OK"));
}

}  // namespace
}  // namespace etna::serve
