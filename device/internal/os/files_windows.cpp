#include <etna/device/internal/os/files.h>

#include <algorithm>
#include <string>

#include <windows.h>

namespace etna::os {
namespace {

namespace fs = std::filesystem;

std::error_code last_error() { return {static_cast<int>(::GetLastError()), std::system_category()}; }
std::error_code error_unless(BOOL done) { return done ? std::error_code() : last_error(); }

HANDLE as_handle(std::intptr_t handle) { return reinterpret_cast<HANDLE>(handle); }

/// Shared in every way, as files are elsewhere.
HANDLE open_handle(const fs::path& path, DWORD access, DWORD creation, DWORD attributes = FILE_ATTRIBUTE_NORMAL) {
  return ::CreateFileW(path.c_str(), access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr, creation,
                       attributes, nullptr);
}

FileInfo described(HANDLE handle, std::error_code& error) {
  error.clear();
  if (::GetFileType(handle) != FILE_TYPE_DISK) return {};
  BY_HANDLE_FILE_INFORMATION info{};
  error = error_unless(::GetFileInformationByHandle(handle, &info));
  if (error) return {};
  const auto joined = [](DWORD high, DWORD low) { return std::uint64_t{high} << 32 | low; };
  return {(info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0 ? FileKind::folder : FileKind::regular,
          joined(info.nFileSizeHigh, info.nFileSizeLow),
          {info.dwVolumeSerialNumber, joined(info.nFileIndexHigh, info.nFileIndexLow)}};
}

OVERLAPPED at_offset(std::uint64_t at) {
  OVERLAPPED place{};
  place.Offset = static_cast<DWORD>(at);
  place.OffsetHigh = static_cast<DWORD>(at >> 32);
  return place;
}

/// Locks bind all who read or write the locked bytes, so the byte lies where no file reaches.
constexpr std::uint64_t kLockedByte = std::uint64_t{1} << 62;

/// Removes a file that others may still read: the name goes at once.
void remove_aside(const fs::path& path) {
  if (::DeleteFileW(path.c_str()) == 0) ::MoveFileExW(path.c_str(), nullptr, MOVEFILE_DELAY_UNTIL_REBOOT);
}

}  // namespace

FileInfo file_info(const fs::path& path, std::error_code& error) {
  // Folders open only with this flag.
  const HANDLE handle = open_handle(path, FILE_READ_ATTRIBUTES, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
  if (handle == INVALID_HANDLE_VALUE) {
    error = last_error();
    return {};
  }
  const FileInfo info = described(handle, error);
  ::CloseHandle(handle);
  return info;
}

void check_access(const fs::path& path, Access access, std::error_code& error) {
  const HANDLE handle = open_handle(path, access == Access::read ? GENERIC_READ : GENERIC_WRITE, OPEN_EXISTING,
                                    FILE_FLAG_BACKUP_SEMANTICS);
  error = error_unless(handle != INVALID_HANDLE_VALUE);
  if (!error) ::CloseHandle(handle);
}

std::FILE* open_stream(const fs::path& path, const char* mode) {
  return ::_wfopen(path.c_str(), std::wstring(mode, mode + std::char_traits<char>::length(mode)).c_str());
}

void replace_file(const fs::path& from, const fs::path& to, std::error_code& error) {
  constexpr DWORD kReplace = MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH;
  error = error_unless(::MoveFileExW(from.c_str(), to.c_str(), kReplace));
  std::error_code ignored;
  if (!error || !fs::is_regular_file(to, ignored)) return;
  // A file that somebody has mapped cannot be replaced, but it can be renamed.
  fs::path aside = from;
  aside += L".old";
  if (::MoveFileExW(to.c_str(), aside.c_str(), kReplace) == 0) return;
  error = error_unless(::MoveFileExW(from.c_str(), to.c_str(), kReplace));
  if (error)
    ::MoveFileExW(aside.c_str(), to.c_str(), kReplace);
  else
    remove_aside(aside);
}

void File::open(const fs::path& path, Open how, std::error_code& error) {
  const DWORD access = how == Open::read                               ? GENERIC_READ
                       : how == Open::overwrite || how == Open::create ? GENERIC_WRITE
                                                                       : GENERIC_READ | GENERIC_WRITE;
  const DWORD creation = how == Open::read || how == Open::overwrite      ? OPEN_EXISTING
                         : how == Open::create || how == Open::append_new ? CREATE_NEW
                                                                          : OPEN_ALWAYS;
  // A folder can be opened to be read, as elsewhere: info() tells what it is.
  const DWORD attributes = how == Open::read ? FILE_FLAG_BACKUP_SEMANTICS : FILE_ATTRIBUTE_NORMAL;
  handle_ = reinterpret_cast<std::intptr_t>(open_handle(path, access, creation, attributes));
  appends_ = how == Open::append || how == Open::append_new;
  error = error_unless(is_open());
}

File::~File() {
  std::error_code ignored;
  close(ignored);
}

FileInfo File::info(std::error_code& error) const { return described(as_handle(handle_), error); }

std::size_t File::write(std::string_view bytes, std::error_code& error) {
  error.clear();
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto count = static_cast<DWORD>(std::min<std::size_t>(bytes.size() - done, std::size_t{1} << 30));
    OVERLAPPED end = at_offset(~std::uint64_t{0});  // stands for the end of the file
    DWORD written = 0;
    error =
        error_unless(::WriteFile(as_handle(handle_), bytes.data() + done, count, &written, appends_ ? &end : nullptr));
    done += written;
    if (error) break;
  }
  return done;
}

std::size_t File::read_at(std::uint64_t at, std::span<char> bytes) const {
  OVERLAPPED place = at_offset(at);
  const auto count = static_cast<DWORD>(std::min<std::size_t>(bytes.size(), std::size_t{1} << 30));
  DWORD got = 0;
  return ::ReadFile(as_handle(handle_), bytes.data(), count, &got, &place) ? got : 0;
}

void File::truncate(std::uint64_t bytes, std::error_code& error) {
  FILE_END_OF_FILE_INFO end{};
  end.EndOfFile.QuadPart = static_cast<LONGLONG>(bytes);
  error = error_unless(::SetFileInformationByHandle(as_handle(handle_), FileEndOfFileInfo, &end, sizeof end));
}

void File::flush(std::error_code& error) { error = error_unless(::FlushFileBuffers(as_handle(handle_))); }

void File::close(std::error_code& error) {
  error.clear();
  if (is_open()) error = error_unless(::CloseHandle(as_handle(std::exchange(handle_, kClosed))));
}

File::Lock File::lock() { return lock(true); }
File::Lock File::try_lock() { return lock(false); }

File::Lock File::lock(bool wait) {
  OVERLAPPED place = at_offset(kLockedByte);
  const DWORD flags = LOCKFILE_EXCLUSIVE_LOCK | (wait ? 0 : LOCKFILE_FAIL_IMMEDIATELY);
  if (::LockFileEx(as_handle(handle_), flags, 0, 1, 0, &place)) return Lock::held;
  const DWORD reason = ::GetLastError();
  return reason == ERROR_LOCK_VIOLATION || reason == ERROR_IO_PENDING ? Lock::busy : Lock::unsupported;
}

void File::unlock() {
  OVERLAPPED place = at_offset(kLockedByte);
  ::UnlockFileEx(as_handle(handle_), 0, 1, 0, &place);
}

const std::byte* File::map(std::size_t bytes, std::error_code& error) const {
  const HANDLE mapping = ::CreateFileMappingW(as_handle(handle_), nullptr, PAGE_READONLY, 0, 0, nullptr);
  error = error_unless(mapping != nullptr);
  if (error) return nullptr;
  const void* at = ::MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, bytes);
  error = error_unless(at != nullptr);
  ::CloseHandle(mapping);  // the view keeps it
  return static_cast<const std::byte*>(at);
}

void File::unmap(const std::byte* at, std::size_t) { ::UnmapViewOfFile(at); }

void close_descriptors(std::span<const int>) {}

}  // namespace etna::os
