#include <algorithm>
#include <string_view>

#include <etna/data/internal/codecs/codecs.h>

namespace etna::data::codecs {
namespace {

/// Bytes in which numbers are read in either order; 0 beyond the end.
struct NumberBytes {
  std::string_view bytes;
  bool big_endian = true;

  std::size_t at(std::size_t place, std::size_t count) const {
    std::size_t number = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t from = place + (big_endian ? i : count - 1 - i);
      number = number << 8 | (from < bytes.size() ? static_cast<unsigned char>(bytes[from]) : 0u);
    }
    return number;
  }
};

/// @param tiff an EXIF segment behind its name, laid out as a TIFF file
int orientation_in(std::string_view tiff) {
  if (!tiff.starts_with("MM") && !tiff.starts_with("II")) return 1;
  const NumberBytes read{tiff, tiff[0] == 'M'};
  const std::size_t directory = read.at(4, 4), entries = read.at(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;
    if (entry + 12 > tiff.size()) break;
    constexpr std::size_t kOrientation = 0x0112;
    if (read.at(entry, 2) != kOrientation) continue;
    const std::size_t value = read.at(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace

int exif_orientation(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with("\xff\xd8")) return 1;
  const NumberBytes read{text};
  constexpr std::size_t kExif = 0xffe1, kScan = 0xffda;
  // Segments: a marker, and the bytes that follow it, those of this number included.
  for (std::size_t at = 2; at + 4 <= text.size();) {
    const std::size_t marker = read.at(at, 2), size = read.at(at + 2, 2);
    if (marker < 0xff00 || marker == kScan || size < 2) break;
    constexpr std::string_view kName("Exif\0\0", 6);
    const std::string_view segment = text.substr(at + 4, size - 2);
    if (marker == kExif && segment.starts_with(kName)) return orientation_in(segment.substr(kName.size()));
    at += 2 + size;
  }
  return 1;
}

}  // namespace etna::data::codecs
