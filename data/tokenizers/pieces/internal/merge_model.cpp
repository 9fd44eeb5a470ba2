#include <unordered_map>

#include <fmt/format.h>

#include <etna/data/internal/utf8_character.h>
#include <etna/data/tokenizers/pieces/internal/merge_symbols.h>
#include <etna/data/tokenizers/pieces/internal/segment_model.h>
#include <etna/data/tokenizers/pieces/internal/space_symbol.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

std::uint64_t merge_model_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

class MergeModel : public SegmentModel {
 public:
  MergeModel(const std::vector<std::string>& tokens, const std::vector<bool>& usable,
             const std::vector<TokenMerge>& merges, MergeModelOptions options, const std::string& name)
      : options_(options), tokens_(tokens) {
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      if (!usable[id] || tokens_[id].empty()) continue;
      ids_.emplace(tokens_[id], static_cast<std::int32_t>(id));
      cuts_.add_token(tokens_[id]);
    }
    may_cut_ = may_cut();
    ranks_.reserve(merges.size());
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const auto left = static_cast<std::size_t>(merges[rank].first);
      const auto right = static_cast<std::size_t>(merges[rank].second);
      const auto joined = ids_.find(tokens_[left] + tokens_[right]);
      if (joined == ids_.end())
        throw FormatError(fmt::format("{}: the result of merge {} is not in the vocabulary", name, rank));
      ranks_.insert_or_assign(merge_model_key(merges[rank].first, merges[rank].second),
                              Rank{static_cast<std::int32_t>(rank), joined->second});
    }
  }

  const SpaceCuts* cuts() const override { return may_cut_ ? &cuts_ : nullptr; }

  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const override {
    const bool newlines = options_.whole_newlines && piece.find_first_not_of('\n') == std::string_view::npos;
    if (options_.ignore_merges || newlines) {
      const auto whole = ids_.find(piece);
      if (whole != ids_.end()) return ids.push_back(whole->second);
    }
    if (piece.size() > kLongestWord) throw FormatError("tokenizer: a word is longer than 4 GiB");
    std::vector<MergeSymbol> symbols;
    symbols.reserve(piece.size());
    std::vector<std::int32_t> spare;
    const auto size = static_cast<std::uint32_t>(piece.size());
    for (std::uint32_t at = 0; at < size;) {
      const auto length = options_.bytes ? 1u : static_cast<std::uint32_t>(utf8_character(piece, at).length);
      const auto found = ids_.find(piece.substr(at, length));
      if (found != ids_.end()) {
        symbols.push_back({at, at + length, found->second});
      } else if (!options_.bytes || options_.fallback.unknown >= 0) {  // a byte without a token is left out
        spare.clear();
        options_.fallback.append(piece.substr(at, length), spare);
        const bool by_bytes = spare.size() == length;
        for (std::uint32_t i = 0; i < spare.size(); ++i)
          symbols.push_back({by_bytes ? at + i : at, by_bytes ? at + i + 1 : at + length, spare[i]});
      }
      at += length;
    }
    merge_symbols(symbols, [&](const MergeSymbol& left, const MergeSymbol& right, double& cost) {
      const auto found = ranks_.find(merge_model_key(left.id, right.id));
      if (found == ranks_.end()) return -1;
      cost = found->second.rank;
      return found->second.id;
    });
    for (const MergeSymbol& symbol : symbols) ids.push_back(symbol.id);
  }

 private:
  struct Rank {
    std::int32_t rank, id;
  };

  /// Whether merges depend on the text alone. With ignore_merges, the whole piece matters. A fallback token stands for
  /// another text than its own, so it must neither be a U+2581 nor merge with one that follows.
  bool may_cut() const {
    if (options_.bytes || options_.ignore_merges || ids_.count(kSpaceSymbol) == 0) return false;
    if (options_.fallback.use_bytes && !cuts_.may_follow("<0x00>")) return false;
    if (options_.fallback.unknown < 0) return true;
    const std::string_view unknown = tokens_[static_cast<std::size_t>(options_.fallback.unknown)];
    return !unknown.empty() && !unknown.ends_with(kSpaceSymbol) && cuts_.may_follow(unknown);
  }

  MergeModelOptions options_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::unordered_map<std::uint64_t, Rank> ranks_;
  SpaceCuts cuts_;
  bool may_cut_ = false;
};

}  // namespace

std::unique_ptr<SegmentModel> make_merge_model(const std::vector<std::string>& tokens, const std::vector<bool>& usable,
                                               const std::vector<TokenMerge>& merges, MergeModelOptions options,
                                               const std::string& name) {
  return std::make_unique<MergeModel>(tokens, usable, merges, options, name);
}

}  // namespace etna::data
