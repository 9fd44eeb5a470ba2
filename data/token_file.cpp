#include <etna/data/token_file.h>

#include <bit>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/atomic_file.h>
#include <etna/tensor/io/internal/mapped_file.h>
#include <etna/tensor/io/internal/xxh3.h>

namespace etna::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr char kHead[16] = {'E', 't', 'n', 'a', ' ', 't', 'o', 'k', 'e', 'n', 's', '\r', '\n', '\x1A', '\n', '\0'};
constexpr char kTail[8] = {'E', 't', 'n', 'a', ' ', 'e', 'n', 'd'};
constexpr std::uint32_t kTokenFileVersion = 1;

/// The last 64 bytes. At the end, since the number and the hash of the ids are known only then, and a file that is
/// written in one pass needs no second.
struct Trailer {
  std::uint32_t version = kTokenFileVersion, width = 0;
  std::uint64_t size = 0, vocabulary = 0, tokenizer_hash = 0, content_hash = 0;
  std::uint64_t unused = 0;
  std::uint64_t hash = 0;  ///< XXH3 of all fields before
  char tail[8] = {};
};
static_assert(sizeof(Trailer) == 64);

std::uint64_t hash_of(const Trailer& trailer) {
  io::Xxh3 hash;
  hash.add(&trailer, offsetof(Trailer, hash));
  return hash.value();
}

constexpr std::uint64_t kNarrow = 65536;  ///< the largest vocabulary whose ids take two bytes

}  // namespace

TokenFile::TokenFile(const FilePath& file) : path_(file), map_(std::make_shared<io::MappedFile>(file, "a token file")) {
  const auto refuse = [&](const std::string& why) { throw FormatError(fmt::format("{}: {}", file.string(), why)); };
  if (map_->size() < sizeof kHead || std::memcmp(map_->bytes(), kHead, sizeof kHead) != 0)
    refuse("is not an Etna token file; data::TokenFileWriter writes them");
  Trailer trailer;
  const char* const damaged = "is cut off or damaged; write it again";
  if (map_->size() < sizeof kHead + sizeof trailer) refuse(damaged);
  std::memcpy(&trailer, map_->bytes() + map_->size() - sizeof trailer, sizeof trailer);
  if (std::memcmp(trailer.tail, kTail, sizeof kTail) != 0 || trailer.hash != hash_of(trailer)) refuse(damaged);
  if (trailer.version != kTokenFileVersion)
    refuse(fmt::format("has token file version {}; this Etna reads version {}", trailer.version, kTokenFileVersion));
  const std::uint64_t bytes = map_->size() - sizeof kHead - sizeof trailer;
  const bool fits = (trailer.width == 2 && trailer.vocabulary <= kNarrow) || trailer.width == 4;
  if (!fits || trailer.vocabulary > INT32_MAX || bytes % trailer.width != 0 || trailer.size != bytes / trailer.width)
    refuse(damaged);
  size_ = static_cast<std::int64_t>(trailer.size);
  vocabulary_ = static_cast<std::int64_t>(trailer.vocabulary);
  width_ = static_cast<int>(trailer.width);
  tokenizer_hash_ = trailer.tokenizer_hash;
  content_hash_ = trailer.content_hash;
}

std::span<const std::uint16_t> TokenFile::ids16() const {
  if (width_ != 2) throw FormatError(fmt::format("{}: has ids of 4 bytes, not 2", path_.string()));
  return {reinterpret_cast<const std::uint16_t*>(map_->bytes() + sizeof kHead), static_cast<std::size_t>(size_)};
}

std::span<const std::uint32_t> TokenFile::ids32() const {
  if (width_ != 4) throw FormatError(fmt::format("{}: has ids of 2 bytes, not 4", path_.string()));
  return {reinterpret_cast<const std::uint32_t*>(map_->bytes() + sizeof kHead), static_cast<std::size_t>(size_)};
}

