// A SentencePiece model is a protocol buffer, of which only a few fields are needed. They are parsed by hand:
// libprotobuf and libsentencepiece are large, and libsentencepiece cannot take the vocabulary of a GGUF file, which
// needs the same models.
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include <etna/data/tokenizers/pieces/vocabulary_fields.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

/// Reads one protocol buffer message field by field. Never reads outside its bytes.
class WireReader {
 public:
  WireReader(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  /// Moves to the next field; false at the end.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const std::uint64_t tag = varint();
    field_ = tag >> 3;
    text_ = {};
    number_ = 0;
    switch (tag & 7) {
      case 0:
        number_ = varint();
        break;
      case 1:
        text_ = take(8);
        break;
      case 2:
        text_ = take(varint());
        break;
      case 5:
        text_ = take(4);
        break;
      default:
        refuse("a field has an unknown wire type");
    }
    if (field_ == 0) refuse("a field has number 0");
    kind_ = static_cast<int>(tag & 7);
    return true;
  }

  std::uint64_t field() const { return field_; }
  std::string_view text() const { return expect(2), text_; }
  std::int64_t number() const { return expect(0), static_cast<std::int64_t>(number_); }
  /// Negative numbers are written as 64 bits even in 32-bit fields.
  bool flag() const { return number() != 0; }
  float real() const {
    expect(5);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i)
      bits |= static_cast<std::uint32_t>(static_cast<unsigned char>(text_[i])) << (8 * i);
    return std::bit_cast<float>(bits);
  }

  [[noreturn]] void refuse(std::string_view why) const {
    throw FormatError(fmt::format("{}: not a SentencePiece model, or a damaged one: {}", name_, why));
  }

 private:
  void expect(int kind) const {
    if (kind_ != kind) refuse(fmt::format("field {} has the wrong wire type", field_));
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) refuse("it is cut off");
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse("a number is longer than 64 bits");
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) refuse("it is cut off");
    const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(count));
    at_ += taken.size();
    return taken;
  }

  std::string_view bytes_, text_;
  const std::string& name_;
  std::size_t at_ = 0;
  std::uint64_t field_ = 0, number_ = 0;
  int kind_ = -1;
};

struct SpecialPieces {
  std::string bos = "<s>", eos = "</s>", pad = "<pad>";
};

void read_piece(std::string_view bytes, const std::string& name, VocabularyFields& fields) {
  std::string_view text;
  float score = 0;
  std::int64_t type = 1;
  for (WireReader reader(bytes, name); reader.next();) {
    if (reader.field() == 1) text = reader.text();
    if (reader.field() == 2) score = reader.real();
    if (reader.field() == 3) type = reader.number();
  }
  fields.tokens.emplace_back(text);
  fields.scores.push_back(score);
  fields.types.push_back(type >= 1 && type <= 6 ? static_cast<std::int32_t>(type) : -1);
}

void read_trainer(std::string_view bytes, const std::string& name, VocabularyFields& fields, SpecialPieces& special) {
  std::int64_t kind = 1;
  WireReader reader(bytes, name);
  while (reader.next()) {
    switch (reader.field()) {
      case 3:
        kind = reader.number();
        break;
      case 24:
        fields.treat_whitespace_as_suffix = reader.flag();
        break;
      case 44:
        fields.unknown_text = reader.text();
        break;
      case 46:
        special.bos = reader.text();
        break;
      case 47:
        special.eos = reader.text();
        break;
      case 48:
        special.pad = reader.text();
        break;
      default:
        break;
    }
  }
  if (kind == 3 || kind == 4)
    throw FormatError(fmt::format("{}: SentencePiece models of type {} are not supported; wanted unigram or bpe", name,
                                  kind == 3 ? "word" : "char"));
  if (kind != 1 && kind != 2) reader.refuse(fmt::format("{} is not a model type", kind));
  fields.model = kind == 1 ? "t5" : "llama";
}

void read_sentencepiece_normalizer(std::string_view bytes, const std::string& name, VocabularyFields& fields) {
  fields.add_space_prefix = true;
  fields.remove_extra_whitespaces = true;
  fields.escape_whitespaces = true;
  for (WireReader reader(bytes, name); reader.next();) {
    switch (reader.field()) {
      case 2:
        fields.precompiled_charsmap = reader.text();
        break;
      case 3:
        fields.add_space_prefix = reader.flag();
        break;
      case 4:
        fields.remove_extra_whitespaces = reader.flag();
        break;
      case 5:
        fields.escape_whitespaces = reader.flag();
        break;
      default:
        break;
    }
  }
}

}  // namespace

VocabularyFields parse_sentencepiece(std::string_view bytes, const std::string& name) {
  VocabularyFields fields;
  fields.model = "t5";
  read_sentencepiece_normalizer({}, name, fields);
  SpecialPieces special;
  WireReader reader(bytes, name);
  while (reader.next()) {
    if (reader.field() == 1) read_piece(reader.text(), name, fields);
    if (reader.field() == 2) read_trainer(reader.text(), name, fields, special);
    if (reader.field() == 3) read_sentencepiece_normalizer(reader.text(), name, fields);
    if (reader.field() != 5) continue;
    for (WireReader rules(reader.text(), name); rules.next();)
      if (rules.field() == 2 && !rules.text().empty())
        throw FormatError(fmt::format("{}: has a denormalizer (denormalizer_spec), which is not supported", name));
  }
  if (fields.tokens.empty()) reader.refuse("it has no pieces");
  for (std::size_t id = 0; id < fields.tokens.size(); ++id) {
    const auto type = fields.types[id];
    if (type == static_cast<std::int32_t>(TokenType::unknown)) fields.unk = static_cast<std::int64_t>(id);
    if (type != static_cast<std::int32_t>(TokenType::control)) continue;
    if (fields.tokens[id] == special.bos) fields.bos = static_cast<std::int64_t>(id);
    if (fields.tokens[id] == special.eos) fields.eos = static_cast<std::int64_t>(id);
    if (fields.tokens[id] == special.pad) fields.pad = static_cast<std::int64_t>(id);
  }
  if (!fields.unk) reader.refuse("it has no piece of type unknown");
  return fields;
}

}  // namespace etna::data
