#include <algorithm>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/bpe_tokenizer.h>
#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/data/tokenizers/internal/unicode/byte_characters.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

using nlohmann::json;
using TokenIds = std::unordered_map<std::string, std::int32_t>;

/// Reads a tokenizer.json; every error names the file.
class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : name_(name), root_(parse_json_object(text, name)) {
    if (!root_.contains("model") || !root_["model"].is_object()) refuse("it lacks the object 'model'");
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw FormatError(fmt::format("{}: cannot be used as a byte-level BPE: {}", name_, why));
  }

  void check_kind() const {
    if (const json* type = find(model(), "type"); type != nullptr && *type != "BPE")
      refuse(fmt::format("its model is {}, not BPE", brief(*type)));
    for (const char* field : {"unk_token", "continuing_subword_prefix", "end_of_word_suffix", "dropout"})
      if (const json* value = find(model(), field); value != nullptr && *value != "" && *value != 0.0)
        refuse(fmt::format("its model has {} = {}", field, brief(*value)));
    for (const char* field : {"byte_fallback", "ignore_merges"})
      if (const json* value = find(model(), field); value != nullptr && *value != false)
        refuse(fmt::format("its model has {} = {}", field, brief(*value)));
    if (find(root_, "normalizer") != nullptr) refuse("it has a normalizer, which Etna does not apply");
    const json* splitter = find(root_, "pre_tokenizer");
    if (splitter == nullptr || !is_byte_level(*splitter)) refuse("its pre_tokenizer is not ByteLevel");
    if (const json* prefix = find(*splitter, "add_prefix_space"); prefix != nullptr && *prefix != false)
      refuse("its pre_tokenizer adds a space before a text (add_prefix_space)");
    if (const json* regex = find(*splitter, "use_regex"); regex != nullptr && *regex != true)
      refuse("its pre_tokenizer does not split with GPT-2's regular expression (use_regex = false)");
    for (const char* field : {"post_processor", "decoder"})
      if (const json* value = find(root_, field); value != nullptr && !is_byte_level(*value))
        refuse(fmt::format("its {} is not ByteLevel", field));
  }

  /// The ids of all tokens by spelling (one character per byte). Appends the ids of special tokens to `special`.
  TokenIds read_ids(std::vector<std::int32_t>& special) const {
    const json* vocab = find(model(), "vocab");
    if (vocab == nullptr || !vocab->is_object()) refuse("its model lacks the object 'vocab'");
    TokenIds ids;
    for (const auto& item : vocab->items()) ids.emplace(item.key(), id_of(item.value()));
    const json* added = find(root_, "added_tokens");
    if (added == nullptr) return ids;
    if (!added->is_array()) refuse("'added_tokens' is not an array");
    for (const json& token : *added) {
      const json* content = find(token, "content");
      const json* id = find(token, "id");
      if (content == nullptr || !content->is_string() || id == nullptr)
        refuse("an added token lacks its id or its content");
      for (const char* field : {"single_word", "lstrip", "rstrip"})
        if (const json* value = find(token, field); value != nullptr && *value != false)
          refuse(fmt::format("its added token {} has {}", brief(*content), field));
      const auto placed = ids.emplace(content->get<std::string>(), id_of(*id));
      if (placed.first->second != id_of(*id)) refuse(fmt::format("its token {} has two ids", brief(*content)));
      special.push_back(placed.first->second);
    }
    return ids;
  }

  std::vector<BpeTokenizer::Merge> read_merges(const TokenIds& ids) const {
    const json* list = find(model(), "merges");
    if (list == nullptr || !list->is_array()) refuse("its model lacks the array 'merges'");
    std::vector<BpeTokenizer::Merge> merges;
    for (const json& item : *list) {
      const auto [left, right] = json_merge(item);
      const auto first = ids.find(left), second = ids.find(right);
      if (first == ids.end() || second == ids.end())
        refuse(fmt::format("merge {} ({}) is not a pair of tokens", merges.size(), brief(item)));
      merges.emplace_back(first->second, second->second);
    }
    return merges;
  }

 private:
  const json& model() const { return root_["model"]; }

  static const json* find(const json& object, const char* field) { return json_field(object, field); }

  static bool is_byte_level(const json& value) {
    const json* type = find(value, "type");
    return type != nullptr && *type == "ByteLevel";
  }

  static std::string brief(const json& value) { return json_brief(value); }

  std::int32_t id_of(const json& value) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT32_MAX)
      refuse(fmt::format("{} is not a token id", brief(value)));
    return static_cast<std::int32_t>(value.get<std::uint64_t>());
  }

  std::string name_;
  json root_;
};

}  // namespace

BpeTokenizer BpeTokenizer::load(const FilePath& file) { return parse(read_text_file(file), file.string()); }

BpeTokenizer BpeTokenizer::parse(std::string_view json, const std::string& name) {
  const Reader reader(json, name);
  reader.check_kind();
  std::vector<std::int32_t> special;
  const TokenIds ids = reader.read_ids(special);
  std::vector<const std::string*> by_id(ids.size(), nullptr);
  for (const auto& entry : ids) {
    const auto id = static_cast<std::size_t>(entry.second);
    if (id >= by_id.size())
      reader.refuse(fmt::format("id {} is out of range for {} tokens; ids must have no gaps", id, by_id.size()));
    if (by_id[id] != nullptr) reader.refuse(fmt::format("two tokens have id {}", id));
    by_id[id] = &entry.first;
  }
  std::vector<bool> is_special(ids.size(), false);
  for (const std::int32_t id : special) is_special[static_cast<std::size_t>(id)] = true;
  std::vector<std::string> tokens;
  for (std::size_t id = 0; id < by_id.size(); ++id) {
    const auto bytes = is_special[id] ? *by_id[id] : from_characters(*by_id[id]);
    if (!bytes) reader.refuse(fmt::format("token {} contains a character that does not represent a byte", id));
    tokens.push_back(*bytes);
  }
  std::vector<Merge> merges = reader.read_merges(ids);
  try {
    return BpeTokenizer(std::move(tokens), std::move(merges), std::move(special));
  } catch (const FormatError& error) {
    reader.refuse(error.what());
  }
}

std::string BpeTokenizer::json() const {
  const auto text = [&](std::int32_t id) {
    const bool special = std::find(special_.begin(), special_.end(), id) != special_.end();
    return special ? std::string(token(id)) : to_characters(token(id));
  };
  std::string out = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [";
  for (std::size_t i = 0; i < special_.size(); ++i)
    out += fmt::format(
        "{}\n    {{\"id\": {}, \"content\": {}, \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
        "\"normalized\": false, \"special\": true}}",
        i == 0 ? "" : ",", special_[i], json_text(text(special_[i])));
  out +=
      "],\n  \"normalizer\": null,\n"
      "  \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
      "\"use_regex\": true},\n"
      "  \"post_processor\": null,\n"
      "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, "
      "\"use_regex\": true},\n"
      "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
      "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
      "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n    \"vocab\": {";
  for (std::size_t id = 0; id < tokens_.size(); ++id)
    out += fmt::format("{}\n      {}: {}", id == 0 ? "" : ",", json_text(text(static_cast<std::int32_t>(id))), id);
  out += "\n    },\n    \"merges\": [";
  for (std::size_t i = 0; i < merges_.size(); ++i)
    out += fmt::format("{}\n      [{}, {}]", i == 0 ? "" : ",", json_text(text(merges_[i].first)),
                       json_text(text(merges_[i].second)));
  return out + "\n    ]\n  }\n}\n";
}

}  // namespace etna::data
