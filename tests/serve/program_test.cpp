#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST_F(ServeProgram, AsksForKeysOfAFile) {
  std::ofstream(folder_ / "keys") << "abc\n";
  ASSERT_TRUE(start({"--api-key-file", (folder_ / "keys").string()})) << errors();
  EXPECT_EQ(status("/v1/models"), 401);
  EXPECT_EQ(status("/v1/models", {{"Authorization", "Bearer abc"}}), 200);
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
