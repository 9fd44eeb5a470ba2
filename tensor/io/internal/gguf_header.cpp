#include <etna/tensor/io/internal/gguf_header.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/io/internal/quoted_name.h>

static_assert(std::endian::native == std::endian::little, "numbers of the file are read without conversion");

namespace etna::io {
namespace {

[[noreturn]] void gguf_header_refuse(const std::string& what) { throw FormatError(what); }

/// ggml's names of type numbers, some of which Etna has no format for; used in errors.
struct TypeName {
  std::uint32_t type;
  std::string_view name;
};
constexpr TypeName kTypeNames[] = {{4, "Q4_2"},      {5, "Q4_3"},      {9, "Q8_1"},  {15, "Q8_K"}, {31, "Q4_0_4_4"},
                                   {32, "Q4_0_4_8"}, {33, "Q4_0_8_8"}, {37, "I8_S"}, {38, "TL1"},  {40, "NVFP4"}};

/// Reads the file from front to back.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> file) : file_(file) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return file_.size() - at_; }

  /// @param what is being read, for errors: "the count of tensors"
  std::span<const std::byte> bytes(std::uint64_t count, std::string_view what) {
    if (count > left()) {
      gguf_header_refuse(
          fmt::format("is cut short: {} takes {} bytes at byte {}, but only {} follow", what, count, at_, left()));
    }
    const auto found = file_.subspan(static_cast<std::size_t>(at_), static_cast<std::size_t>(count));
    at_ += count;
    return found;
  }

  template <typename T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, bytes(sizeof value, what).data(), sizeof value);
    return value;
  }

  std::string_view string(std::string_view what) {
    const auto size = number<std::uint64_t>(what);
    const auto found = bytes(size, what);
    return {reinterpret_cast<const char*>(found.data()), found.size()};
  }

  /// A key or a tensor's name.
  std::string_view name(const std::string& what) {
    const std::string_view found = string(what);
    if (found.empty()) gguf_header_refuse(fmt::format("{} is empty", what));
    if (found.size() > kMaxGgufName) {
      gguf_header_refuse(
          fmt::format("{} has {} bytes; wanted at most {}, so the file is damaged", what, found.size(), kMaxGgufName));
    }
    return found;
  }

 private:
  std::span<const std::byte> file_;
  std::uint64_t at_ = 0;
};

GgufType type_of(std::uint32_t number, const std::string& what) {
  if (number > static_cast<std::uint32_t>(GgufType::f64))
    gguf_header_refuse(fmt::format("{} has type {}; wanted 0 to 12", what, number));
  return static_cast<GgufType>(number);
}

/// Checks that bools are 0 or 1.
void check_bools(std::span<const std::byte> bytes, const std::string& what) {
  const auto bad = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad != bytes.end())
    gguf_header_refuse(fmt::format("{} has a bool of {}; wanted 0 or 1", what, std::to_integer<int>(*bad)));
}

GgufValue read_value(Cursor& file, const std::string& what) {
  const GgufType type = type_of(file.number<std::uint32_t>("the type of " + what), what);
  GgufType item = type;
  std::uint64_t count = 1;
  if (type == GgufType::array) {
    item = type_of(file.number<std::uint32_t>("the type of the items of " + what), "an item of " + what);
    if (item == GgufType::array) gguf_header_refuse(fmt::format("{} is a list of lists, which is not supported", what));
    count = file.number<std::uint64_t>("the length of " + what);
    const std::uint64_t least = item == GgufType::string ? sizeof(std::uint64_t) : item_bytes(item);
    if (count > file.left() / least) {
      gguf_header_refuse(fmt::format("{} claims {} items of at least {} bytes, but only {} bytes follow", what, count,
                                     least, file.left()));
    }
  }
  if (item != GgufType::string) {
    const auto bytes = file.bytes(count * item_bytes(item), what);
    if (item == GgufType::boolean) check_bools(bytes, what);
    return GgufValue::from_file(type, item, count, bytes);
  }
  // A separate cursor walks the strings to find their end.
  Cursor ahead = file;
  for (std::uint64_t i = 0; i < count; ++i) ahead.string(what);
  return GgufValue::from_file(type, item, count, file.bytes(ahead.at() - file.at(), what));
}

