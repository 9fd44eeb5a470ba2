#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/splits/split_patterns.h>
#include <etna/data/tokenizers/internal/unicode/byte_characters.h>
#include <etna/data/tokenizers/pieces/internal/bert_text.h>
#include <etna/data/tokenizers/pieces/internal/piece_splits.h>
#include <etna/data/tokenizers/pieces/internal/sentencepiece_normalizer.h>
#include <etna/data/tokenizers/pieces/internal/space_symbol.h>
#include <etna/data/tokenizers/pieces/internal/tokenizer_plan.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

/// As `tokenizer.ggml.model` names them.
constexpr std::pair<std::string_view, VocabularyKind> kVocabularyKinds[] = {
    {"llama", VocabularyKind::sentencepiece_bpe},
    {"t5", VocabularyKind::unigram},
    {"gpt2", VocabularyKind::byte_bpe},
    {"gemma4", VocabularyKind::piece_bpe},
    {"bert", VocabularyKind::wordpiece}};

/// A one-byte token takes some 100 bytes of memory. No published vocabulary has a tenth of this many tokens.
constexpr std::size_t kMostTokens = 1 << 24;

/// Runs of newlines, and the text between them.
void newline_runs(std::string_view text, bool, std::vector<std::string>& pieces) {
  while (!text.empty()) {
    const std::size_t end =
        std::min(text.front() == '\n' ? text.find_first_not_of('\n') : text.find('\n'), text.size());
    pieces.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

class VocabularyPlanner {
 public:
  VocabularyPlanner(VocabularyFields fields, const std::string& name) : fields_(std::move(fields)), name_(name) {}

  TokenizerPlan run() {
    if (!fields_.kind())
      refuse(
          fmt::format("its tokenizer model is '{}'; wanted llama (SentencePiece BPE), t5 (unigram), gpt2 (byte-level "
                      "BPE), gemma4 (BPE of characters) or bert (WordPiece)",
                      fields_.model));
    read_types();
    if (fields_.kind() == VocabularyKind::byte_bpe)
      plan_bytes();
    else if (fields_.kind() == VocabularyKind::piece_bpe)
      plan_pieces();
    else if (fields_.kind() == VocabularyKind::wordpiece)
      plan_word_pieces();
    else
      plan_sentencepiece();
    plan_prompt();
    plan_.chat_template = fields_.chat_template;
    plan_.tokens = fields_.tokens;
    plan_.json = [fields = std::move(fields_)] { return vocabulary_json(fields); };
    return std::move(plan_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw FormatError(fmt::format("{}: cannot be used as a tokenizer: {}", name_, why));
  }

  void read_types() {
    const std::size_t count = fields_.tokens.size();
    if (count == 0) refuse("it has no tokens");
    if (count > kMostTokens) refuse(fmt::format("it has {} tokens, more than any model", count));
    if (!fields_.types.empty() && fields_.types.size() != count)
      refuse(fmt::format("{} tokens have {} types", count, fields_.types.size()));
    if (fields_.types.empty()) fields_.types.assign(count, static_cast<std::int32_t>(TokenType::normal));
    std::unordered_map<std::string_view, std::size_t> seen;
    for (std::size_t id = 0; id < count; ++id) {
      const std::int32_t type = fields_.types[id];
      if (type < 0 || type > 6) refuse(fmt::format("token {} has type {}; wanted 0 to 6", id, type));
      // 0 is "undefined" in a GGUF file; text is never encoded to such tokens.
      plan_.types.push_back(type == 0 ? TokenType::unused : static_cast<TokenType>(type));
      if (!is_text(id) || fields_.tokens[id].empty()) continue;
      const auto added = seen.emplace(fields_.tokens[id], id);
      if (!added.second) refuse(fmt::format("tokens {} and {} are the same", added.first->second, id));
    }
  }

  bool is_text(std::size_t id) const {
    return plan_.types[id] == TokenType::normal || plan_.types[id] == TokenType::user_defined;
  }

  void check_scores() const {
    if (fields_.scores.size() != fields_.tokens.size())
      refuse(fmt::format("{} tokens have {} scores", fields_.tokens.size(), fields_.scores.size()));
    for (std::size_t id = 0; id < fields_.scores.size(); ++id)
      if (!std::isfinite(fields_.scores[id])) refuse(fmt::format("the score of token {} is not finite", id));
  }

  std::optional<std::int32_t> checked(const std::optional<std::int64_t>& id, const char* what) const {
    if (!id) return std::nullopt;
    if (*id < 0 || static_cast<std::size_t>(*id) >= fields_.tokens.size())
      refuse(fmt::format("its {} is {}, out of range for {} tokens", what, *id, fields_.tokens.size()));
    return static_cast<std::int32_t>(*id);
  }

  /// Byte tokens and the unknown token.
  Fallback read_fallback() {
    Fallback fallback;
    std::vector<std::string> byte_spellings(fields_.tokens.size());
    for (std::size_t id = 0; id < fields_.tokens.size(); ++id) {
      if (plan_.types[id] != TokenType::byte) continue;
      byte_spellings[id] = fields_.tokens[id];
      if (byte_token(fields_.tokens[id]) < 0) refuse(fmt::format("the byte token {} is not spelled <0xNN>", id));
    }
    fallback.read_bytes(byte_spellings);
    fallback.unknown = checked(fields_.unk, "unknown token").value_or(-1);
    if (fallback.unknown < 0) {
      const auto found = std::find(plan_.types.begin(), plan_.types.end(), TokenType::unknown);
      if (found != plan_.types.end()) fallback.unknown = static_cast<std::int32_t>(found - plan_.types.begin());
    }
    if (!fallback.all_bytes) plan_.fuse_unknown = fallback.unknown;

    return fallback;
  }

  void plan_sentencepiece() {
    check_scores();
    const bool unigram = fields_.kind() == VocabularyKind::unigram;
    plan_.kind = unigram ? "unigram" : "sentencepiece";
    const Fallback fallback = read_fallback();
    SentencePieceNormalizer normalizer;
    normalizer.rules = Charsmap(fields_.precompiled_charsmap, name_);
    std::vector<std::pair<std::string_view, std::int32_t>> whole;
    std::vector<AddedToken> special;
    for (std::size_t id = 0; id < fields_.tokens.size(); ++id) {
      const TokenType type = plan_.types[id];
      const auto number = static_cast<std::int32_t>(id);
      if (type == TokenType::user_defined) whole.emplace_back(fields_.tokens[id], number);
      if (type == TokenType::control || type == TokenType::unknown)
        special.push_back({.text = fields_.tokens[id], .id = number, .special = true});
      plan_.bytes.push_back(bytes_of(id));
    }
    normalizer.user_defined = PrefixTrie(whole);
    normalizer.add_space_prefix = fields_.add_space_prefix.value_or(true);
    normalizer.remove_extra_whitespaces = fields_.remove_extra_whitespaces;
    normalizer.escape_whitespaces = fields_.escape_whitespaces;
    normalizer.treat_whitespace_as_suffix = fields_.treat_whitespace_as_suffix;
    normalizer.keep_invalid = fallback.all_bytes;
    plan_.raw = AddedTokens(std::move(special));
    if (fields_.remove_extra_whitespaces)
      plan_.leading_space = LeadingSpace::sentencepiece_every;
    else if (normalizer.add_space_prefix)
      plan_.leading_space = LeadingSpace::sentencepiece;
    plan_.normalize = std::move(normalizer);
    if (unigram) {
      const std::vector<double> scores(fields_.scores.begin(), fields_.scores.end());
      plan_.model = make_unigram_model(fields_.tokens, scores, plan_.types, {.fallback = fallback});
    } else {
      plan_.model = make_score_model(fields_.tokens, fields_.scores, plan_.types, fallback);
    }
  }

  std::string bytes_of(std::size_t id) const {
    switch (plan_.types[id]) {
      case TokenType::control:
        return {};
      case TokenType::unknown:
        return fields_.unknown_text;
      case TokenType::byte:
        return std::string(1, static_cast<char>(byte_token(fields_.tokens[id])));
      default:
        return replace_all(fields_.tokens[id], kSpaceSymbol, " ");
    }
  }

  void plan_bytes() {
    plan_.kind = "byte-level bpe";
    const SplitRule rule = split_rule(fields_.pre, name_);
    if (!fields_.add_bos) fields_.add_bos = rule.add_bos && fields_.bos.has_value();
    std::vector<bool> usable(fields_.tokens.size(), false);
    std::vector<AddedToken> added;
    for (std::size_t id = 0; id < fields_.tokens.size(); ++id) {
      const TokenType type = plan_.types[id];
      const std::string& text = fields_.tokens[id];
      if (type == TokenType::control || type == TokenType::unknown || type == TokenType::user_defined) {
        added.push_back(
            {.text = text, .id = static_cast<std::int32_t>(id), .special = type != TokenType::user_defined});
        plan_.bytes.push_back(type == TokenType::control ? std::string() : text);
        continue;
      }
      const auto bytes = from_characters(text);
      usable[id] = type == TokenType::normal && bytes && !bytes->empty();
      plan_.bytes.push_back(bytes ? *bytes : text);
    }
    plan_.raw = AddedTokens(std::move(added));
    MergeModelOptions options{.bytes = true, .ignore_merges = rule.ignore_merges, .fallback = {}};
    options.fallback.bytes.fill(-1);
    options.fallback.unknown = checked(fields_.unk, "unknown token").value_or(-1);
    plan_.model = make_merge_model(plan_.bytes, usable, read_merges(), options, name_);
    plan_.split = regex_splits(rule.patterns, name_);
  }

  /// As SentencePiece, characters without a token become bytes, and spaces U+2581, but merges are listed.
  void plan_pieces() {
    plan_.kind = "bpe of characters";
    MergeModelOptions options{.bytes = false, .whole_newlines = true, .fallback = read_fallback()};
    std::vector<bool> usable;
    std::vector<AddedToken> added;
    for (std::size_t id = 0; id < fields_.tokens.size(); ++id) {
      const TokenType type = plan_.types[id];
      const bool special = type == TokenType::control || type == TokenType::unknown;
      if (special || type == TokenType::user_defined)
        added.push_back({.text = fields_.tokens[id], .id = static_cast<std::int32_t>(id), .special = special});
      usable.push_back(is_text(id));
      plan_.bytes.push_back(bytes_of(id));
    }
    plan_.raw = AddedTokens(std::move(added));
    SentencePieceNormalizer normalizer;
    normalizer.add_space_prefix = fields_.add_space_prefix.value_or(false);
    normalizer.remove_extra_whitespaces = false;
    normalizer.escape_whitespaces = true;
    normalizer.keep_invalid = options.fallback.all_bytes;
    if (normalizer.add_space_prefix) plan_.leading_space = LeadingSpace::sentencepiece;
    plan_.normalize = std::move(normalizer);
    plan_.model = make_merge_model(fields_.tokens, usable, read_merges(), options, name_);
    plan_.split = newline_runs;
    fields_.add_bos = fields_.bos.has_value();  // whatever the file says: early ones are wrong
  }

  void plan_word_pieces() {
    plan_.kind = "wordpiece";
    const auto named = [&](std::optional<std::int64_t>& id, const char* name) {
      const auto found = std::find(fields_.tokens.begin(), fields_.tokens.end(), name);
      if (!id && found != fields_.tokens.end()) id = found - fields_.tokens.begin();
    };
    named(fields_.bos, "[CLS]");
    named(fields_.eos, "[SEP]");
    named(fields_.unk, "[UNK]");
    WordPieceOptions options;
    options.unknown = checked(fields_.unk, "unknown token").value_or(-1);
    const WordPieceText text_of{.prefix = options.prefix};
    std::vector<std::string> spelled;
    std::vector<bool> usable;
    std::vector<AddedToken> special;
    for (std::size_t id = 0; id < fields_.tokens.size(); ++id) {
      const TokenType type = plan_.types[id];
      const std::string& token = fields_.tokens[id];
      const bool is_special = type == TokenType::control || type == TokenType::unknown;
      if (is_special) special.push_back({.text = token, .id = static_cast<std::int32_t>(id), .special = true});
      usable.push_back(type == TokenType::normal);
      const bool begins = token.starts_with(kSpaceSymbol);
      spelled.push_back(is_special ? token : begins ? token.substr(kSpaceSymbol.size()) : options.prefix + token);
      plan_.bytes.push_back(type == TokenType::control ? std::string() : text_of(spelled.back()));
    }
    plan_.raw = AddedTokens(std::move(special));
    plan_.normalize = BertNormalizer();
    plan_.split = bert_split(name_);
    plan_.leading_space = LeadingSpace::count;
    plan_.leading_spaces = 1;
    plan_.model = make_wordpiece_model(spelled, usable, options);
  }

  std::vector<TokenMerge> read_merges() const {
    std::unordered_map<std::string_view, std::int32_t> ids;
    const bool of_pieces = fields_.kind() == VocabularyKind::piece_bpe;
    for (std::size_t id = 0; id < fields_.tokens.size(); ++id)
      if (of_pieces ? is_text(id) : plan_.types[id] == TokenType::normal)
        ids.emplace(fields_.tokens[id], static_cast<std::int32_t>(id));
    std::vector<TokenMerge> merges;
    merges.reserve(fields_.merges.size());
    for (const std::string& merge : fields_.merges) {
      // A leading space is the first character of the left token.
      const std::size_t space = merge.find(' ', 1);
      const std::string_view left = std::string_view(merge).substr(0, space);
      const std::string_view right =
          space == std::string::npos ? std::string_view() : std::string_view(merge).substr(space + 1);
      const auto first = ids.find(left), second = ids.find(right);
      if (first == ids.end() || second == ids.end())
        refuse(fmt::format("merge {} is not a pair of tokens", merges.size()));
      merges.emplace_back(first->second, second->second);
    }
    return merges;
  }

  void plan_prompt() {
    plan_.bos = checked(fields_.bos, "bos");
    plan_.eos = checked(fields_.eos, "eos");
    plan_.unk = checked(fields_.unk, "unknown token");
    // Text is never encoded to padding, so some files name a row of the padded embedding table.
    const auto count = static_cast<std::int64_t>(fields_.tokens.size());
    if (fields_.pad && *fields_.pad >= 0 && *fields_.pad < count) plan_.pad = static_cast<std::int32_t>(*fields_.pad);
    const auto kind = fields_.kind();
    const bool pieces = kind == VocabularyKind::wordpiece, unigram = kind == VocabularyKind::unigram;
    const bool add_bos =
        fields_.add_bos.value_or((pieces || kind == VocabularyKind::sentencepiece_bpe) && plan_.bos.has_value());
    const bool add_eos = fields_.add_eos.value_or((pieces || unigram) && plan_.eos.has_value());
    if (add_bos && !plan_.bos) refuse("prompts should begin with BOS, but it lacks a BOS token");
    if (add_eos && !plan_.eos) refuse("prompts should end with EOS, but it lacks an EOS token");
    if (add_bos) plan_.prefix.push_back(*plan_.bos);
    if (add_eos) plan_.suffix.push_back(*plan_.eos);
    if (add_bos && add_eos) plan_.pair = (pieces ? bert_pair : roberta_pair)(*plan_.bos, *plan_.eos);
    if (plan_.eos) plan_.end_tokens.push_back(*plan_.eos);
    for (const std::int64_t id : fields_.end_tokens) plan_.end_tokens.push_back(*checked(id, "end token"));
    // Files name only one EOS token, but models also have one that ends a turn.
    const std::vector<std::int32_t> turns = ends_of_turns(fields_.tokens, plan_.types);
    plan_.end_tokens.insert(plan_.end_tokens.end(), turns.begin(), turns.end());
    std::sort(plan_.end_tokens.begin(), plan_.end_tokens.end());
    plan_.end_tokens.erase(std::unique(plan_.end_tokens.begin(), plan_.end_tokens.end()), plan_.end_tokens.end());
  }

  VocabularyFields fields_;
  const std::string& name_;
  TokenizerPlan plan_;
};

}  // namespace

std::optional<VocabularyKind> VocabularyFields::kind() const {
  for (const auto& [name, kind] : kVocabularyKinds)
    if (name == model) return kind;
  return std::nullopt;
}

std::vector<PairPart> bert_pair(std::int32_t begin, std::int32_t end) {
  return {{.special = {begin}}, {.text = 0}, {.special = {end}}, {.text = 1, .type = 1}, {.special = {end}, .type = 1}};
}

std::vector<PairPart> roberta_pair(std::int32_t begin, std::int32_t end) {
  return {{.special = {begin}}, {.text = 0}, {.special = {end, end}}, {.text = 1}, {.special = {end}}};
}

bool is_end_of_turn(std::string_view token) {
  for (const std::string_view end :
       {"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
        "<EOT>", "_<EOT>", "<|end_of_turn|>", "<|return|>", "<|call|>",
        "<\xEF\xBD\x9C"
        "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"})
    if (token == end) return true;
  return false;
}

std::vector<std::int32_t> ends_of_turns(const std::vector<std::string>& tokens, const std::vector<TokenType>& types) {
  std::vector<std::int32_t> ends;
  std::optional<std::int32_t> message;
  bool channels = false;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] != TokenType::control || !is_end_of_turn(tokens[id])) continue;
    ends.push_back(static_cast<std::int32_t>(id));
    if (tokens[id] == "<|end|>") message = ends.back();
    channels = channels || tokens[id] == "<|call|>";
  }
  if (channels && message) std::erase(ends, *message);
  return ends;
}

TokenizerPlan plan_vocabulary(VocabularyFields fields, const std::string& name) {
  return VocabularyPlanner(std::move(fields), name).run();
}

}  // namespace etna::data
