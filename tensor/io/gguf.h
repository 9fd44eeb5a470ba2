#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/device/owned.h>
#include <etna/tensor/io/mapped_bytes.h>
#include <etna/tensor/quant/block_format.h>
#include <etna/tensor/shape.h>
#include <etna/tensor/tensor.h>

/// GGUF, llama.cpp's file format for models: metadata, then tensors in block formats. Versions 2 and 3, little-endian.
namespace etna::io {

/// Types of a GGUF file's metadata, with their numbers in the file.
enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

/// "u8", "bool", "string", ...
std::string_view name(GgufType type);

namespace detail {
template <typename T>
concept GgufNumber = std::same_as<T, std::uint8_t> || std::same_as<T, std::int8_t> || std::same_as<T, std::uint16_t> ||
    std::same_as<T, std::int16_t> || std::same_as<T, std::uint32_t> || std::same_as<T, std::int32_t> ||
    std::same_as<T, std::uint64_t> || std::same_as<T, std::int64_t> || std::same_as<T, float> ||
    std::same_as<T, double> || std::same_as<T, bool>;

template <GgufNumber T>
constexpr GgufType gguf_type_of() {
  if constexpr (std::same_as<T, bool>) return GgufType::boolean;
  if constexpr (std::same_as<T, float>) return GgufType::f32;
  if constexpr (std::same_as<T, double>) return GgufType::f64;
  if constexpr (std::same_as<T, std::uint8_t>) return GgufType::u8;
  if constexpr (std::same_as<T, std::int8_t>) return GgufType::i8;
  if constexpr (std::same_as<T, std::uint16_t>) return GgufType::u16;
  if constexpr (std::same_as<T, std::int16_t>) return GgufType::i16;
  if constexpr (std::same_as<T, std::uint32_t>) return GgufType::u32;
  if constexpr (std::same_as<T, std::int32_t>) return GgufType::i32;
  if constexpr (std::same_as<T, std::uint64_t>) return GgufType::u64;
  return GgufType::i64;
}
}  // namespace detail

/// A value in a GGUF file's metadata: a number, a bool, a string, or a list of one of these. It holds the bytes of the
/// file, so a list takes no more memory than in the file. Lists of lists are rejected by the reader, like in llama.cpp.
class GgufValue {
 public:
  /// The C++ type determines the type in the file: `GgufValue(std::uint32_t{32})`.
  template <detail::GgufNumber T>
  GgufValue(T value) : GgufValue(detail::gguf_type_of<T>(), &value, sizeof value) {}
  GgufValue(std::string_view text);
  GgufValue(const char* text) : GgufValue(std::string_view(text)) {}
  GgufValue(const std::string& text) : GgufValue(std::string_view(text)) {}
  template <detail::GgufNumber T>
  requires(!std::same_as<T, bool>) GgufValue(const std::vector<T>& list)
      : GgufValue(list_of(detail::gguf_type_of<T>(), list.size(), list.data(), list.size() * sizeof(T))) {}
  GgufValue(const std::vector<bool>& list);
  GgufValue(const std::vector<std::string>& list);

  GgufType type() const { return type_; }
  bool is_list() const { return type_ == GgufType::array; }
  /// The type of a list's items; otherwise type().
  GgufType item_type() const { return item_type_; }
  /// Items of a list; else 1.
  std::uint64_t size() const { return count_; }

  /// The value, converted where nothing is lost: any whole number in range, a number from f32 or f64 or a whole one.
  /// @throws FormatError in words: "is a string, but an integer is needed"
  std::int64_t integer() const;
  std::uint64_t unsigned_integer() const;
  double number() const;
  bool boolean() const;
  std::string string() const;
  /// The items of a list, converted in the same way.
  std::vector<std::int64_t> integers() const;
  std::vector<float> numbers() const;
  std::vector<bool> booleans() const;
  std::vector<std::string> strings() const;

  /// For display: "32", "'llama'", "['<s>', '</s>', ... 32000 strings]". Shows at most `most` items of a list.
  std::string str(std::size_t most = 8) const;

  /// The bytes after the type in a file; a list starts with its item type and count.
  std::string file_bytes() const;
  /// A value from its bytes in a file, which must be checked. For a list, `bytes` starts after the count.
  static GgufValue from_file(GgufType type, GgufType item_type, std::uint64_t count, std::span<const std::byte> bytes);

  friend bool operator==(const GgufValue&, const GgufValue&) = default;

 private:
  GgufValue() = default;
  GgufValue(GgufType type, const void* bytes, std::size_t size)
      : type_(type), item_type_(type), bytes_(static_cast<const char*>(bytes), size) {}
  static GgufValue list_of(GgufType item, std::uint64_t count, const void* bytes, std::size_t size);

  template <typename T>
  std::vector<T> converted(const char* wanted) const;
  template <typename T>
  bool item_at(const char*& at, T& into) const;
  [[noreturn]] void unfit(const char* wanted) const;