void TokenFile::ids(std::int64_t begin, std::int64_t count, std::int32_t* out) const {
  if (begin < 0 || count < 0 || begin > size_ || count > size_ - begin)
    throw IndexError(
        fmt::format("{}: ids [{}, {} + {}) are outside its {}", path_.string(), begin, begin, count, size_));
  const auto first = static_cast<std::size_t>(begin), length = static_cast<std::size_t>(count);
  if (width_ == 2) {
    const auto from = ids16().subspan(first, length);
    for (std::size_t i = 0; i < length; ++i) out[i] = from[i];
  } else {
    const auto from = ids32().subspan(first, length);
    for (std::size_t i = 0; i < length; ++i) out[i] = from[i] > INT32_MAX ? -1 : static_cast<std::int32_t>(from[i]);
  }
}

void TokenFile::verify() const {
  io::Xxh3 hash;
  hash.add(map_->bytes() + sizeof kHead, static_cast<std::size_t>(size_) * static_cast<std::size_t>(width_));
  if (hash.value() != content_hash_)
    throw FormatError(fmt::format("{}: its ids do not match their hash; write it again", path_.string()));
  const auto check = [&](const auto ids) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (static_cast<std::int64_t>(ids[i]) >= vocabulary_)
        throw FormatError(
            fmt::format("{}: id {} at {} is outside the vocabulary of {}", path_.string(), ids[i], i, vocabulary_));
  };
  if (width_ == 2)
    check(ids16());
  else
    check(ids32());
}

void TokenFile::require_tokenizer(std::uint64_t hash) const {
  if (hash != tokenizer_hash_)
    throw FormatError(
        fmt::format("{}: was made by the tokenizer {:016x}, and this one is {:016x}; prepare the text again",
                    path_.string(), tokenizer_hash_, hash));
}

TokenFileWriter::TokenFileWriter(const FilePath& file, std::int64_t vocabulary, std::uint64_t tokenizer_hash)
    : hash_(std::make_unique<io::Xxh3>()), vocabulary_(vocabulary), tokenizer_hash_(tokenizer_hash) {
  if (vocabulary < 0 || vocabulary > INT32_MAX)
    throw FormatError(
        fmt::format("{}: a vocabulary of {} is not within 0 and {}", file.string(), vocabulary, INT32_MAX));
  file_ = std::make_unique<io::AtomicFile>(file);
  file_->write(kHead, sizeof kHead);
}

TokenFileWriter::~TokenFileWriter() = default;

void TokenFileWriter::write(const void* bytes, std::size_t count) {
  hash_->add(bytes, count);
  file_->write(bytes, count);
}

void TokenFileWriter::append(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids)
    if (id < 0 || id >= vocabulary_)
      throw FormatError(fmt::format("token file: id {} is outside the vocabulary of {}", id, vocabulary_));
  if (static_cast<std::uint64_t>(vocabulary_) <= kNarrow) {
    narrow_.resize(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) narrow_[i] = static_cast<std::uint16_t>(ids[i]);
    write(narrow_.data(), 2 * ids.size());
  } else {
    write(ids.data(), 4 * ids.size());
  }
  size_ += static_cast<std::int64_t>(ids.size());
}

std::uint64_t TokenFileWriter::content_hash() const { return hash_->value(); }

void TokenFileWriter::finish() {
  Trailer trailer;
  trailer.width = static_cast<std::uint64_t>(vocabulary_) <= kNarrow ? 2 : 4;
  trailer.size = static_cast<std::uint64_t>(size_);
  trailer.vocabulary = static_cast<std::uint64_t>(vocabulary_);
  trailer.tokenizer_hash = tokenizer_hash_;
  trailer.content_hash = hash_->value();
  trailer.hash = hash_of(trailer);
  std::memcpy(trailer.tail, kTail, sizeof kTail);
  file_->write(&trailer, sizeof trailer);
  file_->finish();
}

}  // namespace etna::data
