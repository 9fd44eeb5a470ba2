#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/serve_program.h"

// A device that is lost while `etna serve` writes: a fake one, after a number of transfers.
namespace etna::serve {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

class LostDevice : public ServeProgram {
 protected:
  void start_to_lose(const std::vector<std::string>& more = {}) {
    device_ = "fake:0";
    environment_ = {{"ETNA_STRICT", "0"}, {"ETNA_FAKE_DEVICE", "memory=256MiB, lost_after=1000"}};
    ASSERT_TRUE(start(more)) << errors();
  }
  /// Streams from several clients until each has come to its end. @return what they got
  std::vector<std::string> stream_all() const {
    std::vector<std::string> got(6);
    std::vector<std::thread> clients;
    for (std::string& text : got) {
      clients.emplace_back([&] {
        const RawConnection connection(port_);
        connection.post("/v1/completions", stream(4000));
        text = connection.receive("device_lost");
      });
    }
    for (std::thread& client : clients) client.join();
    return got;
  }
};

TEST_F(LostDevice, EndsAllStreamsAndIsSaid) {
  start_to_lose();
  for (const std::string& text : stream_all()) {
    EXPECT_THAT(text, HasSubstr("device_lost"));
    EXPECT_THAT(text, testing::Not(HasSubstr("[DONE]")));
  }
  const auto health = httplib::Client("127.0.0.1", port_).Get("/health");
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 503);
  EXPECT_THAT(health->body, HasSubstr("fake:0 was lost"));
  for (const char* path : {"/v1/completions", "/v1/embeddings"}) {
    Json body = {{"model", "small"}};
    body[std::string(path) == "/v1/embeddings" ? "input" : "prompt"] = "the";
    const auto refused = post(path, body);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->status, 503) << refused->body;
    EXPECT_THAT(refused->body, HasSubstr("device_lost"));
  }
  EXPECT_EQ(status("/metrics"), 200);
  EXPECT_EQ(end(SIGTERM), 0) << errors();
}

TEST_F(LostDevice, EndsTheProgramWhereThatIsAsked) {
  start_to_lose({"--exit-on-failure"});
  for (const std::string& text : stream_all()) EXPECT_THAT(text, AnyOf(HasSubstr("device_lost"), "")) << text;
  EXPECT_EQ(wait(), 3) << errors();
  EXPECT_THAT(errors(), HasSubstr("fake:0 was lost"));
}

TEST_F(LostDevice, IsFoundWhileThePromptIsReadToo) {
  device_ = "fake:0";
  // Whatever transfer is the last one, nobody waits for ever.
  for (int transfers = 1; transfers < 2000; transfers += 1 + transfers / 3) {
    environment_ = {{"ETNA_STRICT", "0"}, {"ETNA_FAKE_DEVICE", "lost_after=" + std::to_string(transfers)}};
    if (!start({"--no-warm-up"})) {
      EXPECT_GT(wait(), 0);
      EXPECT_THAT(errors(), HasSubstr("fake:0 was lost"));
      continue;
    }
    const auto result = post("/v1/completions",
                             {{"model", "small"}, {"prompt", "the river"}, {"max_tokens", 40}, {"ignore_eos", true}});
    ASSERT_TRUE(result) << transfers;
    EXPECT_THAT(result->status, AnyOf(200, 503)) << transfers << ": " << result->body;
    EXPECT_EQ(status("/health"), result->status) << transfers;
    EXPECT_EQ(end(SIGTERM), 0) << errors();
  }
}

}  // namespace
}  // namespace etna::serve