  GgufType type_ = GgufType::u8, item_type_ = GgufType::u8;
  std::uint64_t count_ = 1;
  std::string bytes_;  ///< the items, as in the file
};

/// The number of bytes of a number or bool in a file; 0 for strings and lists.
std::size_t item_bytes(GgufType type);

struct GgufEntry {
  std::string key;
  GgufValue value;
};

struct GgufTensor {
  std::string name;
  /// Outermost dimension first, as everywhere in Etna. The file stores the sizes in reverse order.
  Shape shape;
  std::int64_t elements = 0;
  std::uint32_t type = 0;  ///< the format's number in the file
  /// Null if the type number is unknown; the size in bytes is then unknown, too.
  const quant::BlockFormat* format = nullptr;
  std::uint64_t begin = 0;  ///< offset of the first byte in the file
  std::size_t bytes = 0;    ///< without padding; 0 for an unknown format
};

/// "Q4_K", or for other numbers "type 15 (Q8_K)".
std::string gguf_type_name(std::uint32_t type);

/// The type number of a format in GGUF files; nullopt: none.
std::optional<std::uint32_t> gguf_type_of(const quant::BlockFormat& format);

/// Whether a file can hold a tensor of this format: the format has a number, and rows are whole blocks.
bool gguf_can_hold(const quant::BlockFormat& format, const Shape& shape);

/// A memory-mapped GGUF file. Opening it only reads the header; the bytes of tensors are views of the mapping. A copy
/// is another handle to the same mapping.
class GgufFile {
 public:
  /// @throws FormatError for a file that cannot be read or is damaged, naming the file and the fault
  explicit GgufFile(const FilePath& path);

  const FilePath& path() const;
  std::uint32_t version() const;
  std::uint64_t alignment() const;
  std::uint64_t file_bytes() const;

  /// In file order.
  const std::vector<GgufEntry>& metadata() const;
  /// The value of a key, or null.
  const GgufValue* find(std::string_view key) const;
  /// The value of a key, converted like GgufValue does.
  /// @throws FormatError naming file and key, if the key is missing or has another type
  std::int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  bool boolean(std::string_view key) const;
  std::string string(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::vector<float> numbers(std::string_view key) const;
  std::vector<std::string> strings(std::string_view key) const;
  /// The value of a key, or a default if the key is missing. @throws FormatError if it has another type
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  double number(std::string_view key, double otherwise) const;
  bool boolean(std::string_view key, bool otherwise) const;
  std::string string(std::string_view key, const std::string& otherwise) const;

  /// In file order.
  const std::vector<GgufTensor>& tensors() const;
  /// The tensor with this name, or null.
  const GgufTensor* find_tensor(std::string_view name) const;
  /// @throws FormatError naming the file if there is none
  const GgufTensor& tensor(std::string_view name) const;

  /// A view of the bytes of a tensor in this file, which may outlive this object.
  /// @throws FormatError naming the type number, if the tensor's format is unknown
  MappedBytes bytes(const GgufTensor& tensor) const;
  MappedBytes bytes(std::string_view name) const { return bytes(tensor(name)); }

  /// The values of a tensor. Unquantized formats keep their dtype, I16 becomes i32; other formats are decoded to f32.
  /// @throws FormatError as bytes()
  Tensor load(const GgufTensor& tensor, Device device = {}) const;
  Tensor load(std::string_view name, Device device = {}) const { return load(tensor(name), device); }

 private:
  struct Contents;
  template <typename T>
  T convert(std::string_view key, T (GgufValue::*get)() const) const;

  std::shared_ptr<const Contents> contents_;
};

/// Writes a GGUF file, version 3. First declare all metadata and all tensors, then write the tensors in that order,
/// each in any number of chunks, so a model may be larger than memory:
///
///     GgufWriter file("model.gguf");
///     file.set("general.architecture", "llama");
///     file.add("output.weight", quant::format_named("Q8_0"), {32000, 2048});
///     file.write("output.weight", weight);  // a Tensor, quantized on the way, or bytes
///     file.finish();
///
/// The file appears at `path` in finish(); without that call, an existing file is unchanged.
class GgufWriter {
 public:
  /// @param alignment of the tensors, a power of two
  /// Here and below: @throws FormatError naming the file, for invalid arguments, write errors and calls out of order
  explicit GgufWriter(const FilePath& path, std::uint32_t alignment = 32);
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  /// Adds metadata. Each key may be set once; the writer sets "general.alignment" itself.
  void set(std::string_view key, const GgufValue& value);

  /// Declares a tensor. The name must have at most 63 bytes and the shape one to four dimensions, outermost first: the
  /// limits of llama.cpp. Rows must be whole blocks.
  void add(std::string_view name, const quant::BlockFormat& format, const Shape& shape);

  /// Writes bytes of the next tensor, or of the incomplete one.
  void write(std::string_view name, std::span<const std::byte> bytes);
  /// Writes a whole tensor of the declared shape. Floats are quantized to the declared format; other dtypes must match
  /// it.
  /// @param importance as quantize(): one factor for each column
  void write(std::string_view name, const Tensor& tensor, std::span<const float> importance = {});

  /// Renames the file to `path`. @throws FormatError also if a tensor is incomplete, naming it
  void finish();

 private:
  struct Declared;
  struct State;
  Declared& current(std::string_view name);
  void begin();

  Owned<State> state_;
};

}  // namespace etna::io

namespace etna {

/// Loads all tensors of a GGUF file with GgufFile::load(). @throws FormatError, also for an unknown format
std::map<std::string, Tensor> load_gguf(const FilePath& path, Device device = {});

struct GgufOptions {
  std::vector<std::pair<std::string, io::GgufValue>> metadata = {};
  std::uint32_t alignment = 32;
};

/// Writes tensors in the formats of their dtypes (f64, f32, f16, bf16, i64, i32, i8). They may be views, on any device.
/// @throws FormatError as GgufWriter, and for other dtypes
void save_gguf(const FilePath& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
               const GgufOptions& options = {});

}  // namespace etna
