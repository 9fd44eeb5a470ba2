#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

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
  /// The number of a list's items; otherwise 1.
  std::uint64_t size() const { return count_; }

  /// The value, converted if that loses nothing: integer() from any integer type in range, number() from any number.
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

}  // namespace etna::io
