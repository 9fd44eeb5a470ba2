#include <algorithm>
#include <limits>

#include <etna/data/internal/utf8_character.h>
#include <etna/data/tokenizers/pieces/internal/prefix_trie.h>
#include <etna/data/tokenizers/pieces/internal/segment_model.h>

namespace etna::data {
namespace {

/// The score of an unknown character is this much below the lowest token score, as in the published implementations.
constexpr double kUnknownPenalty = 10.0;

class UnigramModel : public SegmentModel {
 public:
  UnigramModel(const std::vector<std::string>& tokens, const std::vector<double>& scores,
               const std::vector<TokenType>& types, UnigramOptions options)
      : options_(options), scores_(scores), types_(types) {
    std::vector<std::pair<std::string_view, std::int32_t>> strings;
    double least = std::numeric_limits<double>::infinity(), most = -least;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (types_[i] == TokenType::normal || types_[i] == TokenType::user_defined)
        strings.emplace_back(tokens[i], static_cast<std::int32_t>(i));
      if (options_.sentencepiece && types_[i] != TokenType::normal) continue;
      least = std::min(least, scores_[i]);
      most = std::max(most, scores_[i]);
    }
    if (least > most) least = most = 0;
    most_ = most;
    unknown_score_ = least - kUnknownPenalty;
    if (options_.sentencepiece) unknown_score_ = static_cast<float>(unknown_score_);
    trie_ = PrefixTrie(strings);
  }

  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const override {
    struct Best {
      double score = 0;
      std::size_t begin = 0;
      std::int32_t id = -1;
      bool reached = false;
    };
    std::vector<Best> best(piece.size() + 1);
    best[0].reached = true;
    const auto offer = [&](std::size_t begin, std::size_t end, std::int32_t id, double score) {
      Best& target = best[end];
      const double sum = score + best[begin].score;
      if (target.reached && !(sum > target.score)) return;
      target = {options_.sentencepiece ? static_cast<float>(sum) : sum, begin, id, true};
    };
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t length = utf8_character(piece, at).length;
      bool single = false;
      trie_.match(piece.substr(at), [&](std::size_t bytes, std::int32_t id) {
        offer(at, at + bytes, id, score_of(id, bytes));
        single = single || bytes == length;
      });
      if (!single) offer(at, at + length, -1, unknown_score_);
      at += length;
    }
    std::vector<std::size_t> ends;
    for (std::size_t end = piece.size(); end > 0; end = best[end].begin) ends.push_back(end);
    for (std::size_t i = ends.size(); i-- > 0;) {
      const Best& last = best[ends[i]];
      if (last.id >= 0)
        ids.push_back(last.id);
      else
        options_.fallback.append(piece.substr(last.begin, ends[i] - last.begin), ids);
    }
  }

 private:
  double score_of(std::int32_t id, std::size_t bytes) const {
    const auto i = static_cast<std::size_t>(id);
    if (!options_.sentencepiece || types_[i] != TokenType::user_defined) return scores_[i];
    return static_cast<double>(static_cast<float>(bytes) * static_cast<float>(most_)) - 0.1;
  }

  UnigramOptions options_;
  std::vector<double> scores_;
  std::vector<TokenType> types_;
  PrefixTrie trie_;
  double unknown_score_ = 0, most_ = 0;
};

}  // namespace

std::unique_ptr<SegmentModel> make_unigram_model(const std::vector<std::string>& tokens,
                                                 const std::vector<double>& scores, const std::vector<TokenType>& types,
                                                 UnigramOptions options) {
  return std::make_unique<UnigramModel>(tokens, scores, types, options);
}

}  // namespace etna::data
