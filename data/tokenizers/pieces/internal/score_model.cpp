#include <algorithm>
#include <unordered_map>

#include <etna/data/internal/utf8_character.h>
#include <etna/data/tokenizers/pieces/internal/merge_symbols.h>
#include <etna/data/tokenizers/pieces/internal/prefix_trie.h>
#include <etna/data/tokenizers/pieces/internal/segment_model.h>
#include <etna/data/tokenizers/pieces/internal/space_symbol.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

class ScoreModel : public SegmentModel {
 public:
  ScoreModel(const std::vector<std::string>& tokens, const std::vector<float>& scores,
             const std::vector<TokenType>& types, Fallback fallback)
      : fallback_(fallback), tokens_(tokens), scores_(scores), types_(types) {
    std::vector<std::pair<std::string_view, std::int32_t>> whole;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const TokenType type = types_[i];
      if (tokens_[i].empty()) continue;
      if (type == TokenType::user_defined) whole.emplace_back(tokens_[i], static_cast<std::int32_t>(i));
      if (type != TokenType::normal && type != TokenType::user_defined && type != TokenType::unused) continue;
      ids_.emplace(tokens_[i], static_cast<std::int32_t>(i));
      longest_ = std::max(longest_, tokens_[i].size());
      cuts_.add_token(tokens_[i]);
      has_unused_ = has_unused_ || type == TokenType::unused;
    }
    user_defined_ = PrefixTrie(whole);
  }

  const SpaceCuts* cuts() const override { return &cuts_; }

  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const override {
    if (piece.size() > kLongestWord) throw FormatError("tokenizer: a text without spaces is longer than 4 GiB");
    std::vector<MergeSymbol> symbols;
    symbols.reserve(piece.size());
    const auto size = static_cast<std::uint32_t>(piece.size());
    for (std::uint32_t at = 0; at < size;) {
      const PrefixTrie::Longest whole = user_defined_.longest(piece.substr(at));
      const auto length =
          static_cast<std::uint32_t>(whole.length > 0 ? whole.length : utf8_character(piece, at).length);
      symbols.push_back({at, at + length, whole.length > 0 ? kWhole : kOpen});
      at += length;
    }
    // A token of type unused is only an intermediate result of merges. If one remains at the end, it is split again.
    // Where it stands, no merge has crossed its ends, so those within it came in an order that depends on its text
    // alone. It has only one split, then, wherever it stands, and it does not matter where the piece is cut.
    std::unordered_map<std::string_view, std::size_t> splits;
    merge_symbols(symbols, [&](const MergeSymbol& left, const MergeSymbol& right, double& cost) {
      if (left.id == kWhole || right.id == kWhole || right.end - left.begin > longest_) return -1;
      const std::string_view both = piece.substr(left.begin, right.end - left.begin);
      const auto found = ids_.find(both);
      if (found == ids_.end()) return -1;
      cost = -static_cast<double>(scores_[static_cast<std::size_t>(found->second)]);
      if (has_unused_ && type_of(found->second) == TokenType::unused)
        splits.insert_or_assign(both, left.end - left.begin);
      return kOpen;
    });
    for (const MergeSymbol& symbol : symbols)
      append(piece.substr(symbol.begin, symbol.end - symbol.begin), splits, ids);
  }

 private:
  /// Stored as a symbol's id: whether it may be merged with others.
  static constexpr std::int32_t kOpen = 0, kWhole = 1;

  TokenType type_of(std::int32_t id) const { return types_[static_cast<std::size_t>(id)]; }

  void append(std::string_view text, const std::unordered_map<std::string_view, std::size_t>& splits,
              std::vector<std::int32_t>& ids) const {
    std::vector<std::string_view> rest{text};
    while (!rest.empty()) {
      const std::string_view part = rest.back();
      rest.pop_back();
      const auto found = ids_.find(part);
      if (found == ids_.end()) {
        fallback_.append(part, ids);
        continue;
      }
      const auto split = type_of(found->second) == TokenType::unused ? splits.find(part) : splits.end();
      if (split == splits.end()) {
        ids.push_back(found->second);
      } else {
        rest.push_back(part.substr(split->second));
        rest.push_back(part.substr(0, split->second));
      }
    }
  }

  Fallback fallback_;
  std::vector<std::string> tokens_;
  std::vector<float> scores_;
  std::vector<TokenType> types_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  PrefixTrie user_defined_;
  std::size_t longest_ = 0;
  SpaceCuts cuts_;
  bool has_unused_ = false;
};

}  // namespace

std::unique_ptr<SegmentModel> make_score_model(const std::vector<std::string>& tokens, const std::vector<float>& scores,
                                               const std::vector<TokenType>& types, Fallback fallback) {
  return std::make_unique<ScoreModel>(tokens, scores, types, fallback);
}

}  // namespace etna::data