std::uint32_t read_version(Cursor& file) {
  const auto version = file.number<std::uint32_t>("the version");
  if (version == 1)
    gguf_header_refuse("is GGUF version 1, which is not supported; convert it again with llama.cpp's tools");
  if (version == 2 || version == 3) return version;
  if (version != 0 && (version & 0xffffu) == 0)
    gguf_header_refuse(
        "was written on a big-endian machine, which is not supported; llama.cpp's gguf_convert_endian.py converts it");
  gguf_header_refuse(fmt::format("is GGUF version {}; wanted 2 or 3", version));
}

void read_metadata(Cursor& file, std::uint64_t count, GgufHeader& header) {
  constexpr std::uint64_t kLeast = 8 + 1 + 4 + 1;  // a key of one byte, a type, a value of one byte
  if (count > file.left() / kLeast) {
    gguf_header_refuse(fmt::format(
        "claims {} entries of metadata, but only {} bytes follow; it is damaged or cut short", count, file.left()));
  }
  std::set<std::string, std::less<>> keys;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string_view key = file.name(fmt::format("the key of metadata entry {}", i));
    if (!keys.emplace(key).second) gguf_header_refuse(fmt::format("metadata {} occurs twice", quoted_name(key)));
    header.metadata.push_back({std::string(key), read_value(file, "metadata " + quoted_name(key))});
    if (key != "general.alignment") continue;
    const GgufValue& value = header.metadata.back().value;
    if (value.type() != GgufType::u32 || !std::has_single_bit(value.unsigned_integer())) {
      gguf_header_refuse(
          fmt::format("has an alignment of {} ({}); wanted a power of two as a u32", value.str(), name(value.type())));
    }
    header.alignment = value.unsigned_integer();
  }
}

/// Sets the format and the size in bytes. False if rows are not whole blocks.
bool set_format(GgufTensor& tensor, const quant::BlockFormat& format) {
  const std::int64_t row = tensor.shape.back();
  if (row % format.elements != 0) return false;
  tensor.format = &format;
  tensor.bytes = quant::storage_bytes(format, tensor.elements);
  return true;
}

GgufTensor read_tensor(Cursor& file, std::uint64_t index) {
  GgufTensor tensor;
  tensor.name = file.name(fmt::format("the name of tensor {}", index));
  const std::string what = "tensor " + quoted_name(tensor.name);
  const auto rank = file.number<std::uint32_t>("the rank of " + what);
  if (rank == 0 || rank > kMaxGgufDims)
    gguf_header_refuse(fmt::format("{} has {} dimensions; wanted 1 to {}", what, rank, kMaxGgufDims));
  std::int64_t product = 1;
  bool none = false;
  for (std::uint32_t d = 0; d < rank; ++d) {
    const auto size = file.number<std::uint64_t>("the shape of " + what);
    // A size of 0 counts as one: strides are products of the other sizes.
    none = none || size == 0;
    if (size > INT64_MAX ||
        __builtin_mul_overflow(product, std::max<std::int64_t>(1, static_cast<std::int64_t>(size)), &product))
      gguf_header_refuse(fmt::format("{} has {} as a size, too large for memory", what, size));
    tensor.shape.insert(0, static_cast<std::int64_t>(size));
  }
  tensor.elements = none ? 0 : product;
  tensor.type = file.number<std::uint32_t>("the format of " + what);
  tensor.begin = file.number<std::uint64_t>("the offset of " + what);
  const quant::BlockFormat* format = quant::find_format(tensor.type);
  if (format == nullptr) return tensor;
  try {
    if (!set_format(tensor, *format)) {
      gguf_header_refuse(fmt::format("{} has rows of {} elements, which are not whole blocks of {} ({} elements)", what,
                                     tensor.shape.back(), format->name, format->elements));
    }
  } catch (const ShapeError& error) {
    gguf_header_refuse(fmt::format("{} has a shape of {}: {}", what, str(tensor.shape), error.what()));
  }
  return tensor;
}

std::uint64_t aligned(std::uint64_t size, std::uint64_t alignment) { return (size + alignment - 1) & ~(alignment - 1); }

/// BitNet's type number is used for two formats: one with a scale for the whole tensor, and blocks of 32 with an f16
/// scale each, which is not supported. Only the space up to the next tensor distinguishes them.
void refuse_blocks_with_scales(const GgufTensor& tensor, std::uint64_t room, std::uint64_t alignment) {
  if (tensor.format == nullptr || tensor.format->name != "I2_S" || tensor.elements == 0) return;
  constexpr std::uint64_t kElements = 32, kBytes = 10;
  const auto fits = [&](std::uint64_t bytes) { return room == bytes || room == aligned(bytes, alignment); };
  const auto elements = static_cast<std::uint64_t>(tensor.elements);
  if (fits(tensor.bytes) || elements % kElements != 0 || !fits(elements / kElements * kBytes)) return;
  gguf_header_refuse(
      fmt::format("tensor {} has blocks of 32 ternary weights with a scale each, which use the type number of I2_S and "
                  "are not supported; convert the original model to TQ2_0",
                  quoted_name(tensor.name)));
}

