#include <etna/tensor/io/safetensors.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <etna/tensor/io/safetensors_header.h>
#include <etna/tensor/op.h>

static_assert(std::endian::native == std::endian::little,
              "files are little-endian, and tensors are written as they lie in memory");

namespace etna {
namespace {

namespace fs = std::filesystem;
using safetensors::Entry;
using safetensors::Header;

std::string reason() { return std::strerror(errno); }

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  /// True if the file closed without an error: some file systems report a full disk only here.
  bool close() { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

/// A read-only memory mapping of a file.
class Mapping {
 public:
  explicit Mapping(const fs::path& path) {
    File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) throw FormatError(fmt::format("{}: cannot be opened: {}", path.string(), reason()));
    struct stat info {};
    if (::fstat(file.get(), &info) != 0)
      throw FormatError(fmt::format("{}: cannot be read: {}", path.string(), reason()));
    if (!S_ISREG(info.st_mode)) {
      throw FormatError(fmt::format("{}: is {}, not a safetensors file", path.string(),
                                    S_ISDIR(info.st_mode) ? "a directory" : "no regular file"));
    }
    size_ = static_cast<std::size_t>(info.st_size);
    if (size_ == 0) return;
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (address == MAP_FAILED)
      throw FormatError(fmt::format("{}: cannot be mapped into memory: {}", path.string(), reason()));
    bytes_ = static_cast<const std::byte*>(address);
  }
  ~Mapping() {
    if (bytes_ != nullptr) ::munmap(const_cast<std::byte*>(bytes_), size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  const std::byte* bytes() const { return bytes_; }
  std::size_t size() const { return size_; }

 private:
  const std::byte* bytes_ = nullptr;
  std::size_t size_ = 0;
};

/// Reads the header and sets `data` to the first byte of the tensors.
Header read_header(const fs::path& path, const Mapping& file, const std::byte*& data) {
  auto refuse = [&](const std::string& what) { return FormatError(fmt::format("{}: {}", path.string(), what)); };
  if (file.size() == 0) throw refuse("is empty, not a safetensors file");
  std::uint64_t length = 0;
  if (file.size() < sizeof length)
    throw refuse(fmt::format("is {} bytes long, too short for a safetensors file", file.size()));
  std::memcpy(&length, file.bytes(), sizeof length);
  std::uint64_t rest = file.size() - sizeof length;
  if (length > safetensors::kMaxHeaderBytes)
    throw refuse(fmt::format("claims a header of {} bytes; this is no safetensors file, or a damaged one", length));
  if (length > rest)
    throw refuse(fmt::format("claims a header of {} bytes, but only {} follow; it is cut short", length, rest));
  data = file.bytes() + sizeof length + length;
  try {
    return safetensors::parse_header(
        {reinterpret_cast<const char*>(file.bytes()) + sizeof length, static_cast<std::size_t>(length)}, rest - length);
  } catch (const FormatError& error) {
    throw refuse(error.what());
  }
}

Tensor read_tensor(const Entry& entry, const std::byte* data, Device device) {
  const std::byte* bytes = data + entry.begin;
  if (entry.dtype != boolean) return from_bytes(bytes, entry.shape, entry.dtype, device);
  // The file may contain any byte; a bool in memory must be 0 or 1.
  std::vector<std::uint8_t> truth(static_cast<std::size_t>(entry.end - entry.begin));
  std::transform(bytes, bytes + truth.size(), truth.begin(),
                 [](std::byte b) { return b != std::byte{0} ? std::uint8_t{1} : std::uint8_t{0}; });
  return from_bytes(truth.data(), entry.shape, boolean, device);
}

/// Receives the bytes until the file is complete.
class TemporaryFile {
 public:
  explicit TemporaryFile(fs::path target) : target_(std::move(target)), file_(create()) {
    if (file_.get() < 0) fail();
  }
  ~TemporaryFile() {
    if (!finished_) ::unlink(name_.c_str());
  }

  void write(const void* bytes, std::size_t count) {
    const char* at = static_cast<const char*>(bytes);
    while (count > 0) {
      ssize_t written = ::write(file_.get(), at, std::min<std::size_t>(count, std::size_t{1} << 30));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail();
      at += written;
      count -= static_cast<std::size_t>(written);
    }
  }

  /// Renames the file to the target and flushes the directory, so that the new name survives a power loss.
  void finish() {
    struct stat old {};
    if (::stat(target_.c_str(), &old) == 0 && ::fchmod(file_.get(), old.st_mode & 07777) != 0) fail();
    if (::fsync(file_.get()) != 0 || !file_.close()) fail();
    if (::rename(name_.c_str(), target_.c_str()) != 0) fail();
    finished_ = true;
    File directory(
        ::open(target_.has_parent_path() ? target_.parent_path().c_str() : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.get() >= 0) ::fsync(directory.get());
  }

 private:
  /// Created beside the target, so that the rename stays within one file system, and with the permissions of a plain
  /// open().
  int create() {
    for (int attempt = 0;; ++attempt) {
      name_ = fmt::format("{}.{}-{}.tmp", target_.string(), ::getpid(), attempt);
      int descriptor = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor >= 0 || errno != EEXIST) return descriptor;
    }
  }
  [[noreturn]] void fail() const {
    throw FormatError(
        fmt::format("{}: cannot be written: {}; what was there is unchanged", target_.string(), reason()));
  }

  fs::path target_;
  std::string name_;
  File file_;
  bool finished_ = false;
};

}  // namespace

void save_safetensors(const fs::path& path, const NamedTensors& tensors, const Metadata& metadata) {
  std::vector<std::pair<Entry, Tensor>> ordered;
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__" || !names.insert(name).second) {
      throw FormatError(fmt::format("{}: '{}' cannot name a tensor: it is {}", path.string(), name,
                                    name == "__metadata__" ? "reserved" : "given twice"));
    }
    ordered.push_back({{name, tensor.dtype(), tensor.shape(), 0, 0}, tensor});
  }
  // Widest elements first, so that every tensor is aligned to its element size.
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return item_size(a.first.dtype) > item_size(b.first.dtype); });
  Header header{{}, metadata};
  std::uint64_t at = 0;
  for (auto& [entry, tensor] : ordered) {
    entry.begin = at;
    entry.end = at += byte_size(tensor.shape(), item_size(entry.dtype), "save_safetensors");
    header.entries.push_back(entry);
  }
  std::string text = safetensors::format_header(header);
  std::uint64_t length = text.size();
  // Follows a symbolic link: replaces what it points to, not the link.
  std::error_code missing;
  fs::path target = fs::is_symlink(path, missing) ? fs::weakly_canonical(path, missing) : path;
  TemporaryFile file(target.empty() ? path : target);
  file.write(&length, sizeof length);
  file.write(text.data(), text.size());
  GradMode off(false);
  for (const auto& [entry, tensor] : ordered) {
    Tensor host = tensor.contiguous().to(kCPU);
    if (host.numel() > 0) file.write(host.raw_data(), static_cast<std::size_t>(entry.end - entry.begin));
  }
  file.finish();
}

void save_safetensors(const fs::path& path, const std::map<std::string, Tensor>& tensors, const Metadata& metadata) {
  save_safetensors(path, NamedTensors(tensors.begin(), tensors.end()), metadata);
}

std::map<std::string, Tensor> load_safetensors(const fs::path& path, Device device) {
  Mapping file(path);
  const std::byte* data = nullptr;
  Header header = read_header(path, file, data);
  std::map<std::string, Tensor> tensors;
  for (const Entry& entry : header.entries) tensors.emplace(entry.name, read_tensor(entry, data, device));
  return tensors;
}

Metadata load_safetensors_metadata(const fs::path& path) {
  Mapping file(path);
  const std::byte* data = nullptr;
  return read_header(path, file, data).metadata;
}

}  // namespace etna
