#include <fmt/format.h>

#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/data/tokenizers/pieces/internal/tokenizer_plan.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

using nlohmann::json;
constexpr const char* kVocabularyJsonFormat = "etna.vocabulary";

std::string to_hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string from_hex(const std::string& text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    throw FormatError("precompiled_charsmap is not hexadecimal");
  };
  if (text.size() % 2 != 0) throw FormatError("precompiled_charsmap has an odd number of digits");
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 2) out += static_cast<char>(16 * digit(text[i]) + digit(text[i + 1]));
  return out;
}

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

template <typename T>
void read(const json& root, const char* field, std::optional<T>& value) {
  const auto found = root.find(field);
  if (found != root.end() && !found->is_null()) value = found->get<T>();
}

template <typename T>
void read(const json& root, const char* field, T& value) {
  value = root.at(field).get<T>();
}

}  // namespace

std::string vocabulary_json(const VocabularyFields& fields) {
  const json root = {{"format", kVocabularyJsonFormat},
                     {"version", 1},
                     {"kind", fields.model},
                     {"pre", fields.pre},
                     {"tokens", fields.tokens},
                     {"scores", fields.scores},
                     {"types", fields.types},
                     {"merges", fields.merges},
                     {"bos", or_null(fields.bos)},
                     {"eos", or_null(fields.eos)},
                     {"unk", or_null(fields.unk)},
                     {"pad", or_null(fields.pad)},
                     {"end_tokens", fields.end_tokens},
                     {"add_bos", or_null(fields.add_bos)},
                     {"add_eos", or_null(fields.add_eos)},
                     {"add_space_prefix", or_null(fields.add_space_prefix)},
                     {"remove_extra_whitespaces", fields.remove_extra_whitespaces},
                     {"escape_whitespaces", fields.escape_whitespaces},
                     {"treat_whitespace_as_suffix", fields.treat_whitespace_as_suffix},
                     {"precompiled_charsmap", to_hex(fields.precompiled_charsmap)},
                     {"unknown_text", fields.unknown_text},
                     {"chat_template", fields.chat_template}};
  // Bytes that are not UTF-8 are written unchanged: save() checks for them, and the hash needs them.
  std::string text;
  try {
    text = root.dump();
  } catch (const json::exception&) {
    json bytes = root;
    bytes["tokens"] = json::array();
    text = bytes.dump(-1, ' ', false, json::error_handler_t::ignore);
    for (const std::string& token : fields.tokens) text.append(1, '\n').append(token);
    text += '\xFF';
  }
  return text + "\n";
}

VocabularyFields parse_vocabulary_json(std::string_view text, const std::string& name) {
  const json root = parse_json_object(text, name);
  VocabularyFields fields;
  try {
    if (root.at("version") != 1) throw FormatError("its version is unknown to this build; wanted 1");
    read(root, "kind", fields.model);
    read(root, "pre", fields.pre);
    read(root, "tokens", fields.tokens);
    read(root, "scores", fields.scores);
    read(root, "types", fields.types);
    read(root, "merges", fields.merges);
    read(root, "bos", fields.bos);
    read(root, "eos", fields.eos);
    read(root, "unk", fields.unk);
    read(root, "pad", fields.pad);
    read(root, "end_tokens", fields.end_tokens);
    read(root, "add_bos", fields.add_bos);
    read(root, "add_eos", fields.add_eos);
    read(root, "add_space_prefix", fields.add_space_prefix);
    read(root, "remove_extra_whitespaces", fields.remove_extra_whitespaces);
    read(root, "escape_whitespaces", fields.escape_whitespaces);
    read(root, "treat_whitespace_as_suffix", fields.treat_whitespace_as_suffix);
    fields.precompiled_charsmap = from_hex(root.at("precompiled_charsmap").get<std::string>());
    read(root, "unknown_text", fields.unknown_text);
    read(root, "chat_template", fields.chat_template);
  } catch (const json::exception& error) {
    throw FormatError(fmt::format("{}: the vocabulary is damaged: {}", name, error.what()));
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("{}: the vocabulary is damaged: {}", name, error.what()));
  }
  return fields;
}

}  // namespace etna::data
