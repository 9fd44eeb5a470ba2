#include <tokenizers/model_fixtures.h>

#include <algorithm>

#include <etna/data/tokenizers/internal/unicode/byte_characters.h>

namespace etna::data::fixtures {

VocabularyFields byte_fields(const std::vector<std::pair<std::string, std::string>>& merges,
                             const std::vector<std::string>& special, const std::string& pre) {
  VocabularyFields fields;
  fields.model = "gpt2";
  fields.pre = pre;
  for (int b = 0; b < 256; ++b) fields.tokens.push_back(byte_character(static_cast<unsigned char>(b)));
  for (const auto& [left, right] : merges) {
    const std::string first = to_characters(left), second = to_characters(right);
    const auto known = std::find(fields.tokens.begin(), fields.tokens.end(), first + second);
    if (known == fields.tokens.end()) fields.tokens.push_back(first + second);
    fields.merges.push_back(first + " " + second);
  }
  fields.types.assign(fields.tokens.size(), 1);
  for (const std::string& text : special) {
    fields.tokens.push_back(text);
    fields.types.push_back(3);
  }
  return fields;
}

}  // namespace etna::data::fixtures
