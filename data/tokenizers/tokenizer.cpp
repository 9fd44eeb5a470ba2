#include <etna/data/tokenizers/tokenizer.h>

#include <filesystem>

#include <fmt/format.h>

#include <etna/data/internal/compressed_file.h>
#include <etna/data/text_file.h>
#include <etna/data/tokenizers/bpe_tokenizer.h>
#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/data/tokenizers/internal/json/tokenizer_config.h>
#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/data/tokenizers/pieces/internal/tokenizer_plan.h>
#include <etna/data/tokenizers/word_tokenizer.h>
#include <etna/device/error.h>
#include <etna/device/output_file.h>

namespace etna::data {
namespace {

constexpr std::size_t kLargestFile = std::size_t{256} << 20;

}  // namespace

void Tokenizer::save(const FilePath& file) const { io::write_file(file, json()); }

std::vector<std::int32_t> Tokenizer::encode_prompt(std::string_view text, PromptOptions options) const {
  std::vector<std::int32_t> ids = encode(text, options.special);
  if (options.most > 0 && ids.size() > options.most) ids.resize(options.most);
  return ids;
}

TokenPair Tokenizer::encode_pair(std::string_view, std::string_view, PromptOptions) const {
  throw FormatError(fmt::format("{}: the tokenizer does not say how pairs of texts are written", name()));
}

std::vector<std::int32_t> Tokenizer::encode_parts(std::span<const TextPart> parts, bool) const {
  std::vector<std::int32_t> ids;
  for (const TextPart& part : parts) {
    const std::vector<std::int32_t> more = encode(part.text, part.special);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

void Tokenizer::decode_next(std::int32_t id, DecodeState& state, std::string& text) const {
  text += token(id);
  state.at_start = false;
}

std::optional<std::int32_t> Tokenizer::eos() const {
  for (const std::int32_t id : special_tokens())
    if (token(id) == "<|endoftext|>") return id;
  return std::nullopt;
}

std::vector<std::int32_t> Tokenizer::end_tokens() const {
  const std::optional<std::int32_t> end = eos();
  return end ? std::vector<std::int32_t>{*end} : std::vector<std::int32_t>{};
}

std::unique_ptr<Tokenizer> parse_tokenizer(std::string_view json, const std::string& name) {
  const nlohmann::json root = parse_json_object(json, name);
  if (root.contains("format") && root["format"] == "etna.vocabulary")
    return std::make_unique<ModelTokenizer>(parse_vocabulary_json(json, name), name);
  if (!root.contains("model")) return std::make_unique<WordTokenizer>(WordTokenizer::parse(json, name));
  if (is_plain_byte_level(root)) return std::make_unique<BpeTokenizer>(BpeTokenizer::parse(json, name));
  return std::make_unique<ModelTokenizer>(plan_tokenizer_json(json, name));
}

std::unique_ptr<Tokenizer> load_tokenizer(const FilePath& file) {
  const std::string name = file.string();
  const std::vector<std::byte> bytes = read_file(file, "a tokenizer", kLargestFile + 1);
  if (bytes.size() > kLargestFile)
    throw FormatError(fmt::format("{}: not a tokenizer: larger than {} MiB", name, kLargestFile >> 20));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string extension = std::filesystem::path(file).extension().string();
  if (extension == ".bin") return std::make_unique<ModelTokenizer>(parse_llama2c_tokenizer(text, name), name);
  if (extension == ".txt") {
    const std::string json = wordpiece_json(text, name);
    return parse_tokenizer(with_tokenizer_config(json, file), name);
  }
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first == std::string_view::npos || text[first] == '{' || text[first] == '[';
  if (extension == ".model" || (!json && text[0] == '\n')) {
    VocabularyFields vocabulary = parse_sentencepiece(text, name);
    apply_tokenizer_config(file, vocabulary);
    return std::make_unique<ModelTokenizer>(std::move(vocabulary), name);
  }
  return parse_tokenizer(with_tokenizer_config(read_text_file(file), file), name);
}

}  // namespace etna::data
