#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

/// Messages between a Meeting and its server: a length, a kind, fields.
namespace etna::distributed {

enum class FrameKind : std::uint8_t {
  hello,
  welcome,
  refused,
  put,
  get,
  value,
  beat,
  lost,
  left,
  leave,
  ask,
  member,
  announcement
};

class FrameWriter {
 public:
  explicit FrameWriter(FrameKind kind) : bytes_(4, '\0') { bytes_.push_back(static_cast<char>(kind)); }
  FrameWriter& text(std::string_view value) {
    number(value.size());
    bytes_.append(value);
    return *this;
  }
  FrameWriter& number(std::uint64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  std::string take() {
    const auto size = static_cast<std::uint32_t>(bytes_.size() - 4);
    std::memcpy(bytes_.data(), &size, 4);
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

/// Reads fields; what is missing is 0 or empty.
class FrameReader {
 public:
  explicit FrameReader(std::string_view frame) : rest_(frame) {
    kind_ = static_cast<FrameKind>(rest_.empty() ? 0xff : rest_.front());
    if (!rest_.empty()) rest_.remove_prefix(1);
  }
  FrameKind kind() const { return kind_; }
  std::uint64_t number() {
    std::uint64_t value = 0;
    if (rest_.size() < sizeof value) return rest_ = {}, 0;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    const auto size = number();
    if (size > rest_.size()) return rest_ = {}, "";
    const std::string value(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return value;
  }

 private:
  std::string_view rest_;
  FrameKind kind_;
};

/// Bytes as they arrive, taken frame by frame.
class FrameBuffer {
 public:
  static constexpr std::uint32_t kMost = 64u << 20;  ///< bytes of a frame

  void add(const std::string& bytes) { bytes_ += bytes; }
  /// False where there is no whole frame yet.
  bool take(std::string& frame) {
    std::uint32_t size = 0;
    if (bytes_.size() < 4) return false;
    std::memcpy(&size, bytes_.data(), 4);
    if (size > kMost) return broken_ = true, false;
    if (bytes_.size() < 4 + std::size_t{size}) return false;
    frame = bytes_.substr(4, size);
    bytes_.erase(0, 4 + std::size_t{size});
    return true;
  }
  bool broken() const { return broken_; }  ///< what comes is of another protocol

 private:
  std::string bytes_;
  bool broken_ = false;
};

}  // namespace etna::distributed
