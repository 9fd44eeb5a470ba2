#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include "serve/serve_program.h"

// Prefixes that outlive the program, also where it is killed.
namespace etna::serve {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

class CacheFile : public ServeProgram {
 protected:
  std::vector<std::string> options() const { return {"--cache-file", file()}; }
  std::string file() const { return (folder_ / "prefixes").string(); }
  /// Files beside the model that a save has not finished.
  std::vector<fs::path> half_written() const {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator at(fs::path(folder_ / ""), error), end; !error && at != end; at.increment(error))
      if (at->path().extension() == ".tmp") found.push_back(at->path());
    return found;
  }
  /// Tokens of a prompt that the cache had. @param kind prompts of one kind begin alike, those of two do not
  std::int64_t cached(int kind, std::size_t tokens = 1000) const {
    const Json body = {
        {"model", "small"}, {"prompt", std::vector<int>(tokens, 100 + kind)}, {"max_tokens", 1}, {"ignore_eos", true}};
    const auto result = post("/v1/completions", body);
    if (!result || result->status != 200) {
      ADD_FAILURE() << (result ? result->body : "no reply");
      return -1;
    }
    return Json::parse(result->body)["usage"]["prompt_tokens_details"]["cached_tokens"].get<std::int64_t>();
  }
};

TEST_F(CacheFile, IsWrittenAtTheEndAndReadAtTheStart) {
  ASSERT_TRUE(start(options())) << errors();
  EXPECT_EQ(cached(0), 0);
  EXPECT_EQ(end(SIGTERM), 0) << errors();
  struct stat info {};
  ASSERT_EQ(::stat(file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u) << "conversations are private";
  ASSERT_TRUE(start(options())) << errors();
  EXPECT_EQ(cached(0), 960) << "15 blocks of 64";
  EXPECT_EQ(cached(1), 0);
}

TEST_F(CacheFile, IsWrittenOnRequestWhileOthersStream) {
  ASSERT_TRUE(start(options())) << errors();
  const RawConnection other(port_);
  other.post("/v1/completions", stream(1000));
  other.receive("data: ");
  EXPECT_EQ(cached(0), 0);
  const auto saved = post("/slots/save", Json::object());
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->status, 200) << saved->body;
  EXPECT_GE(Json::parse(saved->body)["blocks"], 15) << saved->body;
  EXPECT_EQ(post("/slots/save", {{"model", "none"}})->status, 404);
  EXPECT_EQ(post("/slots/save", {{"filename", "/etc/passwd"}})->status, 400);
  EXPECT_THAT(other.receive("[DONE]"), HasSubstr("[DONE]"));
  EXPECT_EQ(end(SIGKILL), -SIGKILL);
  ASSERT_TRUE(start(options())) << errors();
  EXPECT_EQ(cached(0), 960);
}

TEST_F(CacheFile, IsWholeWheneverTheProgramIsKilled) {
  ASSERT_TRUE(start(options())) << errors();
  const int port = port_;
  cached(0);
  ASSERT_EQ(post("/slots/save", Json::object())->status, 200);
  int half = 0;
  for (int attempt = 0; attempt < 30 && half < 3; ++attempt) {
    // More to write each time, while a client streams.
    for (int more = 1; more < 4; ++more) cached(more, 4000);
    const RawConnection reader(port_);
    reader.post("/v1/completions", stream(4000));
    reader.receive("data: ");
    const auto inode = [&] {
      struct stat info {};
      return ::stat(file().c_str(), &info) == 0 ? info.st_ino : 0;
    };
    const auto before = inode();
    const RawConnection saver(port_);
    saver.post("/slots/save", "{}");
    // A save that ends unseen has replaced the file, and the stream goes on for a while only.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (half_written().empty() && inode() == before && std::chrono::steady_clock::now() < until) {}
    EXPECT_EQ(end(SIGKILL), -SIGKILL);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(reader.receive(), Not(HasSubstr("[DONE]"))) << "half a stream must not look whole";
    EXPECT_THAT(saver.receive(), AnyOf("", HasSubstr("200 OK")));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5)) << "clients must not hang";
    half += half_written().empty() ? 0 : 1;
    ASSERT_TRUE(start(options(), port)) << errors();
    EXPECT_EQ(errors(), "") << "the file is that of an earlier save, or of this one";
    EXPECT_TRUE(half_written().empty()) << "what was left over is removed";
    EXPECT_EQ(cached(0), 960);
  }
  EXPECT_GT(half, 0) << "no kill came while the file was written";
}

TEST_F(CacheFile, ThatIsDamagedIsNotUsed) {
  ASSERT_TRUE(start(options())) << errors();
  cached(0);
  EXPECT_EQ(end(SIGTERM), 0);
  const auto size = fs::file_size(file());
  {
    std::fstream bytes(file(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(static_cast<std::streamoff>(size - 1));
    bytes.put('\x7f');
  }
  ASSERT_TRUE(start(options())) << errors();
  EXPECT_THAT(errors(), HasSubstr("damaged"));
  EXPECT_EQ(cached(0), 0);
  EXPECT_EQ(end(SIGKILL), -SIGKILL);
  fs::resize_file(file(), size / 2);
  ASSERT_TRUE(start(options())) << errors();
  EXPECT_THAT(errors(), HasSubstr("read anew"));
  EXPECT_EQ(cached(0), 0);
  EXPECT_EQ(end(SIGTERM), 0) << "and it is replaced";
  ASSERT_TRUE(start(options())) << errors();
  EXPECT_EQ(cached(0), 960);
}

TEST_F(CacheFile, NeverReplacesAnotherFile) {
  EXPECT_FALSE(start({"--cache-file", (folder_ / "small.gguf").string()}));
  EXPECT_NE(wait(), 0);
  std::ofstream(folder_ / "notes") << "mine";
  EXPECT_FALSE(start({"--cache-file", (folder_ / "notes").string()}));
  EXPECT_NE(wait(), 0);
  EXPECT_THAT(errors(), HasSubstr("notes"));
  ASSERT_TRUE(start()) << errors();
  const auto refused = post("/slots/save", Json::object());
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 400);
  EXPECT_THAT(refused->body, HasSubstr("--cache-file"));
}

}  // namespace
}  // namespace etna::serve
