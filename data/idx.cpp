#include <etna/data/vision.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include <etna/data/internal/compressed_file.h>
#include <etna/device/internal/atomic_file.h>
#include <etna/tensor/op.h>

namespace etna::data {
namespace {

struct IdxEncoding {
  unsigned code;
  DType dtype;
  std::size_t bytes;  ///< in the file
};
constexpr IdxEncoding kEncodings[] = {{0x08, u8, 1},  {0x09, i8, 1},  {0x0b, i32, 2},
                                      {0x0c, i32, 4}, {0x0d, f32, 4}, {0x0e, f64, 8}};
constexpr const char* kKind = "an IDX file";
constexpr std::size_t kLongestHeader = 4 + 4 * kMaxRank;

/// From the file's big-endian order into the machine's.
void reverse_each(std::byte* bytes, std::size_t count, std::size_t width) {
  for (std::size_t i = 0; width > 1 && i < count; ++i) std::reverse(bytes + i * width, bytes + (i + 1) * width);
}

}  // namespace

Tensor read_idx(const FilePath& path, Device device) {
  const auto refuse = [&](const std::string& what) { return FormatError(fmt::format("{}: {}", path.string(), what)); };
  std::vector<std::byte> bytes = read_file(path, kKind, kLongestHeader);
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  if (bytes.size() < 4 || byte(0) != 0 || byte(1) != 0)
    throw refuse("is not an IDX file: it does not begin with two bytes 0, an element type and a rank");
  const auto* encoding = std::find_if(std::begin(kEncodings), std::end(kEncodings),
                                      [&](const IdxEncoding& e) { return e.code == byte(2); });
  if (encoding == std::end(kEncodings)) throw refuse(fmt::format("has the unknown element type {:#04x}", byte(2)));
  const std::size_t rank = byte(3), begin = 4 + 4 * rank;
  if (rank > kMaxRank) throw refuse(fmt::format("has {} dimensions; {} are the most", rank, kMaxRank));
  if (bytes.size() < begin) throw refuse(fmt::format("is {} bytes long, cut short in its header", bytes.size()));
  Shape shape;
  for (std::size_t i = 4; i < begin; i += 4)
    shape.push_back(static_cast<std::int64_t>(byte(i) << 24 | byte(i + 1) << 16 | byte(i + 2) << 8 | byte(i + 3)));
  std::size_t wanted = 0;
  try {
    byte_size(shape, 8, "read_idx");
    wanted = byte_size(shape, encoding->bytes, "read_idx");
  } catch (const ShapeError&) {
    throw refuse(fmt::format("has shape {}, which no memory holds", str(shape)));
  }
  if (!has_strides(shape) || wanted > SIZE_MAX - begin - 1)
    throw refuse(fmt::format("has shape {}, which no memory holds", str(shape)));
  bytes = read_file(path, kKind, begin + wanted + 1);
  if (bytes.size() != begin + wanted) {
    throw refuse(bytes.size() < begin + wanted
                     ? fmt::format("has {} bytes of elements, but shape {} takes {}; it is cut short",
                                   bytes.size() - begin, str(shape), wanted)
                     : fmt::format("has more bytes of elements than the {} of shape {}", wanted, str(shape)));
  }
  std::byte* elements = bytes.data() + begin;
  const std::size_t count = wanted / encoding->bytes;
  reverse_each(elements, count, encoding->bytes);
  if (encoding->bytes == item_size(encoding->dtype)) return from_bytes(elements, shape, encoding->dtype, device);
  std::vector<std::int32_t> wide(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::int16_t value;
    std::memcpy(&value, elements + 2 * i, sizeof value);
    wide[i] = value;
  }
  return from_bytes(wide.data(), shape, i32, device);
}

void write_idx(const FilePath& path, const Tensor& tensor) {
  const auto* encoding = std::find_if(std::begin(kEncodings), std::end(kEncodings), [&](const IdxEncoding& e) {
    return e.dtype == tensor.dtype() && e.bytes == item_size(e.dtype);
  });
  if (encoding == std::end(kEncodings))
    throw DtypeError(fmt::format("write_idx: IDX files hold u8, i8, i32, f32 and f64, not {}", name(tensor.dtype())));
  const GradMode off(false);
  const Tensor host = tensor.contiguous().to(kCPU);
  std::string header = {0, 0, static_cast<char>(encoding->code), static_cast<char>(host.dim())};
  for (const std::int64_t size : host.shape()) {
    if (size > UINT32_MAX)
      throw ShapeError(
          fmt::format("write_idx: the size {} of shape {} does not fit in 32 bits", size, str(host.shape())));
    for (const int shift : {24, 16, 8, 0}) header += static_cast<char>(size >> shift & 0xff);
  }
  const std::size_t count = static_cast<std::size_t>(host.numel());
  std::vector<std::byte> bytes(count * encoding->bytes);
  if (count > 0) std::memcpy(bytes.data(), host.raw_data(), bytes.size());
  reverse_each(bytes.data(), count, encoding->bytes);
  io::AtomicFile file(path);
  file.write(header);
  file.write(bytes.data(), bytes.size());
  file.finish();
}

}  // namespace etna::data
