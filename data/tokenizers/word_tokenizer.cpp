#include <etna/data/tokenizers/word_tokenizer.h>

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include <etna/data/internal/words.h>
#include <etna/data/text_file.h>
#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/device/error.h>
#include <etna/tensor/io/internal/xxh3.h>

namespace etna::data {
namespace {

constexpr const char* kWordTokenizerFormat = "etna.word_tokenizer";
constexpr int kWordTokenizerVersion = 1;

}  // namespace

std::vector<std::int32_t> WordTokenizer::encode(std::string_view text, SpecialTokens special,
                                                std::vector<std::string>* unknown) const {
  std::unordered_set<std::string_view> reported;
  const auto is_special = [](std::string_view word) { return word == kEndOfLine || word == kUnknown; };
  std::vector<std::int32_t> ids;
  for_each_token(text, [&](std::string_view word, bool line_end) {
    const bool hidden = special == SpecialTokens::as_text && !line_end && is_special(word);
    const auto found = hidden ? vocabulary_.find(kUnknown) : vocabulary_.find(word);
    if (!found || hidden) {
      if (unknown != nullptr && reported.insert(word).second) unknown->emplace_back(word);
    }
    ids.push_back(found ? *found : vocabulary_.id(word));
  });
  return ids;
}

void WordTokenizer::decode_next(std::int32_t id, DecodeState& state, std::string& text) const {
  decode_word(vocabulary_.word(id), state.at_start, state.quoted, text);
}

std::vector<std::int32_t> WordTokenizer::special_tokens() const {
  std::vector<std::int32_t> ids;
  for (const std::string_view word : {kEndOfLine, kUnknown})
    if (const auto id = vocabulary_.find(word)) ids.push_back(*id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::uint64_t WordTokenizer::hash() const {
  io::Xxh3 hash;
  hash.add(name());
  hash.add(std::uint64_t{size()});
  for (std::size_t id = 0; id < size(); ++id) hash.add(vocabulary_.word(static_cast<std::int32_t>(id)));
  return hash.value();
}

std::string WordTokenizer::json() const {
  std::string out = fmt::format("{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"words\": [", kWordTokenizerFormat,
                                kWordTokenizerVersion);
  for (std::size_t id = 0; id < size(); ++id)
    out += fmt::format("{}\n    {}", id == 0 ? "" : ",",
                       json_text(std::string(vocabulary_.word(static_cast<std::int32_t>(id)))));
  return out + "\n  ]\n}\n";
}

WordTokenizer WordTokenizer::load(const FilePath& file) { return parse(read_text_file(file), file.string()); }

WordTokenizer WordTokenizer::parse(std::string_view text, const std::string& name) {
  const nlohmann::json json = parse_json_object(text, name);
  const auto refuse = [&](const std::string& why) {
    throw FormatError(fmt::format("{}: cannot be used as a tokenizer: {}", name, why));
  };
  if (json.value("format", nlohmann::json()) != kWordTokenizerFormat)
    refuse(fmt::format("its field 'format' is missing or unknown; wanted \"{}\", or the 'model' of a tokenizer.json",
                       kWordTokenizerFormat));
  if (json.value("version", nlohmann::json()) != kWordTokenizerVersion)
    refuse(fmt::format("its version is not {}; it was written by another version of Etna", kWordTokenizerVersion));
  if (!json.contains("words") || !json["words"].is_array()) refuse("it lacks the array 'words'");
  Vocabulary vocabulary;
  for (const auto& word : json["words"]) {
    const std::size_t at = vocabulary.size();
    if (!word.is_string() || !is_word(word.get_ref<const std::string&>()))
      refuse(fmt::format("word {} is empty, contains white space or is not a string", at));
    vocabulary.add(word.get_ref<const std::string&>());
    if (vocabulary.size() == at) refuse(fmt::format("word {} is a duplicate", at));
  }
  return WordTokenizer(std::move(vocabulary));
}

}  // namespace etna::data
