#include <string>
#include <unordered_map>
#include <utility>

#include <etna/data/internal/utf8_character.h>
#include <etna/data/tokenizers/pieces/internal/segment_model.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

class WordPieceModel : public SegmentModel {
 public:
  WordPieceModel(const std::vector<std::string>& tokens, const std::vector<bool>& usable, WordPieceOptions options)
      : options_(std::move(options)), tokens_(tokens) {
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      if (!usable[id] || tokens_[id].empty()) continue;
      const std::string_view token = tokens_[id];
      longest_ = std::max(longest_, token.size());
      ids_.emplace(token, static_cast<std::int32_t>(id));
    }
  }

  void encode(std::string_view word, std::vector<std::int32_t>& ids) const override {
    const std::size_t before = ids.size();
    if (is_short(word) && spell(word, ids)) return;
    ids.resize(before);
    if (options_.unknown < 0)
      throw FormatError("tokenizer: the vocabulary cannot spell a word, and has no unknown token");
    ids.push_back(options_.unknown);
  }

 private:
  bool is_short(std::string_view word) const {
    std::size_t characters = 0;
    for (std::size_t at = 0; at < word.size() && characters <= options_.longest; ++characters)
      at += utf8_character(word, at).length;
    return characters <= options_.longest;
  }

  bool spell(std::string_view word, std::vector<std::int32_t>& ids) const {
    std::string piece;
    for (std::size_t begin = 0; begin < word.size();) {
      piece = begin > 0 ? options_.prefix : "";
      const std::size_t start = piece.size();
      piece += word.substr(begin);
      if (piece.size() > longest_) piece.resize(std::max(longest_, start));
      auto found = ids_.end();
      while (piece.size() > start && (found = ids_.find(piece)) == ids_.end()) piece.pop_back();
      if (found == ids_.end()) return false;
      ids.push_back(found->second);
      begin += piece.size() - start;
    }
    return true;
  }

  WordPieceOptions options_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::size_t longest_ = 0;  ///< bytes of a token
};

}  // namespace

std::unique_ptr<SegmentModel> make_wordpiece_model(const std::vector<std::string>& tokens,
                                                   const std::vector<bool>& usable, WordPieceOptions options) {
  return std::make_unique<WordPieceModel>(tokens, usable, std::move(options));
}

}  // namespace etna::data
