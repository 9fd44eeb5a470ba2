#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <utility>

namespace etna {

/// std::filesystem::path, known by what only it has.
template <typename T>
concept StandardPath = requires(const T& path) {
  T::preferred_separator;
  path.lexically_normal();
};

/// The name of a file or a folder, as UTF-8 text. Etna takes and returns it instead of std::filesystem::path, whose
/// header takes a compiler long. Strings and std::filesystem::path convert to it, and it to std::filesystem::path:
///
///     load("model.etna", items);
///     const std::filesystem::path newest = training::find_checkpoints("runs/first").latest;
class FilePath {
 public:
  FilePath() = default;
  FilePath(const char* text) : text_(text) {}
  FilePath(std::string text) : text_(std::move(text)) {}
  FilePath(std::string_view text) : text_(text) {}
  template <StandardPath Path>
  FilePath(const Path& path) {
    const auto text = path.u8string();
    text_.assign(text.begin(), text.end());
  }
  template <StandardPath Path>
  operator Path() const {
    return Path(std::u8string(text_.begin(), text_.end()));
  }

  const std::string& string() const { return text_; }
  const char* c_str() const { return text_.c_str(); }
  bool empty() const { return text_.empty(); }

  /// Joins as std::filesystem::path does: an absolute `name` replaces what is before it.
  FilePath operator/(const FilePath& name) const;
  template <StandardPath Path>
  FilePath operator/(const Path& name) const {
    return *this / FilePath(name);
  }

  /// Compares the texts.
  friend bool operator==(const FilePath&, const FilePath&) = default;
  friend auto operator<=>(const FilePath&, const FilePath&) = default;
  template <StandardPath Path>
  friend bool operator==(const FilePath& a, const Path& b) {
    return a == FilePath(b);
  }

 private:
  std::string text_;
};

}  // namespace etna
