#include <etna/device/internal/os/files.h>

#include <array>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/device/error.h>
#include <etna/device/internal/atomic_file.h>
#include <etna/device/internal/os/memory.h>
#include <etna/device/internal/os/process.h>
#include <etna/device/internal/platform.h>
#include <etna/device/output_file.h>

// Claims that hold on every system (device/internal/os/).
namespace etna::os {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Files, AppendGoesToTheEndWhoeverElseWrote) {
  const TemporaryFolder folder;
  std::error_code error;
  File one(folder / "log", File::Open::append, error);
  ASSERT_FALSE(error) << error.message();
  File other(folder / "log", File::Open::append, error);
  one.write("a\n", error);
  other.write("b\n", error);
  one.write("c\n", error);
  EXPECT_EQ(content(folder / "log"), "a\nb\nc\n");
  std::array<char, 2> part{};
  EXPECT_EQ(one.read_at(2, part), 2u);
  EXPECT_EQ(part[0], 'b');
  one.truncate(2, error);
  EXPECT_FALSE(error) << error.message();
  other.write("d\n", error);
  EXPECT_EQ(content(folder / "log"), "a\nd\n");
  EXPECT_EQ(one.info(error).bytes, 4u);
}

TEST(Files, AFileThatMustBeNewIsRefusedWhereOneIs) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("there", "old");
  for (const File::Open how : {File::Open::create, File::Open::append_new}) {
    std::error_code error;
    const File refused(file, how, error);
    EXPECT_EQ(error, std::errc::file_exists);
    EXPECT_FALSE(refused.is_open());
  }
  EXPECT_EQ(content(file), "old");
}

TEST(Files, AMissingFileIsToldFromOthers) {
  const TemporaryFolder folder;
  std::error_code error;
  const File missing(folder / "missing", File::Open::read, error);
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);
  file_info(folder / "missing", error);
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);
  EXPECT_EQ(file_info(folder.path(), error).kind, FileKind::folder);
  EXPECT_FALSE(error);
  const File opened(folder.path(), File::Open::read, error);
  if (!error) {
    EXPECT_EQ(opened.info(error).kind, FileKind::folder);
  }
}

TEST(Files, NamesOfOneFileHaveOneIdentity) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("a", "x"), other = folder.write("b", "x");
  fs::create_hard_link(file, folder / "c");
  std::error_code error;
  EXPECT_EQ(file_info(file, error).identity, file_info(folder / "c", error).identity);
  EXPECT_NE(file_info(file, error).identity, file_info(other, error).identity);
  EXPECT_EQ(file_info(file, error).kind, FileKind::regular);
}

TEST(Files, ALockIsBusyForOthersAndLetsThemRead) {
  if (!kHasThreads) GTEST_SKIP() << "files are the only process's own, and nobody else asks for them";
  const TemporaryFolder folder;
  std::error_code error;
  File one(folder / "lock", File::Open::update, error);
  ASSERT_EQ(one.try_lock(), File::Lock::held);
  one.write("42", error);
  EXPECT_FALSE(error) << error.message();
  {
    File other(folder / "lock", File::Open::update, error);
    EXPECT_EQ(other.try_lock(), File::Lock::busy);
    std::array<char, 8> owner{};
    EXPECT_EQ(other.read_at(0, owner), 2u);
    EXPECT_STREQ(owner.data(), "42");
    one.unlock();
    EXPECT_EQ(other.lock(), File::Lock::held);
    EXPECT_EQ(one.try_lock(), File::Lock::busy);
  }
  EXPECT_EQ(one.try_lock(), File::Lock::held) << "closing a file gives its lock back";
}

TEST(Files, AMappingOutlivesTheFileItCameFrom) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("old", "mapped bytes");
  std::error_code error;
  const std::byte* bytes = nullptr;
  {
    const File opened(file, File::Open::read, error);
    bytes = opened.map(12, error);
    ASSERT_FALSE(error) << error.message();
  }
  replace_file(folder.write("new", "others"), file, error);
  EXPECT_FALSE(error) << error.message();
  EXPECT_EQ(content(file), "others");
  EXPECT_EQ(std::memcmp(bytes, "mapped bytes", 12), 0);
  File::unmap(bytes, 12);
}

TEST(Files, AFileIsReplacedWhileAnotherReadsIt) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", "old");
  std::error_code error;
  const File reader(file, File::Open::read, error);
  io::write_file(file, "new");
  EXPECT_EQ(content(file), "new");
  std::array<char, 3> old{};
  EXPECT_EQ(reader.read_at(0, old), 3u);
  EXPECT_EQ(old[0], 'o');
}

TEST(Files, AFolderIsNotReplacedByAFile) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "there");
  const fs::path file = folder.write("file", "text");
  std::error_code error;
  os::replace_file(file, folder / "there", error);
  EXPECT_TRUE(error);
  EXPECT_TRUE(fs::is_directory(folder / "there"));
  EXPECT_TRUE(fs::exists(file));
}

TEST(Files, NamesAreUnicode) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / fs::path(u8"Ätna – 火山.txt");
  io::write_file(file, "1\n2\n");
  EXPECT_EQ(content(file), "1\n2\n") << "without a change of line ends";
  std::error_code error;
  EXPECT_EQ(file_info(file, error).bytes, 4u);
  std::FILE* stream = open_stream(file, "rb");
  ASSERT_NE(stream, nullptr);
  std::fclose(stream);
}

TEST(Files, AFailedWriteLeavesNoTemporaryFile) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", "old");
  {
    io::AtomicFile given_up(file);
    given_up.write("new");
  }
  EXPECT_EQ(content(file), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  EXPECT_THAT([&] { io::write_file(folder / "missing" / "file", ""); },
              testing::ThrowsMessage<FormatError>(HasSubstr("cannot be written")));
}

TEST(Pages, AreZeroedAndCanBeWritten) {
  for (const std::size_t bytes : {std::size_t{1} << 16, std::size_t{5} << 20}) {
    std::error_code error;
    std::byte* at = take_pages(bytes, error);
    ASSERT_FALSE(error) << error.message();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % 64, 0u);
    EXPECT_EQ(at[0], std::byte{0});
    EXPECT_EQ(at[bytes - 1], std::byte{0});
    std::memset(at, 1, bytes);
    return_pages(at, bytes);
  }
  EXPECT_GT(memory_bytes(), 0u);
  EXPECT_LE(available_memory_bytes(), memory_bytes());
}

int last_signal = 0;

TEST(EndSignals, CallTheHandlerAndRestoreWhatWasThere) {
  {
    const EndSignals signals([](int signal) { last_signal = signal; });
    std::raise(SIGINT);
    EXPECT_EQ(last_signal, SIGINT);
    std::raise(SIGTERM);
    EXPECT_EQ(last_signal, SIGTERM);
  }
  EXPECT_EQ(std::signal(SIGINT, SIG_DFL), SIG_DFL);
  EXPECT_GT(process_id(), 0);
  EXPECT_NE(host_name(), "");
}

}  // namespace
}  // namespace etna::os
