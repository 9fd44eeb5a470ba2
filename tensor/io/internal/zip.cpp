#include <etna/tensor/io/internal/zip.h>

#include <algorithm>
#include <list>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/atomic_file.h>
#include <etna/tensor/io/internal/mapped_file.h>

#ifdef ETNA_HAS_LIBZIP
#include <zip.h>
#endif

namespace etna::io {

#ifdef ETNA_HAS_LIBZIP
namespace {

/// Deflate's best ratio: two bits of input for 258 bytes of output.
constexpr std::uint64_t kMostExpansion = 1032;

FormatError zip_refuse(const FilePath& path, const std::string& what) {
  return FormatError(fmt::format("{}: {}", path.string(), what));
}

std::string text_of(zip_error_t* error) {
  std::string text = zip_error_strerror(error);
  zip_error_fini(error);
  return text;
}

}  // namespace

struct ZipReader::Archive {
  Archive(const FilePath& path, const char* kind) : file(path, kind) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t* source = zip_source_buffer_create(file.bytes(), file.size(), 0, &error);
    if (source != nullptr) {
      zip = zip_open_from_source(source, ZIP_RDONLY, &error);
      if (zip == nullptr) zip_source_free(source);
    }
    if (zip == nullptr) throw zip_refuse(path, fmt::format("is not {}, or is cut short: {}", kind, text_of(&error)));
    zip_error_fini(&error);
  }
  ~Archive() { zip_discard(zip); }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  MappedFile file;
  zip_t* zip = nullptr;
};

ZipReader::ZipReader(const FilePath& path, const char* kind)
    : path_(path), archive_(std::make_unique<Archive>(path, kind)) {
  std::uint64_t left = archive_->file.size();
  const std::int64_t count = zip_get_num_entries(archive_->zip, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    zip_stat_t info;
    constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if (zip_stat_index(archive_->zip, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW, &info) != 0 ||
        (info.valid & kNeeded) != kNeeded) {
      throw zip_refuse(path, fmt::format("entry {} of the archive is damaged", i));
    }
    const std::string name = info.name;
    if ((info.valid & ZIP_STAT_ENCRYPTION_METHOD) && info.encryption_method != ZIP_EM_NONE)
      throw zip_refuse(path, fmt::format("entry '{}' is encrypted", name));
    if (info.comp_method != ZIP_CM_STORE && info.comp_method != ZIP_CM_DEFLATE)
      throw zip_refuse(path, fmt::format("entry '{}' is compressed by method {}; known are 0 (stored) and 8 (deflate)",
                                         name, info.comp_method));
    // With entries that share bytes of the file, a small file could claim any amount of memory.
    if (info.comp_size > left)
      throw zip_refuse(path, fmt::format("entry '{}' claims {} bytes of the file, but only {} are left", name,
                                         info.comp_size, left));
    left -= info.comp_size;
    const bool stored = info.comp_method == ZIP_CM_STORE;
    if (stored ? info.size != info.comp_size : info.size / kMostExpansion > info.comp_size)
      throw zip_refuse(path,
                       fmt::format("entry '{}' claims {} bytes from {} in the file", name, info.size, info.comp_size));
    entries_.push_back({name, info.size});
  }
}

ZipReader::~ZipReader() = default;

