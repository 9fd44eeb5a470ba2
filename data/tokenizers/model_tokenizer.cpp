#include <etna/data/tokenizers/model_tokenizer.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/pieces/internal/space_symbol.h>
#include <etna/data/tokenizers/pieces/internal/tokenizer_plan.h>
#include <etna/device/error.h>
#include <etna/tensor/io/internal/xxh3.h>

namespace etna::data {
namespace {

using Ids = std::vector<std::int32_t>;
using Ranges = AddedTokens::Ranges;

/// Encodes one text.
class ModelTokenizerEncoding {
 public:
  /// @param markup ranges in which special tokens are recognized even if `special` is false
  ModelTokenizerEncoding(const TokenizerPlan& plan, bool special, const Ranges* markup = nullptr)
      : plan_(plan), special_(special), markup_(markup), words_(*plan.words) {}

  Ids run(std::string_view text) {
    ids_.reserve(text.size() / 3 + 1);
    plan_.raw.split(
        text, special_, [&](std::string_view part) { encode_raw(part, part.data() == text.data()); },
        [&](std::int32_t id) { ids_.push_back(id); }, markup_);
    return std::move(ids_);
  }

 private:
  void encode_raw(std::string_view text, bool start) {
    if (!plan_.normalize) return encode_normalized(text, start);
    const std::string normal = plan_.normalize(text);
    if (plan_.normalized.empty()) return encode_normalized(normal, start);
    plan_.normalized.split(
        normal, special_,
        [&](std::string_view part) { encode_normalized(part, start && part.data() == normal.data()); },
        [&](std::int32_t id) { ids_.push_back(id); });
  }

  void encode_normalized(std::string_view text, bool start) {
    if (text.empty()) return;
    if (!plan_.split) return encode_piece(text);
    std::vector<std::string> pieces;
    plan_.split(text, start, pieces);
    for (const std::string& piece : pieces) encode_piece(piece);
  }

  void encode_piece(std::string_view piece) {
    const std::size_t begin = ids_.size();
    if (const SpaceCuts* cuts = plan_.model->cuts())
      cuts->for_each_word(piece, [&](std::string_view word) { encode_word(word); });
    else
      encode_word(piece);
    if (plan_.fuse_unknown < 0) return;
    const auto both = [&](std::int32_t a, std::int32_t b) { return a == b && a == plan_.fuse_unknown; };
    ids_.erase(std::unique(ids_.begin() + static_cast<std::ptrdiff_t>(begin), ids_.end(), both), ids_.end());
  }

  void encode_word(std::string_view word) {
    if (word.empty()) return;
    words_.append(word, ids_, [this](std::string_view unknown, Ids& ids) { plan_.model->encode(unknown, ids); });
  }

  const TokenizerPlan& plan_;
  bool special_;
  const Ranges* markup_;
  Ids ids_;
  WordCache::Reader words_;
};

}  // namespace

ModelTokenizer::ModelTokenizer(VocabularyFields fields, const std::string& name)
    : ModelTokenizer(plan_vocabulary(std::move(fields), name)) {}
ModelTokenizer::ModelTokenizer(TokenizerPlan plan) : plan_(std::make_unique<const TokenizerPlan>(std::move(plan))) {}
ModelTokenizer::~ModelTokenizer() = default;
ModelTokenizer::ModelTokenizer(ModelTokenizer&&) noexcept = default;

std::vector<std::int32_t> ModelTokenizer::encode(std::string_view text, SpecialTokens special,
                                                 std::vector<std::string>*) const {
  return ModelTokenizerEncoding(*plan_, special == SpecialTokens::recognize).run(text);
}

std::vector<std::int32_t> ModelTokenizer::encode_prompt(std::string_view text, PromptOptions options) const {
  Ids ids = encode(text, options.special);
  if (options.add_special) return around(std::move(ids), options.most);
  if (options.most > 0 && ids.size() > options.most) ids.resize(options.most);
  return ids;
}

TokenPair ModelTokenizer::encode_pair(std::string_view first, std::string_view second, PromptOptions options) const {
  if (plan_->pair.empty()) return Tokenizer::encode_pair(first, second, options);
  Ids texts[2] = {encode(first, options.special), encode(second, options.special)};
  std::size_t around = 0;
  for (const PairPart& part : plan_->pair) around += options.add_special ? part.special.size() : 0;
  if (options.most > 0) {
    const std::size_t room = options.most - std::min(options.most, around);
    const bool swapped = texts[0].size() > texts[1].size();
    Ids &shorter = texts[swapped ? 1 : 0], &longer = texts[swapped ? 0 : 1];
    if (shorter.size() + longer.size() > room) {
      if (shorter.size() > room / 2) shorter.resize(room / 2);
      longer.resize(room - shorter.size());
    }
  }
  TokenPair pair;
  for (const PairPart& part : plan_->pair) {
    const Ids& ids = part.text < 0 ? part.special : texts[part.text];
    if (part.text < 0 && !options.add_special) continue;
    pair.ids.insert(pair.ids.end(), ids.begin(), ids.end());
    pair.types.resize(pair.ids.size(), part.type);
  }
  return pair;
}

std::vector<std::int32_t> ModelTokenizer::encode_parts(std::span<const TextPart> parts, bool add_special) const {
  std::string text;
  Ranges markup;
  for (const TextPart& part : parts) {
    const std::size_t begin = text.size();
    text += part.text;
    if (part.special == SpecialTokens::recognize) markup.emplace_back(begin, text.size());
  }
  Ids ids = ModelTokenizerEncoding(*plan_, false, &markup).run(text);
  return add_special ? around(std::move(ids)) : ids;
}

std::vector<std::int32_t> ModelTokenizer::around(std::vector<std::int32_t> ids, std::size_t most) const {
  const std::size_t special = plan_->prefix.size() + plan_->suffix.size();
  if (most > 0 && ids.size() + special > most) ids.resize(most - std::min(most, special));
  // A template that already begins with BOS does not get another one.
  if (plan_->prefix.empty() || ids.empty() || ids[0] != plan_->prefix[0])
    ids.insert(ids.begin(), plan_->prefix.begin(), plan_->prefix.end());
  ids.insert(ids.end(), plan_->suffix.begin(), plan_->suffix.end());
  return ids;
}

std::string ModelTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  DecodeState state;
  for (const std::int32_t id : ids) decode_next(id, state, text);
  return text;
}

