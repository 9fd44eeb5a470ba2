#include <algorithm>
#include <cmath>
#include <unordered_map>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/json/json_steps.h>
#include <etna/data/tokenizers/internal/json/tokenizer_config.h>
#include <etna/data/tokenizers/internal/unicode/byte_characters.h>
#include <etna/data/tokenizers/pieces/internal/piece_splits.h>
#include <etna/data/tokenizers/pieces/internal/space_symbol.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

using nlohmann::json;

class JsonPlanner {
 public:
  JsonPlanner(std::string_view text, const std::string& name)
      : name_(name), root_(parse_json_object(text, name)), whole_(root_, "file", name_) {
    plan_.kind = "tokenizer.json";
    plan_.json = [whole = std::string(text)] { return whole; };
  }

  TokenizerPlan run() {
    const json* model = whole_.find("model");
    if (model == nullptr || !model->is_object()) whole_.refuse("lacks the object 'model'");
    if (const json* step = whole_.find("pre_tokenizer")) split_ = read_pre_tokenizer({*step, "pre_tokenizer", name_});
    if (const json* step = whole_.find("normalizer")) plan_.normalize = read_normalizer({*step, "normalizer", name_});
    const JsonPart part(*model, "model", name_);
    // Old files do not state the type of a BPE model.
    const std::string type = part.text("type", part.find("merges") != nullptr ? "BPE" : "Unigram");
    if (type != "BPE" && type != "Unigram" && type != "WordPiece") {
      part.refuse(
          fmt::format("is a {}, which Etna does not support; wanted BPE, Unigram or WordPiece", json_brief(type)));
    }
    if (type == "Unigram")
      read_pieces(part);
    else
      read_vocab(part);
    read_added();
    for (std::size_t id = 0; id < plan_.tokens.size(); ++id)
      if (!present_[id]) plan_.types[id] = TokenType::unused;
    read_bytes();
    if (type == "BPE")
      plan_merges(part);
    else if (type == "Unigram")
      plan_unigram(part);
    else
      plan_word_pieces(part);
    if (!split_.steps.empty()) plan_.split = sequence(std::move(split_.steps));
    if (const json* step = whole_.find("post_processor")) read_prompt({*step, "post_processor", name_});
    name_special_tokens();
    if (const json* config = whole_.find("tokenizer_config")) apply_tokenizer_config(config->dump(), name_, plan_);
    return std::move(plan_);
  }

 private:
  void place(std::int64_t id, std::string text, TokenType type) {
    const auto i = static_cast<std::size_t>(id);
    if (i >= plan_.tokens.size()) {
      plan_.tokens.resize(i + 1);
      plan_.types.resize(i + 1, TokenType::normal);
      present_.resize(i + 1, false);
    }
    if (present_[i]) whole_.refuse(fmt::format("gives two tokens the id {}", id));
    present_[i] = true;
    plan_.tokens[i] = std::move(text);
    plan_.types[i] = type;
  }

