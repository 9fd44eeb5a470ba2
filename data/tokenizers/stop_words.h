#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace etna::data {

/// Ends a text that comes in pieces before the first of some stop words, and holds back what may begin one. What comes
/// out does not depend on where the pieces end.
class StopWords {
 public:
  /// Empty words stop nothing.
  explicit StopWords(std::vector<std::string> words);

  /// The text that may be shown after this piece; nothing once a stop word came.
  std::string push(std::string_view piece);
  /// What was held back, where no stop word came.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> words_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace etna::data