void ModelTokenizer::decode_next(std::int32_t id, DecodeState& state, std::string& text) const {
  token(id);  // checks the id
  const auto i = static_cast<std::size_t>(id);
  if (plan_->types[i] == TokenType::control) {
    if (state.show_special) text += plan_->tokens[i];
    return;
  }
  std::string_view bytes = plan_->bytes[i];
  const bool space = !bytes.empty() && bytes[0] == ' ' && plan_->types[i] != TokenType::byte;
  switch (plan_->leading_space) {
    case LeadingSpace::keep:
      state.at_start = false;
      break;
    case LeadingSpace::sentencepiece:
    case LeadingSpace::sentencepiece_every:
      if (state.at_start && space && plan_->types[i] != TokenType::unknown) {
        bytes.remove_prefix(1);
        if (plan_->leading_space == LeadingSpace::sentencepiece) state.at_start = false;
      }
      if (!bytes.empty()) state.at_start = false;
      break;
    case LeadingSpace::count:
      while (state.at_start && !bytes.empty()) {
        if (bytes[0] != ' ' || state.spaces == plan_->leading_spaces) {
          state.at_start = false;
        } else {
          bytes.remove_prefix(1);
          ++state.spaces;
        }
      }
      break;
    case LeadingSpace::first_token:
      if (state.at_start) {
        state.at_start = false;
        text += replace_all(plan_->tokens[i], kSpaceSymbol, "");
        return;
      }
      break;
  }
  text += bytes;
}

std::size_t ModelTokenizer::size() const { return plan_->tokens.size(); }

std::string_view ModelTokenizer::token(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= plan_->bytes.size())
    throw FormatError(fmt::format("{}: id {} is out of range for {} tokens", plan_->kind, id, plan_->bytes.size()));
  return plan_->bytes[static_cast<std::size_t>(id)];
}

std::vector<std::int32_t> ModelTokenizer::special_tokens() const {
  Ids ids;
  for (std::size_t i = 0; i < plan_->types.size(); ++i)
    if (plan_->types[i] == TokenType::control) ids.push_back(static_cast<std::int32_t>(i));
  return ids;
}

std::string_view ModelTokenizer::name() const { return plan_->kind; }

std::uint64_t ModelTokenizer::hash() const {
  io::Xxh3 hash;
  hash.add(name());
  hash.add(plan_->json());
  return hash.value();
}

std::string ModelTokenizer::json() const {
  std::string json = plan_->json();
  if (find_invalid_utf8(json) != std::string::npos)
    throw FormatError(fmt::format("{}: cannot be saved: some tokens are not UTF-8", name()));
  return json;
}

std::optional<std::int32_t> ModelTokenizer::bos() const { return plan_->bos; }
std::optional<std::int32_t> ModelTokenizer::eos() const { return plan_->eos; }
std::vector<std::int32_t> ModelTokenizer::end_tokens() const { return plan_->end_tokens; }
std::string_view ModelTokenizer::chat_template() const { return plan_->chat_template; }

std::string_view ModelTokenizer::spelling(std::int32_t id) const {
  token(id);  // checks the id
  return plan_->tokens[static_cast<std::size_t>(id)];
}

std::optional<std::int32_t> ModelTokenizer::find(std::string_view spelling) const {
  const auto found = std::find(plan_->tokens.begin(), plan_->tokens.end(), spelling);
  if (found == plan_->tokens.end()) return std::nullopt;
  return static_cast<std::int32_t>(found - plan_->tokens.begin());
}

}  // namespace etna::data
