#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/file_path.h>
#include <etna/device/owned.h>

namespace etna::data {

/// How often each word occurs, as BpeTokenizer splits text into words. BpeTokenizer::train() learns from it, so that a
/// text need not be in memory whole.
class WordCounts {
 public:
  /// @param except texts that are not counted and end a word: special tokens
  explicit WordCounts(std::vector<std::string> except = {});
  ~WordCounts();

  /// Counts the words of a text on all cores. A larger text may be given in parts, each of which
  /// ends where a word ends and white space follows.
  void add(std::string_view text);

 private:
  friend class BpeTokenizer;
  struct Words;

  std::vector<std::string> except_;
  Owned<Words> words_;
};

struct BpeOptions {
  std::int64_t vocab_size = 8192;
  std::int64_t min_frequency = 0;  ///< pairs that occur less often are not merged
  std::vector<std::string> special_tokens = {};
};

/// GPT-2's byte-level byte pair encoding (Sennrich et al. 2016; Radford et al. 2019). Every byte is a token, so any
/// bytes, even invalid UTF-8, encode to ids and decode unchanged.
class BpeTokenizer : public Tokenizer {
 public:
  /// The ids of the two tokens that a merge joins.
  using Merge = std::pair<std::int32_t, std::int32_t>;

  /// @param tokens the bytes of every token; the ordinary (not special) ones include all 256 single bytes
  /// @param merges in order of rank; each must join two tokens into bytes that are a token
  /// @throws FormatError if one of these does not hold, for a duplicate token, and for an empty special token
  BpeTokenizer(std::vector<std::string> tokens, std::vector<Merge> merges, std::vector<std::int32_t> special);

  /// Learns merges from texts: the same ones in the same order as Hugging Face's `BpeTrainer` over the byte alphabet.
  /// A small text, or one with few distinct words, may yield fewer tokens than requested.
  /// @throws FormatError if vocab_size is less than 256 plus the special tokens, or special tokens are empty or equal
  static BpeTokenizer train(std::span<const std::string_view> texts, const BpeOptions& options);
  static BpeTokenizer train(const WordCounts& words, const BpeOptions& options);

  /// @throws FormatError as load_tokenizer() and parse_tokenizer()
  static BpeTokenizer load(const FilePath& file);
  static BpeTokenizer parse(std::string_view json, const std::string& name);
  /// A tokenizer.json that Hugging Face's tokenizers can read.
  std::string json() const override;
  void save_hf(const FilePath& file) const { save(file); }

  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special = SpecialTokens::recognize,
                                   std::vector<std::string>* unknown = nullptr) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::size_t size() const override { return tokens_.size(); }
  std::string_view token(std::int32_t id) const override;
  std::vector<std::int32_t> special_tokens() const override { return special_; }
  std::string_view name() const override { return "bpe"; }
  bool forgets() const override { return true; }
  std::uint64_t hash() const override;

  const std::vector<Merge>& merges() const { return merges_; }

 private:
  struct Rank;
  using Ids = std::vector<std::int32_t>;

  template <typename Words>
  void encode_part(std::string_view text, Words& words, Ids& ids) const;
  template <typename Words>
  void append_words(std::string_view text, Words& words, Ids& ids) const;
  void encode_word(std::string_view word, Ids& ids) const;
  void encode_long_word(std::string_view word, Ids& ids) const;
  const Rank* find(std::int32_t left, std::int32_t right) const;
  std::int32_t special_at(std::string_view text, std::size_t at) const;

  std::vector<std::string> tokens_;
  std::vector<Merge> merges_;
  std::vector<std::int32_t> special_, longest_first_;  ///< ids of special tokens
  std::array<std::int32_t, 256> bytes_{};
  std::array<bool, 256> starts_special_{};
  struct Lookup;
  std::shared_ptr<Lookup> lookup_;
};

}  // namespace etna::data