/// Converts offsets to positions in the file, and checks that all tensors are within the file and do not overlap.
void place_tensors(GgufHeader& header, std::uint64_t file_size) {
  std::vector<GgufTensor*> order;
  for (GgufTensor& tensor : header.tensors) {
    const std::string what = "tensor " + quoted_name(tensor.name);
    if (tensor.begin % header.alignment != 0)
      gguf_header_refuse(
          fmt::format("{} has offset {}; wanted a multiple of {}", what, tensor.begin, header.alignment));
    const std::uint64_t room = file_size > header.data ? file_size - header.data : 0;
    if (tensor.begin > room) {
      gguf_header_refuse(fmt::format("{} begins {} bytes after the header, but only {} follow; the file is cut short",
                                     what, tensor.begin, room));
    }
    tensor.begin += header.data;
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const GgufTensor* a, const GgufTensor* b) {
    return std::tie(a->begin, a->bytes, a->name) < std::tie(b->begin, b->bytes, b->name);
  });
  for (std::size_t i = 0; i < order.size(); ++i) {
    GgufTensor& tensor = *order[i];
    const std::uint64_t next = i + 1 < order.size() ? order[i + 1]->begin : std::max(file_size, tensor.begin);
    refuse_blocks_with_scales(tensor, next - tensor.begin, header.alignment);
    if (tensor.bytes <= next - tensor.begin) continue;
    if (i + 1 < order.size())
      gguf_header_refuse(
          fmt::format("tensors {} and {} overlap", quoted_name(tensor.name), quoted_name(order[i + 1]->name)));
    gguf_header_refuse(fmt::format("tensor {} has {} bytes, but only {} follow; the file is cut short",
                                   quoted_name(tensor.name), tensor.bytes, next - tensor.begin));
  }
}

}  // namespace

std::string gguf_type_name(std::uint32_t type) {
  if (const quant::BlockFormat* format = quant::find_format(type)) return std::string(format->name);
  for (const TypeName& known : kTypeNames) {
    if (known.type == type) return fmt::format("type {} ({})", type, known.name);
  }
  return fmt::format("type {}", type);
}

std::optional<std::uint32_t> gguf_type_of(const quant::BlockFormat& format) {
  return format.gguf_type == quant::kNoGgufType ? std::nullopt : std::optional(format.gguf_type);
}

bool gguf_can_hold(const quant::BlockFormat& format, const Shape& shape) {
  return gguf_type_of(format) && shape.rank() > 0 && shape.back() % format.elements == 0;
}

GgufHeader parse_gguf_header(std::span<const std::byte> bytes) {
  if (bytes.empty()) gguf_header_refuse("is empty, not a GGUF file");
  Cursor file(bytes);
  const auto magic = bytes.first(std::min<std::size_t>(4, bytes.size()));
  if (std::memcmp(magic.data(), "GGUF", magic.size()) != 0)
    gguf_header_refuse("does not begin with 'GGUF', so it is not a GGUF file");
  file.bytes(4, "the magic 'GGUF'");
  GgufHeader header;
  header.version = read_version(file);
  const auto tensors = file.number<std::uint64_t>("the count of tensors");
  const auto entries = file.number<std::uint64_t>("the count of metadata");
  read_metadata(file, entries, header);
  constexpr std::uint64_t kLeast = 8 + 1 + 4 + 8 + 4 + 8;  // a name of one byte, rank, one size, format, offset
  if (tensors > file.left() / kLeast) {
    gguf_header_refuse(
        fmt::format("claims {} tensors, but only {} bytes follow; it is damaged or cut short", tensors, file.left()));
  }
  std::set<std::string, std::less<>> names;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    header.tensors.push_back(read_tensor(file, i));
    const std::string& name = header.tensors.back().name;
    if (!names.insert(name).second) gguf_header_refuse(fmt::format("tensor {} occurs twice", quoted_name(name)));
  }
  header.data = aligned(file.at(), header.alignment);
  place_tensors(header, bytes.size());
  return header;
}

}  // namespace etna::io
