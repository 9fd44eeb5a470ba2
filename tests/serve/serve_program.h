#pragma once

#include <csignal>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <etna/models/model_file.h>

#include "data/temporary_folder.h"
#include "serve/small_server.h"

namespace etna::serve {

/// `etna serve` as a program, with a small random model.
class ServeProgram : public testing::Test {
 protected:
  void SetUp() override {
    const SmallModel model(1);
    models::save_gguf_model(folder_ / "small.gguf", *model.decoder, &model.tokenizer);
  }
  void TearDown() override {
    if (process_ > 0) end(SIGKILL);
  }

  /// Starts the program. @return whether it serves
  bool start(const std::vector<std::string>& more = {}, int port = 0) {
    int out[2];
    EXPECT_EQ(::pipe(out), 0);
    std::vector<std::string> words = {ETNA_PROGRAM,
                                      "serve",
                                      (folder_ / "small.gguf").string(),
                                      "--device",
                                      device_,
                                      "--port",
                                      std::to_string(port),
                                      "--chat-format",
                                      "chatml",
                                      "-q"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const std::string error_file = (folder_ / "errors").string();
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::close(out[0]);
      const int errors = ::open(error_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(errors, STDERR_FILENO);
      for (const auto& [name, value] : environment_) ::setenv(name.c_str(), value.c_str(), 1);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(out[1]);
    std::string line;
    for (char byte = 0; ::read(out[0], &byte, 1) == 1 && byte != '\n';) line += byte;
    ::close(out[0]);
    const std::size_t colon = line.rfind(':');
    port_ = colon == std::string::npos ? 0 : std::atoi(line.c_str() + colon + 1);
    return port_ > 0;
  }
  /// @return the exit code, or minus the signal
  int end(int signal) {
    ::kill(process_, signal);
    return wait();
  }
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(process_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string errors() const {
    std::ifstream file(folder_ / "errors");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  int status(const std::string& path, const httplib::Headers& headers = {}) const {
    const auto result = httplib::Client("127.0.0.1", port_).Get(path, headers);
    return result ? result->status : 0;
  }
  static std::string stream(int tokens) {
    return R"({"model": "small", "prompt": "the", "ignore_eos": true, "stream": true, "max_tokens": )" +
           std::to_string(tokens) + "}";
  }

  httplib::Result post(const std::string& path, const Json& body) const {
    httplib::Client client("127.0.0.1", port_);
    client.set_read_timeout(60);
    return client.Post(path, body.dump(), "application/json");
  }

  TemporaryFolder folder_;
  std::string device_ = "cpu";
  std::vector<std::pair<std::string, std::string>> environment_;  ///< of the program, besides this one's
  pid_t process_ = -1;
  int port_ = 0;
};

}  // namespace etna::serve
