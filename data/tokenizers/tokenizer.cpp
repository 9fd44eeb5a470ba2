#include <etna/data/tokenizers/tokenizer.h>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/bpe_tokenizer.h>
#include <etna/data/tokenizers/json_fields.h>
#include <etna/data/tokenizers/word_tokenizer.h>
#include <etna/device/error.h>

namespace etna::data {

nlohmann::json read_json_object(const std::filesystem::path& file) {
  nlohmann::json json = nlohmann::json::parse(read_text_file(file), nullptr, false);
  if (!json.is_object())
    throw FormatError(fmt::format("{}: is no tokenizer: {}", file.string(),
                                  json.is_discarded() ? "not JSON, or cut off" : "not a JSON object"));
  return json;
}

std::string json_text(const std::string& text) {
  if (find_invalid_utf8(text) != std::string::npos)
    throw FormatError(fmt::format("tokenizer: a word of {} bytes is not UTF-8 and cannot be saved", text.size()));
  return nlohmann::json(text).dump();
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& file) {
  const nlohmann::json json = read_json_object(file);
  if (json.contains("model")) return std::make_unique<BpeTokenizer>(BpeTokenizer::load(file));
  return std::make_unique<WordTokenizer>(WordTokenizer::load(file));
}

}  // namespace etna::data
