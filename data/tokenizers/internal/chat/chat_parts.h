#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>

namespace etna::data {

/// Collects the parts of a prompt; neighbours of one kind become one part. Internal.
class ChatParts {
 public:
  void markup(std::string_view text) { add(text, SpecialTokens::recognize); }
  void content(std::string_view text) { add(text, SpecialTokens::as_text); }
  std::vector<TextPart> take() { return std::move(parts_); }

 private:
  void add(std::string_view text, SpecialTokens special) {
    if (text.empty()) return;
    if (parts_.empty() || parts_.back().special != special) parts_.push_back({"", special});
    parts_.back().text += text;
  }
  std::vector<TextPart> parts_;
};

}  // namespace etna::data
