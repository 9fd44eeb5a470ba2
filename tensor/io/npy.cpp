#include <etna/tensor/io/npy.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <etna/device/internal/atomic_file.h>
#include <etna/tensor/io/internal/mapped_file.h>
#include <etna/tensor/io/internal/zip.h>
#include <etna/tensor/op.h>

static_assert(std::endian::native == std::endian::little, "arrays are written in their memory layout");

namespace etna {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

/// How a file stores elements, and their dtype in memory.
struct Encoding {
  std::string_view code;  ///< without the byte order
  DType dtype;
  std::size_t bytes;  ///< in the file
};
constexpr std::array<Encoding, 11> kEncodings = {{{"f8", f64, 8},
                                                  {"f4", f32, 4},
                                                  {"f2", f16, 2},
                                                  {"i8", i64, 8},
                                                  {"i4", i32, 4},
                                                  {"i1", i8, 1},
                                                  {"u1", u8, 1},
                                                  {"b1", boolean, 1},
                                                  {"i2", i32, 2},
                                                  {"u2", i32, 2},
                                                  {"u4", i64, 4}}};

struct NpyHeader {
  Encoding encoding{};
  bool big_endian = false, column_major = false;
  Shape shape;
};

/// The header: a Python dictionary literal with the keys descr, fortran_order and shape.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  NpyHeader parse() {
    bool seen[3] = {};
    expect('{');
    while (!take('}')) {
      const std::string key = string();
      expect(':');
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0) fail(fmt::format("has the key '{}'; known are descr, fortran_order and shape", printable(key)));
      if (seen[which]) fail(fmt::format("has '{}' twice", key));
      seen[which] = true;
      if (which == 0) descr();
      if (which == 1) header_.column_major = truth();
      if (which == 2) shape();
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail("continues after its end");
    if (!(seen[0] && seen[1] && seen[2])) fail("lacks one of descr, fortran_order and shape");
    return header_;
  }

 private:
  [[noreturn]] static void fail(const std::string& what) { throw FormatError("the header " + what); }
  static std::string printable(std::string text) {
    for (char& c : text) c = std::isprint(static_cast<unsigned char>(c)) ? c : '?';
    return text.substr(0, 60);
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("lacks a '{}' at its byte {}", c, at_));
  }
  std::string string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail(fmt::format("lacks a string at its byte {}", at_));
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("has an unterminated string");
    const std::string_view found = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return std::string(found);
  }
  bool truth() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    fail("has a fortran_order that is neither True nor False");
  }
  void descr() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') throw FormatError("holds records of several fields, not numbers");
    const std::string code = string();
    const char order = code.empty() ? '\0' : code.front();
    const auto found = std::find_if(kEncodings.begin(), kEncodings.end(),
                                    [&](const Encoding& e) { return code.substr(code.empty() ? 0 : 1) == e.code; });
    if (code.ends_with('O')) throw FormatError("holds Python objects, which cannot be read without being unpickled");
    if (found == kEncodings.end() || std::string_view("<>|=").find(order) == std::string_view::npos) {
      throw FormatError(fmt::format(
          "holds elements of type '{}'; known are f8 f4 f2 i8 i4 i2 i1 u4 u2 u1 b1, with < or > before them",
          printable(code)));
    }
    header_.encoding = *found;
    header_.big_endian = order == '>';
  }
  void shape() {
    expect('(');
    while (!take(')')) {
      skip_space();
      std::uint64_t size = 0;
      const std::size_t begin = at_;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
        if (__builtin_mul_overflow(size, 10u, &size) ||
            __builtin_add_overflow(size, static_cast<unsigned>(text_[at_] - '0'), &size) || size > INT64_MAX)
          fail("has a size too large for memory");
      }
      if (at_ == begin) fail(fmt::format("lacks a size at its byte {}", at_));
      if (header_.shape.rank() == kMaxRank) fail(fmt::format("has more than {} dimensions", kMaxRank));
      header_.shape.push_back(static_cast<std::int64_t>(size));
      if (!take(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  NpyHeader header_;
};

template <typename From, typename To>
void widen(const std::byte* from, std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    const To wide = value;
    std::memcpy(to + i * sizeof wide, &wide, sizeof wide);
  }
}

/// Converts the elements to a tensor's memory layout.
std::vector<std::byte> decode(const NpyHeader& header, std::span<const std::byte> data) {
  const std::size_t width = header.encoding.bytes, count = data.size() / width;
  std::vector<std::byte> bytes(data.begin(), data.end());
  if (header.big_endian) {
    for (std::size_t i = 0; i < count; ++i) std::reverse(bytes.data() + i * width, bytes.data() + (i + 1) * width);
  }
  // The file may contain any byte; in memory, a bool must be 0 or 1.
  if (header.encoding.dtype == boolean) {
    for (std::byte& b : bytes) b = b == std::byte{0} ? b : std::byte{1};
  }
  if (item_size(header.encoding.dtype) == width) return bytes;
  std::vector<std::byte> wide(count * item_size(header.encoding.dtype));
  if (header.encoding.code == "i2") widen<std::int16_t, std::int32_t>(bytes.data(), count, wide.data());
  if (header.encoding.code == "u2") widen<std::uint16_t, std::int32_t>(bytes.data(), count, wide.data());
  if (header.encoding.code == "u4") widen<std::uint32_t, std::int64_t>(bytes.data(), count, wide.data());
  return wide;
}

/// The bytes before the elements in an .npy file.
std::string header_of(const Tensor& tensor, const std::string& where) {
  const DType dtype = tensor.dtype();
  const auto found = std::find_if(kEncodings.begin(), kEncodings.end(),
                                  [&](const Encoding& e) { return e.dtype == dtype && e.bytes == item_size(dtype); });
  if (found == kEncodings.end())
    throw DtypeError(fmt::format("{}: NumPy has no {}; save x.to(f32) instead", where, name(dtype)));
  std::string shape;
  for (const std::int64_t size : tensor.shape()) shape += fmt::format("{}, ", size);
  if (tensor.dim() > 1) shape.resize(shape.size() - 2);
  if (tensor.dim() == 1) shape.resize(shape.size() - 1);
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 found->bytes == 1 ? '|' : '<', found->code, shape);
  const std::size_t before = kMagic.size() + 4;
  text.append((64 - (before + text.size() + 1) % 64) % 64, ' ');
  text += '\n';
  std::string bytes(kMagic);
  bytes += std::string_view("\x01\x00", 2);
  bytes += static_cast<char>(text.size() & 0xff);
  bytes += static_cast<char>(text.size() >> 8);
  return bytes + text;
}

