#pragma once

#include <etna/data/corpus.h>
#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/file_path.h>

namespace etna::data {

/// Splits at white space, like Corpus: a line break is `<eos>`, an unknown word is `<unk>`. Decoded text is readable
/// but not byte-identical: white space is not kept.
class WordTokenizer : public Tokenizer {
 public:
  explicit WordTokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  /// @throws FormatError as load_tokenizer() and parse_tokenizer()
  static WordTokenizer load(const FilePath& file);
  static WordTokenizer parse(std::string_view json, const std::string& name);
  std::string json() const override;

  /// @throws FormatError for an unknown word or line break if the vocabulary has no `<unk>`
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special = SpecialTokens::recognize,
                                   std::vector<std::string>* unknown = nullptr) const override;
  std::string decode(std::span<const std::int32_t> ids) const override { return data::decode(ids, vocabulary_); }
  void decode_next(std::int32_t id, DecodeState& state, std::string& text) const override;
  std::size_t size() const override { return vocabulary_.size(); }
  std::string_view token(std::int32_t id) const override { return vocabulary_.word(id); }
  std::vector<std::int32_t> special_tokens() const override;
  std::string_view name() const override { return "word"; }
  std::uint64_t hash() const override;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
};

}  // namespace etna::data
