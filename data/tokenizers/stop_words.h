#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace etna::data {

/// Cuts a stream at the first stop word; buffers a suffix that may start one. The output does not depend on how the
/// text is split into chunks.
class StopWords {
 public:
  /// Empty words are ignored.
  explicit StopWords(std::vector<std::string> words);

  /// The text that may be shown after this chunk; empty after a stop word.
  std::string push(std::string_view chunk);
  /// The buffered suffix; empty after a stop word.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> words_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace etna::data
