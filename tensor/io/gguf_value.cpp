#include <etna/tensor/io/gguf.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/io/internal/quoted_name.h>

namespace etna::io {
namespace {

constexpr std::array<std::string_view, 13> kNames = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                     "bool", "string", "array", "u64", "i64", "f64"};
constexpr std::array<std::size_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

void gguf_value_append_string(std::string& bytes, std::string_view text) {
  const std::uint64_t size = text.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes.append(text);
}

template <typename T>
T take(const char*& at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  at += sizeof value;
  return value;
}

/// Converts a number to another type; nullopt if that cannot represent it.
template <typename To, typename From>
bool convert(From from, To& to) {
  if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>)
    return false;
  else if constexpr (std::is_integral_v<To>) {
    if (!std::in_range<To>(from)) return false;
  }
  to = static_cast<To>(from);
  return true;
}

}  // namespace

std::string_view name(GgufType type) { return kNames.at(static_cast<std::size_t>(type)); }
std::size_t item_bytes(GgufType type) { return kBytes.at(static_cast<std::size_t>(type)); }

GgufValue::GgufValue(std::string_view text) {
  type_ = item_type_ = GgufType::string;
  gguf_value_append_string(bytes_, text);
}

GgufValue::GgufValue(const std::vector<bool>& list) {
  type_ = GgufType::array;
  item_type_ = GgufType::boolean;
  count_ = list.size();
  for (const bool item : list) bytes_ += item ? '\1' : '\0';
}

GgufValue::GgufValue(const std::vector<std::string>& list) {
  type_ = GgufType::array;
  item_type_ = GgufType::string;
  count_ = list.size();
  for (const std::string& item : list) gguf_value_append_string(bytes_, item);
}

GgufValue GgufValue::list_of(GgufType item, std::uint64_t count, const void* bytes, std::size_t size) {
  GgufValue value;
  value.type_ = GgufType::array;
  value.item_type_ = item;
  value.count_ = count;
  if (size > 0) value.bytes_.assign(static_cast<const char*>(bytes), size);
  return value;
}

GgufValue GgufValue::from_file(GgufType type, GgufType item_type, std::uint64_t count,
                               std::span<const std::byte> bytes) {
  GgufValue value = list_of(item_type, count, bytes.data(), bytes.size());
  value.type_ = type;
  return value;
}

void GgufValue::unfit(const char* wanted) const {
  const std::string is = is_list() ? fmt::format("a list of {} {}", count_, io::name(item_type_))
                                   : fmt::format("{} ({})", str(), io::name(type_));
  throw FormatError(fmt::format("is {}; wanted {}", is, wanted));
}

template <typename T>
bool GgufValue::item_at(const char*& at, T& into) const {
  switch (item_type_) {
    case GgufType::u8:
      return convert(take<std::uint8_t>(at), into);
    case GgufType::i8:
      return convert(take<std::int8_t>(at), into);
    case GgufType::u16:
      return convert(take<std::uint16_t>(at), into);
    case GgufType::i16:
      return convert(take<std::int16_t>(at), into);
    case GgufType::u32:
      return convert(take<std::uint32_t>(at), into);
    case GgufType::i32:
      return convert(take<std::int32_t>(at), into);
    case GgufType::u64:
      return convert(take<std::uint64_t>(at), into);
    case GgufType::i64:
      return convert(take<std::int64_t>(at), into);
    case GgufType::f32:
      return convert(take<float>(at), into);
    case GgufType::f64:
      return convert(take<double>(at), into);
    case GgufType::boolean:
    case GgufType::string:
    case GgufType::array:
      break;
  }
  return false;
}

template <typename T>
std::vector<T> GgufValue::converted(const char* wanted) const {
  std::vector<T> items(static_cast<std::size_t>(count_));
  const char* at = bytes_.data();
  for (T& item : items) {
    if (!item_at(at, item)) unfit(wanted);
  }
  return items;
}

std::int64_t GgufValue::integer() const {
  if (is_list()) unfit("an integer");
  return converted<std::int64_t>("an integer").front();
}
std::uint64_t GgufValue::unsigned_integer() const {
  if (is_list()) unfit("a nonnegative integer");
  return converted<std::uint64_t>("a nonnegative integer").front();
}
double GgufValue::number() const {
  if (is_list()) unfit("a number");
  return converted<double>("a number").front();
}
bool GgufValue::boolean() const {
  if (type_ != GgufType::boolean) unfit("a bool");
  return bytes_[0] != '\0';
}
std::string GgufValue::string() const {
  if (type_ != GgufType::string) unfit("a string");
  return bytes_.substr(sizeof(std::uint64_t));
}
std::vector<bool> GgufValue::booleans() const {
  if (!is_list() || item_type_ != GgufType::boolean) unfit("a list of true and false");
  std::vector<bool> list;
  for (const char item : bytes_) list.push_back(item != 0);
  return list;
}

std::vector<std::int64_t> GgufValue::integers() const {
  if (!is_list()) unfit("a list of integers");
  return converted<std::int64_t>("a list of integers");
}
std::vector<float> GgufValue::numbers() const {
  if (!is_list()) unfit("a list of numbers");
  return converted<float>("a list of numbers");
}
std::vector<std::string> GgufValue::strings() const {
  if (!is_list() || item_type_ != GgufType::string) unfit("a list of strings");
  std::vector<std::string> items(static_cast<std::size_t>(count_));
  const char* at = bytes_.data();
  for (std::string& item : items) {
    const auto size = static_cast<std::size_t>(take<std::uint64_t>(at));
    item.assign(at, size);
    at += size;
  }
  return items;
}

std::string GgufValue::str(std::size_t most) const {
  std::string text;
  const char* at = bytes_.data();
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(count_, is_list() ? most : 1); ++i) {
    if (i > 0) text += ", ";
    if (item_type_ == GgufType::string) {
      const auto size = static_cast<std::size_t>(take<std::uint64_t>(at));
      text += quoted_name({at, size});
      at += size;
    } else if (item_type_ == GgufType::boolean) {
      text += take<std::uint8_t>(at) != 0 ? "true" : "false";
    } else if (item_type_ == GgufType::f32) {
      text += fmt::format("{}", take<float>(at));
    } else if (double number = 0; item_type_ == GgufType::f64) {
      item_at(at, number);
      text += fmt::format("{}", number);
    } else if (item_type_ == GgufType::u64) {
      text += fmt::format("{}", take<std::uint64_t>(at));
    } else {
      std::int64_t integer = 0;
      item_at(at, integer);
      text += fmt::format("{}", integer);
    }
  }
  if (!is_list()) return text;
  if (count_ <= most) return "[" + text + "]";
  return fmt::format("[{}{}... {} {}]", text, most > 0 ? ", " : "", count_, io::name(item_type_));
}

std::string GgufValue::file_bytes() const {
  if (!is_list()) return bytes_;
  std::string bytes;
  const auto item = static_cast<std::uint32_t>(item_type_);
  bytes.append(reinterpret_cast<const char*>(&item), sizeof item);
  bytes.append(reinterpret_cast<const char*>(&count_), sizeof count_);
  return bytes + bytes_;
}

}  // namespace etna::io