  /// Ids may have gaps, but not so large that a small file takes a lot of memory.
  std::int64_t checked_id(const json& value, const std::string& token) const {
    const std::size_t most = 4 * (root_.size() + entries_) + 65536;
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= most)
      whole_.refuse(fmt::format("gives the token {} the id {}, which is not a valid id among {} tokens",
                                json_brief(json(token)), json_brief(value), entries_));
    return value.get<std::int64_t>();
  }

  void read_vocab(const JsonPart& model) {
    const json* vocab = model.find("vocab");
    if (vocab == nullptr || !vocab->is_object()) model.refuse("lacks the object 'vocab'");
    const json* added = whole_.find("added_tokens");
    entries_ = vocab->size() + (added == nullptr ? 0 : added->size());
    for (const auto& item : vocab->items()) place(checked_id(item.value(), item.key()), item.key(), TokenType::normal);
    for (std::size_t id = 0; id < plan_.tokens.size(); ++id)
      if (present_[id]) ids_.emplace(plan_.tokens[id], static_cast<std::int32_t>(id));
  }

  void read_pieces(const JsonPart& model) {
    const json* vocab = model.find("vocab");
    if (vocab == nullptr || !vocab->is_array() || vocab->empty()) model.refuse("lacks the array 'vocab'");
    const json* added = whole_.find("added_tokens");
    entries_ = vocab->size() + (added == nullptr ? 0 : added->size());
    for (const json& piece : *vocab) {
      const bool right = piece.is_array() && piece.size() == 2 && piece[0].is_string() && piece[1].is_number();
      if (!right || !std::isfinite(piece[1].get<double>()))
        model.refuse(
            fmt::format("has {} as piece {}; wanted a string with a score", json_brief(piece), scores_.size()));
      place(static_cast<std::int64_t>(scores_.size()), piece[0].get<std::string>(), TokenType::normal);
      scores_.push_back(piece[1].get<double>());
    }
    for (std::size_t id = 0; id < plan_.tokens.size(); ++id)
      if (!ids_.emplace(plan_.tokens[id], static_cast<std::int32_t>(id)).second)
        model.refuse(fmt::format("has the piece {} twice", json_brief(json(plan_.tokens[id]))));
  }

  void read_added() {
    std::vector<AddedToken> raw, normalized;
    const json* list = whole_.find("added_tokens");
    if (list != nullptr) {
      for (const JsonPart& part : whole_.list("added_tokens")) {
        const json* number = part.find("id");
        if (number == nullptr || part.find("content") == nullptr)
          whole_.refuse("has an added token that lacks its id or its content");
        AddedToken token;
        token.text = part.text("content");
        token.id = static_cast<std::int32_t>(checked_id(*number, token.text));
        token.special = part.flag("special", false);
        token.single_word = part.flag("single_word", false);
        token.strip_left = part.flag("lstrip", false);
        token.strip_right = part.flag("rstrip", false);
        token.normalized = part.flag("normalized", !token.special);
        const auto known = ids_.find(token.text);
        if (known != ids_.end() && known->second != token.id)
          whole_.refuse(fmt::format("gives its token {} two ids", json_brief(json(token.text))));
        if (known == ids_.end()) place(token.id, token.text, TokenType::normal);
        plan_.types[static_cast<std::size_t>(token.id)] = token.special ? TokenType::control : TokenType::user_defined;
        // Without a normalizer both are the same, so one search finds the longest match.
        if (token.normalized && plan_.normalize) {
          token.text = plan_.normalize(token.text);
          normalized.push_back(std::move(token));
        } else {
          raw.push_back(std::move(token));
        }
      }
    }
    plan_.raw = AddedTokens(std::move(raw));
    plan_.normalized = AddedTokens(std::move(normalized));
    if (plan_.tokens.empty()) whole_.refuse("has no tokens");
    if (scores_.size() < plan_.tokens.size()) scores_.resize(plan_.tokens.size(), 0.0);
  }

  void read_bytes() {
    const json* step = whole_.find("decoder");
    if (step == nullptr) whole_.refuse("has no decoder");
    const JsonDecoder decoder = read_decoder({*step, "decoder", name_});
    plan_.leading_space = decoder.leading_space;
    plan_.leading_spaces = decoder.leading_spaces;
    for (std::size_t id = 0; id < plan_.tokens.size(); ++id) {
      std::string text = plan_.tokens[id];
      if (plan_.types[id] == TokenType::control) {
        plan_.bytes.emplace_back();
        continue;
      }
      if (decoder.word_pieces) text = (*decoder.word_pieces)(text);
      for (const auto& [from, to] : decoder.replaced) text = replace_all(text, from, to);
      const int byte = decoder.byte_fallback ? byte_token(text) : -1;
      if (byte >= 0) {
        text.assign(1, static_cast<char>(byte));
        if (plan_.types[id] == TokenType::normal) plan_.types[id] = TokenType::byte;
      }
      if (decoder.byte_level && plan_.types[id] == TokenType::normal)
        if (const auto bytes = from_characters(text)) text = *bytes;
      for (std::size_t i = 0; i < decoder.strip_each && !text.empty() && text[0] == ' '; ++i) text.erase(0, 1);
      plan_.bytes.push_back(std::move(text));
    }
  }

  std::int32_t id_of(const JsonPart& part, const std::string& token) const {
    const auto found = std::find(plan_.tokens.begin(), plan_.tokens.end(), token);
    if (found == plan_.tokens.end())
      part.refuse(fmt::format("names the token {}, which is not in the vocabulary", json_brief(json(token))));
    return static_cast<std::int32_t>(found - plan_.tokens.begin());
  }

  void plan_merges(const JsonPart& model) {
    if (const json* dropout = model.find("dropout"); dropout != nullptr && *dropout != 0.0)
      model.refuse(fmt::format("has dropout = {}, which makes its ids random; wanted 0 or null", json_brief(*dropout)));
    for (const char* field : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!model.text(field, "").empty()) model.refuse(fmt::format("has a {}, which Etna does not support", field));
    MergeModelOptions options;
    options.ignore_merges = model.flag("ignore_merges", false);
    options.bytes = split_.byte_level && !split_.spelled;
    options.fallback.bytes.fill(-1);
    if (model.flag("byte_fallback", false)) options.fallback.read_bytes(plan_.tokens);
    const std::string unknown = model.text("unk_token", "");
    if (!unknown.empty()) {
      options.fallback.unknown = id_of(model, unknown);
      plan_.unk = options.fallback.unknown;
    }
    if (model.flag("fuse_unk", false) && !options.fallback.all_bytes) plan_.fuse_unknown = options.fallback.unknown;
    std::vector<std::string> spelled;
    std::vector<bool> usable;
    for (std::size_t id = 0; id < plan_.tokens.size(); ++id) {
      const auto bytes = options.bytes ? from_characters(plan_.tokens[id]) : std::optional(plan_.tokens[id]);
      // An added token that is also in the vocabulary may be the result of merges, unless it is special.
      usable.push_back(present_[id] && bytes && plan_.types[id] != TokenType::control &&
                       ids_.count(plan_.tokens[id]) > 0);
      spelled.push_back(bytes ? *bytes : std::string());
    }
    plan_.model = make_merge_model(spelled, usable, read_merges(model), options, name_);
  }

  std::vector<TokenMerge> read_merges(const JsonPart& model) const {
    const json* list = model.find("merges");
    if (list == nullptr || !list->is_array()) model.refuse("lacks the array 'merges'");
    std::vector<TokenMerge> merges;
    merges.reserve(list->size());
    for (const json& item : *list) {
      const auto [left, right] = json_merge(item);
      const auto first = ids_.find(left), second = ids_.find(right);
      if (first == ids_.end() || second == ids_.end())
        model.refuse(fmt::format("has a merge {} ({}) that is not a pair of tokens", merges.size(), json_brief(item)));
      merges.emplace_back(first->second, second->second);
    }
    return merges;
  }

  void plan_unigram(const JsonPart& model) {
    if (split_.byte_level)
      model.refuse("is a Unigram model with a ByteLevel pre-tokenizer, which Etna does not support");
    UnigramOptions options{.sentencepiece = false, .fallback = {}};
    options.fallback.bytes.fill(-1);
    if (model.flag("byte_fallback", false)) options.fallback.read_bytes(plan_.tokens);
    const std::int64_t unknown = model.integer("unk_id", -1);
    if (unknown >= static_cast<std::int64_t>(plan_.tokens.size()) || unknown < -1)
      model.refuse(fmt::format("has unk_id = {}, out of range for {} pieces", unknown, plan_.tokens.size()));
    options.fallback.unknown = static_cast<std::int32_t>(unknown);
    if (unknown >= 0) plan_.unk = static_cast<std::int32_t>(unknown);
    if (!options.fallback.all_bytes) plan_.fuse_unknown = options.fallback.unknown;
    // Byte-fallback tokens are ordinary pieces.
    std::vector<TokenType> types = plan_.types;
    std::replace(types.begin(), types.end(), TokenType::byte, TokenType::normal);
    plan_.model = make_unigram_model(plan_.tokens, scores_, types, options);
  }

  void plan_word_pieces(const JsonPart& model) {
    WordPieceOptions options;
    options.prefix = model.text("continuing_subword_prefix", options.prefix);
    const std::int64_t longest = model.integer("max_input_chars_per_word", static_cast<std::int64_t>(options.longest));
    if (longest < 1) model.refuse(fmt::format("has max_input_chars_per_word = {}; wanted at least 1", longest));
    options.longest = static_cast<std::size_t>(longest);
    options.unknown = id_of(model, model.text("unk_token", "[UNK]"));
    plan_.unk = options.unknown;
    std::vector<bool> usable;
    for (const std::string& token : plan_.tokens) usable.push_back(ids_.count(token) > 0);
    plan_.model = make_wordpiece_model(plan_.tokens, usable, options);
  }

  void add_special(const JsonPart& part, const json& special, std::vector<std::int32_t>& ids) const {
    const json* name = json_field(special, "id");
    if (name == nullptr || !name->is_string()) part.refuse("has a special token without a name");
    const json* known = part.find("special_tokens");
    const json* entry = known == nullptr ? nullptr : json_field(*known, name->get<std::string>().c_str());
    const json* list = entry == nullptr ? nullptr : json_field(*entry, "ids");
    if (list == nullptr || !list->is_array())
      part.refuse(fmt::format("does not list the ids of {}", json_brief(*name)));
    for (const json& id : *list) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= plan_.tokens.size())
        part.refuse(fmt::format("names the id {}, which is not in the vocabulary", json_brief(id)));
      ids.push_back(id.get<std::int32_t>());
    }
  }

  void read_prompt(const JsonPart& part) {
    const std::string type = part.type();
    if (type == "ByteLevel") return;
    if (type == "Sequence") {
      for (const JsonPart& step : part.list("processors")) read_prompt(step);
      return;
    }
    std::vector<std::int32_t> before, after;
    if (type == "TemplateProcessing") {
      bool seen = false;
      for (const JsonPart& item : part.list("single")) {
        if (const json* special = item.find("SpecialToken"))
          add_special(part, *special, seen ? after : before);
        else if (item.find("Sequence") == nullptr || seen)
          part.refuse("has a template for a single text with more than the text and special tokens around it");
        else
          seen = true;
      }
      if (!seen) part.refuse("has a template without the text");
      read_pair(part);
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
      for (const char* field : {"cls", "sep"}) {
        const json* pair = part.find(field);
        if (pair == nullptr || !pair->is_array() || pair->size() != 2 || !(*pair)[0].is_string())
          part.refuse(fmt::format("lacks a '{}' with a token", field));
        (std::string_view(field) == "cls" ? before : after).push_back(id_of(part, (*pair)[0].get<std::string>()));
      }
      plan_.pair = type == "BertProcessing" ? bert_pair(before[0], after[0]) : roberta_pair(before[0], after[0]);
    } else {
      part.refuse(fmt::format("is a {}, which Etna does not support", type));
    }
    plan_.prefix.insert(plan_.prefix.begin(), before.begin(), before.end());
    plan_.suffix.insert(plan_.suffix.end(), after.begin(), after.end());
  }

  /// The template of two texts.
  void read_pair(const JsonPart& part) {
    if (part.find("pair") == nullptr) return;
    plan_.pair.clear();
    bool seen[2] = {};
    for (const JsonPart& item : part.list("pair")) {
      PairPart piece;
      const json* special = item.find("SpecialToken");
      const json* text = special != nullptr ? special : item.find("Sequence");
      if (text == nullptr) part.refuse("has a template for pairs with more than texts and special tokens");
      const JsonPart entry(*text, "post_processor", name_);
      piece.type = static_cast<std::int32_t>(entry.integer("type_id", 0));
      if (special != nullptr) {
        add_special(part, *special, piece.special);
      } else {
        piece.text = entry.text("id", "A") == "B" ? 1 : 0;
        seen[piece.text] = true;
      }
      plan_.pair.push_back(std::move(piece));
    }
    // A template that leaves one of them out is none for pairs.
    if (!seen[0] || !seen[1]) plan_.pair.clear();
  }

  /// tokenizer.json does not state the roles of special tokens, so these are found by their usual spellings.
  void name_special_tokens() {
    const auto find = [&](std::initializer_list<std::string_view> names) -> std::optional<std::int32_t> {
      for (const std::string_view name : names)
        for (std::size_t id = 0; id < plan_.tokens.size(); ++id)
          if (plan_.types[id] == TokenType::control && plan_.tokens[id] == name) return static_cast<std::int32_t>(id);
      return std::nullopt;
    };
    plan_.bos = find({"<s>", "<bos>", "<|begin_of_text|>",
                      "<\xEF\xBD\x9C"
                      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"});
    if (!plan_.bos && plan_.prefix.size() == 1) plan_.bos = plan_.prefix[0];
    plan_.eos = find({"</s>", "<eos>", "<|end_of_text|>",
                      "<\xEF\xBD\x9C"
                      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
                      "<|endoftext|>"});
    plan_.pad = find({"<pad>", "[PAD]", "<|pad|>"});
    plan_.end_tokens = ends_of_turns(plan_.tokens, plan_.types);
    if (plan_.eos &&
        std::find(plan_.end_tokens.begin(), plan_.end_tokens.end(), *plan_.eos) == plan_.end_tokens.end()) {
      plan_.end_tokens.push_back(*plan_.eos);
      std::sort(plan_.end_tokens.begin(), plan_.end_tokens.end());
    }
  }

  std::string name_;
  json root_;
  JsonPart whole_;
  TokenizerPlan plan_;
  JsonSplit split_;
  std::vector<bool> present_;
  std::vector<double> scores_;
  std::size_t entries_ = 0;
  std::unordered_map<std::string, std::int32_t> ids_;  ///< the model's vocabulary
};

}  // namespace

TokenizerPlan plan_tokenizer_json(std::string_view json, const std::string& name) {
  return JsonPlanner(json, name).run();
}

}  // namespace etna::data