std::string_view elements_of(const Tensor& host) {
  const std::size_t bytes = static_cast<std::size_t>(host.numel()) * item_size(host.dtype());
  return bytes == 0 ? std::string_view() : std::string_view(static_cast<const char*>(host.raw_data()), bytes);
}

}  // namespace

Tensor npy::parse(std::span<const std::byte> bytes, Device device) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic)) throw FormatError("is not an NPY file: it does not begin with \\x93NUMPY");
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(bytes[i]); };
  if (bytes.size() < 12) throw FormatError(fmt::format("is {} bytes long, cut short in the NPY header", bytes.size()));
  const std::uint32_t version = byte(6);
  if (version < 1 || version > 3) throw FormatError(fmt::format("has NPY version {}; known are 1, 2 and 3", version));
  const std::size_t begin = version == 1 ? 10 : 12;
  const std::size_t length =
      version == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > bytes.size() - begin)
    throw FormatError(
        fmt::format("claims a header of {} bytes, but only {} follow; it is cut short", length, bytes.size() - begin));
  const NpyHeader header = HeaderParser(text.substr(begin, length)).parse();
  const std::size_t available = bytes.size() - begin - length;
  std::size_t wanted = 0;
  try {
    wanted = byte_size(header.shape, header.encoding.bytes, "npy");
    byte_size(header.shape, item_size(header.encoding.dtype), "npy");
  } catch (const ShapeError&) {
    throw FormatError(fmt::format("has shape {}, too large for memory", str(header.shape)));
  }
  if (!has_strides(header.shape))
    throw FormatError(fmt::format("has shape {}, too large for memory", str(header.shape)));
  if (wanted != available)
    throw FormatError(fmt::format("has {} bytes of elements, but {} of shape {} takes {}", available,
                                  header.encoding.code, str(header.shape), wanted));
  const std::vector<std::byte> elements = decode(header, bytes.subspan(begin + length));
  if (!header.column_major) return from_bytes(elements.data(), header.shape, header.encoding.dtype, device);
  Shape reversed = header.shape;
  std::reverse(reversed.begin(), reversed.end());
  Dims order;
  for (int i = reversed.rank() - 1; i >= 0; --i) order.push_back(i);
  return from_bytes(elements.data(), reversed, header.encoding.dtype).permute(order).contiguous().to(device);
}

Tensor load_npy(const FilePath& path, Device device) {
  const io::MappedFile file(path, "an NPY file");
  try {
    return npy::parse({file.bytes(), file.size()}, device);
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

void save_npy(const FilePath& path, const Tensor& tensor) {
  GradMode off(false);
  const std::string header = header_of(tensor, path.string());
  const Tensor host = tensor.contiguous().to(kCPU);
  io::AtomicFile file(path);
  file.write(header);
  file.write(elements_of(host));
  file.finish();
}

std::map<std::string, Tensor> load_npz(const FilePath& path, Device device) {
  const io::ZipReader archive(path, "an NPZ file");
  std::map<std::string, Tensor> tensors;
  for (std::size_t i = 0; i < archive.entries().size(); ++i) {
    const std::string& entry = archive.entries()[i].name;
    if (!entry.ends_with(".npy"))
      throw FormatError(
          fmt::format("{}: entry '{}' is not an .npy file, so this is not an NPZ file", path.string(), entry));
    const std::vector<std::byte> bytes = archive.read(i);
    try {
      if (!tensors.emplace(entry.substr(0, entry.size() - 4), npy::parse(bytes, device)).second)
        throw FormatError("occurs twice in the archive");
    } catch (const FormatError& error) {
      throw FormatError(fmt::format("{}: entry '{}' {}", path.string(), entry, error.what()));
    }
  }
  return tensors;
}

void save_npz(const FilePath& path, const NamedTensors& tensors, bool compressed) {
  GradMode off(false);
  io::ZipWriter archive(path);
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    // libzip reads names only up to the first NUL.
    if (name.empty() || name.find('\0') != std::string::npos || !names.insert(name).second) {
      throw FormatError(fmt::format("{}: '{}' cannot name an array: it is {}", path.string(), name,
                                    names.contains(name) ? "given twice" : "empty, or contains a NUL"));
    }
    const std::string header = header_of(tensor, fmt::format("{}: {}", path.string(), name));
    const Tensor host = tensor.contiguous().to(kCPU);
    const std::string_view elements = elements_of(host);
    std::vector<std::byte> bytes(header.size() + elements.size());
    std::memcpy(bytes.data(), header.data(), header.size());
    if (!elements.empty()) std::memcpy(bytes.data() + header.size(), elements.data(), elements.size());
    archive.add(name + ".npy", std::move(bytes), compressed);
  }
  archive.finish();
}

void save_npz(const FilePath& path, const std::map<std::string, Tensor>& tensors, bool compressed) {
  save_npz(path, NamedTensors(tensors.begin(), tensors.end()), compressed);
}

}  // namespace etna
