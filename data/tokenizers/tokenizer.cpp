#include <etna/data/tokenizers/tokenizer.h>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/bpe_tokenizer.h>
#include <etna/data/tokenizers/json_fields.h>
#include <etna/data/tokenizers/word_tokenizer.h>
#include <etna/device/atomic_file.h>
#include <etna/device/error.h>

namespace etna::data {

nlohmann::json parse_json_object(std::string_view text, const std::string& name) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object())
    throw FormatError(fmt::format("{}: is no tokenizer: {}", name,
                                  json.is_discarded() ? "not JSON, or cut off" : "not a JSON object"));
  return json;
}

std::string json_text(const std::string& text) {
  if (find_invalid_utf8(text) != std::string::npos)
    throw FormatError(fmt::format("tokenizer: a word of {} bytes is not UTF-8 and cannot be saved", text.size()));
  return nlohmann::json(text).dump();
}

void Tokenizer::save(const std::filesystem::path& file) const { io::write_file(file, json()); }

std::unique_ptr<Tokenizer> parse_tokenizer(std::string_view json, const std::string& name) {
  if (parse_json_object(json, name).contains("model"))
    return std::make_unique<BpeTokenizer>(BpeTokenizer::parse(json, name));
  return std::make_unique<WordTokenizer>(WordTokenizer::parse(json, name));
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& file) {
  return parse_tokenizer(read_text_file(file), file.string());
}

}  // namespace etna::data
