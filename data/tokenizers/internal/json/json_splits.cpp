#include <fmt/format.h>

#include <etna/data/tokenizers/internal/json/json_steps.h>
#include <etna/data/tokenizers/internal/splits/published_patterns.h>
#include <etna/data/tokenizers/internal/splits/regex_splitter.h>
#include <etna/data/tokenizers/internal/unicode/byte_characters.h>
#include <etna/data/tokenizers/pieces/internal/bert_text.h>
#include <etna/data/tokenizers/pieces/internal/piece_splits.h>
#include <etna/data/tokenizers/pieces/internal/space_symbol.h>

namespace etna::data {
namespace {

using Split = TokenizerPlan::Split;

SplitBehavior behavior(const JsonPart& part) {
  const std::string word = part.text("behavior", "Isolated");
  if (word == "Isolated") return SplitBehavior::isolated;
  if (word == "Removed") return SplitBehavior::removed;
  if (word == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (word == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (word == "Contiguous") return SplitBehavior::contiguous;
  part.refuse(fmt::format("has an unknown behavior, {}", word));
}

Split metaspace(const JsonPart& part) {
  const std::string replacement = part.text("replacement", std::string(kSpaceSymbol));
  if (replacement.empty()) part.refuse("has an empty replacement");
  const std::string scheme = part.text("prepend_scheme", part.flag("add_prefix_space", true) ? "always" : "never");
  SpacePrefix prefix = SpacePrefix::always;
  if (scheme == "never")
    prefix = SpacePrefix::never;
  else if (scheme == "first")
    prefix = SpacePrefix::first;
  else if (scheme != "always")
    part.refuse(fmt::format("has prepend_scheme = {}; wanted always, first or never", scheme));
  return metaspace_split(replacement, prefix, part.flag("split", true));
}

Split space_before() {
  return [](std::string_view text, bool, std::vector<std::string>& pieces) {
    std::string& piece = pieces.emplace_back();
    if (text.substr(0, 1) != " ") piece = ' ';
    piece += text;
  };
}

Split spelled_bytes() {
  return [](std::string_view text, bool, std::vector<std::string>& pieces) { pieces.push_back(to_characters(text)); };
}

void read_step(const JsonPart& part, JsonSplit& split) {
  const std::string type = part.type();
  if (type == "Sequence") {
    for (const JsonPart& step : part.list("pretokenizers")) read_step(step, split);
    return;
  }
  if (split.byte_level && !split.spelled) {
    split.steps.push_back(spelled_bytes());
    split.spelled = true;
  }
  if (type == "ByteLevel") {
    if (split.byte_level) part.refuse("is ByteLevel twice");
    split.byte_level = true;
    if (part.flag("add_prefix_space", true)) split.steps.push_back(space_before());
    if (part.flag("use_regex", true))
      split.steps.push_back(regex_split(published::kGpt2, SplitBehavior::isolated, false, part.name()));
  } else if (type == "Split") {
    split.steps.push_back(
        regex_split(part.pattern("pattern"), behavior(part), part.flag("invert", false), part.name()));
  } else if (type == "Metaspace") {
    split.steps.push_back(metaspace(part));
  } else if (type == "Digits") {
    const bool each = part.flag("individual_digits", false);
    split.steps.push_back(
        regex_split(each ? published::kOneNumber : published::kNumbers, SplitBehavior::isolated, false, part.name()));
  } else if (type == "Punctuation") {
    split.steps.push_back(regex_split(published::kOnePunctuation, behavior(part), false, part.name()));
  } else if (type == "WhitespaceSplit") {
    split.steps.push_back(regex_split(published::kOneSpace, SplitBehavior::removed, false, part.name()));
  } else if (type == "BertPreTokenizer") {
    split.steps.push_back(bert_split(part.name()));
  } else if (type == "CharDelimiterSplit") {
    split.steps.push_back(
        regex_split(escape_regex(part.text("delimiter")), SplitBehavior::removed, false, part.name()));
  } else {
    part.refuse(fmt::format("is a {}, which Etna does not support", type));
  }
}

void read_decoder_step(const JsonPart& part, bool& fused, JsonDecoder& decoder) {
  const std::string type = part.type();
  if (type == "Sequence") {
    for (const JsonPart& step : part.list("decoders")) read_decoder_step(step, fused, decoder);
    return;
  }
  if (type == "Fuse") {
    fused = true;
    return;
  }
  if (type == "Strip") {
    if (part.text("content") != " " || part.integer("stop", 0) != 0 || part.integer("start", 0) < 0)
      part.refuse("has a Strip of something other than leading spaces");
    const auto count = static_cast<std::size_t>(part.integer("start", 0));
    if (fused) {
      decoder.leading_space = LeadingSpace::count;
      decoder.leading_spaces += count;
    } else {
      decoder.strip_each += count;
    }
    return;
  }
  if (fused) part.refuse(fmt::format("has a {} after Fuse, which Etna does not support", type));
  if (type == "ByteLevel") {
    decoder.byte_level = true;
  } else if (type == "WordPiece") {
    decoder.word_pieces = {.prefix = part.text("prefix", "##"), .cleans = part.flag("cleanup", true)};
    decoder.leading_space = LeadingSpace::count;
    decoder.leading_spaces = 1;
  } else if (type == "ByteFallback") {
    decoder.byte_fallback = true;
  } else if (type == "Metaspace") {
    const std::string replacement = part.text("replacement", std::string(kSpaceSymbol));
    const std::string scheme = part.text("prepend_scheme", part.flag("add_prefix_space", true) ? "always" : "never");
    if (replacement != kSpaceSymbol && scheme != "never") part.refuse("has a replacement other than U+2581");
    if (replacement.empty()) part.refuse("has an empty replacement");
    if (scheme != "never") decoder.leading_space = LeadingSpace::first_token;
    decoder.replaced.emplace_back(replacement, " ");
  } else if (type == "Replace") {
    const nlohmann::json* pattern = part.find("pattern");
    const nlohmann::json* plain = pattern == nullptr ? nullptr : json_field(*pattern, "String");
    if (plain == nullptr || !plain->is_string() || *plain == "")
      part.refuse("has a Replace without a String to replace");
    decoder.replaced.emplace_back(plain->get<std::string>(), part.text("content"));
  } else {
    part.refuse(fmt::format("is a {}, which Etna does not support", type));
  }
}

}  // namespace

JsonSplit read_pre_tokenizer(const JsonPart& part) {
  JsonSplit split;
  read_step(part, split);
  return split;
}

JsonDecoder read_decoder(const JsonPart& part) {
  JsonDecoder decoder;
  bool fused = false;
  read_decoder_step(part, fused, decoder);
  return decoder;
}

}  // namespace etna::data
