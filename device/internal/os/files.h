#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

/// What std::filesystem and streams lack of files: locks, appending, mapping, flushing to the disk. Failures come as
/// error codes, since the callers know what to tell.
namespace etna::os {

enum class FileKind { regular, folder, other };  ///< other: a device, a pipe, a terminal

struct FileInfo {
  FileKind kind = FileKind::other;
  std::uint64_t bytes = 0;
  std::pair<std::uint64_t, std::uint64_t> identity;  ///< equal for all names of one file
};

/// Follows links.
FileInfo file_info(const std::filesystem::path& path, std::error_code& error);

enum class Access { read, write };
/// Leaves an error where this process may not do that with the file.
void check_access(const std::filesystem::path& path, Access access, std::error_code& error);

/// std::fopen() for a path in any characters, which to read does not wait for the writer of a pipe.
std::FILE* open_stream(const std::filesystem::path& path, const char* mode);

/// Puts `from` in the place of `to`, in one step for everybody else, so that the new name survives a power loss.
void replace_file(const std::filesystem::path& from, const std::filesystem::path& to, std::error_code& error);

/// An open file, which child processes do not inherit. Other processes may open, rename and remove it meanwhile.
class File {
 public:
  enum class Open {
    read,        ///< does not wait for the writer of a pipe
    overwrite,   ///< writes into what is there
    create,      ///< an error where it exists
    append,      ///< made where it is missing; each write goes to the end, whoever else writes
    append_new,  ///< the same; an error where it exists
    update,      ///< reads and writes; made where it is missing
  };

  File() = default;
  File(const std::filesystem::path& path, Open how, std::error_code& error) { open(path, how, error); }
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void open(const std::filesystem::path& path, Open how, std::error_code& error);
  bool is_open() const { return handle_ != kClosed; }
  FileInfo info(std::error_code& error) const;
  /// @return the number of bytes written; fewer than asked for after an error
  std::size_t write(std::string_view bytes, std::error_code& error);
  /// @return the number of bytes read; 0 after an error
  std::size_t read_at(std::uint64_t at, std::span<char> bytes) const;
  void truncate(std::uint64_t bytes, std::error_code& error);
  /// Returns when the disk has the bytes.
  void flush(std::error_code& error);
  void close(std::error_code& error);

  enum class Lock { held, busy, unsupported };  ///< unsupported: some network file systems
  /// A lock that holds between processes until unlock() or until the file is closed; reading and writing go on.
  Lock lock();      ///< waits
  Lock try_lock();  ///< busy where another one holds it
  void unlock();

  /// The file's first bytes, to read; to be given back by unmap(). Needs no open file any more.
  const std::byte* map(std::size_t bytes, std::error_code& error) const;
  static void unmap(const std::byte* at, std::size_t bytes);

 private:
  static constexpr std::intptr_t kClosed = -1;
  Lock lock(bool wait);

  std::intptr_t handle_ = kClosed;
  [[maybe_unused]] bool appends_ = false;  ///< POSIX leaves that to the file's own mode
};

/// POSIX only: of memory that other processes or APIs open. Those below 0 are left out.
void close_descriptors(std::span<const int> descriptors);

}  // namespace etna::os
