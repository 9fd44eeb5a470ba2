#include <etna/data/internal/compressed_file.h>

#include <algorithm>
#include <span>

#include <fmt/format.h>

#ifdef ETNA_HAS_ZLIB
#include <zlib.h>
#endif

#include <etna/device/error.h>
#include <etna/tensor/io/internal/mapped_file.h>

namespace etna::data {
namespace {

#ifdef ETNA_HAS_ZLIB

struct Inflater {
  Inflater() { fine = inflateInit2(&stream, 15 + 16) == Z_OK; }  // 16: gzip's header and checksum
  ~Inflater() {
    if (fine) inflateEnd(&stream);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream stream{};
  bool fine;
};

/// @throws FormatError with text that fits after "FILE: "
std::vector<std::byte> decompress(std::span<const std::byte> bytes, std::size_t most) {
  constexpr std::size_t kChunk = 1 << 20;
  Inflater inflater;
  if (!inflater.fine) throw FormatError("cannot be decompressed: zlib did not start");
  z_stream& z = inflater.stream;
  std::vector<std::byte> out;
  std::size_t read = 0, filled = 0;
  while (filled < most) {
    // Memory grows with what there is, not with what a header claims.
    if (filled == out.size()) out.resize(std::min(most, filled + std::max(kChunk, filled / 2)));
    const auto available = static_cast<uInt>(std::min<std::size_t>(bytes.size() - read, 1u << 30));
    const auto space = static_cast<uInt>(std::min<std::size_t>(out.size() - filled, 1u << 30));
    z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data() + read));
    z.avail_in = available;
    z.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    z.avail_out = space;
    const int result = inflate(&z, Z_NO_FLUSH);
    read += available - z.avail_in;
    filled += space - z.avail_out;
    if (result == Z_STREAM_END) {
      // A file may consist of several compressed streams.
      if (read + 2 > bytes.size() || bytes[read] != std::byte{0x1f} || bytes[read + 1] != std::byte{0x8b}) break;
      if (inflateReset(&z) != Z_OK) throw FormatError("cannot be decompressed: zlib did not go on");
    } else if (result == Z_BUF_ERROR || (result == Z_OK && read == bytes.size() && z.avail_out > 0)) {
      throw FormatError(fmt::format("its compressed data are cut short after {} bytes", bytes.size()));
    } else if (result != Z_OK) {
      throw FormatError(fmt::format("its compressed data are damaged near byte {}: {}", read,
                                    z.msg != nullptr ? z.msg : "zlib gives no reason"));
    }
  }
  out.resize(filled);
  return out;
}

#else

std::vector<std::byte> decompress(std::span<const std::byte>, std::size_t) {
  throw FormatError("is compressed, and this build of Etna has no zlib (Debian: zlib1g-dev); decompress it by gunzip");
}

#endif

}  // namespace

std::vector<std::byte> read_file(const FilePath& path, const char* kind, std::size_t most) {
  const io::MappedFile file(path, kind);
  const std::span<const std::byte> bytes(file.bytes(), file.size());
  if (bytes.size() < 2 || bytes[0] != std::byte{0x1f} || bytes[1] != std::byte{0x8b})
    return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::min(most, bytes.size()))};
  try {
    return decompress(bytes, most);
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace etna::data