std::vector<std::byte> ZipReader::read(std::size_t entry) const {
  const Entry& wanted = entries_.at(entry);
  const auto fail = [&](const std::string& why) {
    return zip_refuse(path_, fmt::format("entry '{}' cannot be read: {}", wanted.name, why));
  };
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(zip_fopen_index(archive_->zip, entry, 0), zip_fclose);
  if (!file) throw fail(zip_strerror(archive_->zip));
  std::vector<std::byte> bytes;
  constexpr std::uint64_t kChunk = 1 << 22;
  // Reads one byte more than claimed, because libzip verifies the checksum at the end.
  for (std::uint64_t filled = 0;;) {
    bytes.resize(static_cast<std::size_t>(std::min(filled + kChunk, wanted.size + 1)));
    const std::int64_t got = zip_fread(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (got < 0) throw fail(zip_file_strerror(file.get()));
    filled += static_cast<std::uint64_t>(got);
    if (filled > wanted.size) throw fail(fmt::format("it has more than the {} bytes it claims", wanted.size));
    if (got == 0) {
      bytes.resize(static_cast<std::size_t>(filled));
      break;
    }
  }
  if (bytes.size() != wanted.size) throw fail(fmt::format("it ends after {} of {} bytes", bytes.size(), wanted.size));
  return bytes;
}

struct ZipWriter::Archive {
  explicit Archive(const FilePath& path) {
    zip_error_t error;
    zip_error_init(&error);
    source = zip_source_buffer_create(nullptr, 0, 0, &error);
    if (source != nullptr) zip = zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error);
    if (zip == nullptr) {
      zip_source_free(source);
      throw zip_refuse(path, "cannot be written: " + text_of(&error));
    }
    zip_error_fini(&error);
    zip_source_keep(source);
  }
  ~Archive() {
    if (zip != nullptr) zip_discard(zip);
    zip_source_free(source);
  }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  std::list<std::vector<std::byte>> contents;  ///< libzip reads them when the archive is closed
  zip_source_t* source = nullptr;
  zip_t* zip = nullptr;
};

ZipWriter::ZipWriter(const FilePath& path) : path_(path), archive_(std::make_unique<Archive>(path)) {}
ZipWriter::~ZipWriter() = default;

void ZipWriter::add(const std::string& name, std::vector<std::byte> bytes, bool compress) {
  const std::vector<std::byte>& kept = archive_->contents.emplace_back(std::move(bytes));
  zip_t* zip = archive_->zip;
  zip_source_t* source = zip_source_buffer(zip, kept.data(), kept.size(), 0);
  const std::int64_t index = source == nullptr ? -1 : zip_file_add(zip, name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    if (source != nullptr) zip_source_free(source);
    throw zip_refuse(path_, fmt::format("entry '{}' cannot be written: {}", name, zip_strerror(zip)));
  }
  const auto at = static_cast<zip_uint64_t>(index);
  constexpr zip_uint16_t kFirstDay = 1 << 5 | 1;  // 1980-01-01
  if (zip_set_file_compression(zip, at, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(zip, at, 0, kFirstDay, 0) != 0) {
    throw zip_refuse(path_, fmt::format("entry '{}' cannot be written: {}", name, zip_strerror(zip)));
  }
}

void ZipWriter::finish() {
  Archive& archive = *archive_;
  // libzip cannot create an empty archive, which consists of these bytes.
  constexpr char kEmpty[22] = {'P', 'K', 5, 6};
  const bool empty = archive.contents.empty();
  if (!empty) {
    if (zip_close(archive.zip) != 0)
      throw zip_refuse(path_, fmt::format("cannot be written: {}", zip_strerror(archive.zip)));
    archive.zip = nullptr;
    if (zip_source_open(archive.source) != 0) throw zip_refuse(path_, "cannot be written");
  }
  AtomicFile file(path_);
  if (empty) file.write(kEmpty, sizeof kEmpty);
  std::vector<std::byte> chunk(1 << 20);
  while (!empty) {
    const std::int64_t got = zip_source_read(archive.source, chunk.data(), chunk.size());
    if (got < 0) throw zip_refuse(path_, "cannot be written: the archive cannot be read back");
    if (got == 0) break;
    file.write(chunk.data(), static_cast<std::size_t>(got));
  }
  if (!empty) zip_source_close(archive.source);
  file.finish();
}

#else

namespace {

[[noreturn]] void refuse_without_libzip(const FilePath& path) {
  throw FormatError(path.string() + ": is a ZIP archive, but this build of Etna lacks libzip (Debian: libzip-dev); " +
                    "install it and configure again");
}

}  // namespace

struct ZipReader::Archive {};
struct ZipWriter::Archive {};
ZipReader::ZipReader(const FilePath& path, const char*) { refuse_without_libzip(path); }
ZipReader::~ZipReader() = default;
std::vector<std::byte> ZipReader::read(std::size_t) const { return {}; }
ZipWriter::ZipWriter(const FilePath& path) { refuse_without_libzip(path); }
ZipWriter::~ZipWriter() = default;
void ZipWriter::add(const std::string&, std::vector<std::byte>, bool) {}
void ZipWriter::finish() {}

#endif

}  // namespace etna::io
