#include <etna/data/tokenizers/tokenizer.h>

#include <fmt/format.h>

#include <etna/data/tokenizers/word_tokenizer.h>
#include <etna/tensor/tensor.h>

namespace etna::data {

std::map<std::string, Tensor> TokenizerState::state_dict() const {
  std::string text;
  const bool words = tokenizer->name() == "word";
  if (words) {
    for (std::size_t id = 0; id < tokenizer->size(); ++id)
      text.append(tokenizer->token(static_cast<std::int32_t>(id))).push_back('\n');
  } else {
    text = tokenizer->json();
  }
  return {{words ? "text" : "json", from_vector(std::vector<std::uint8_t>(text.begin(), text.end()))}};
}

void TokenizerState::load_state_dict(const std::map<std::string, Tensor>& state) const {
  const bool words = state.contains("text");
  const auto found = state.find(words ? "text" : "json");
  if (found == state.end() || found->second.dtype() != u8 || found->second.dim() != 1)
    throw FormatError("it is not a tokenizer");
  const auto bytes = found->second.to_vector<std::uint8_t>();
  const std::string text(bytes.begin(), bytes.end());
  std::shared_ptr<const Tokenizer> loaded;
  if (words) {
    Vocabulary vocabulary;
    for (std::size_t at = 0, end; at < text.size(); at = end + 1) {
      end = text.find('\n', at);
      if (end == std::string::npos) throw FormatError("the last word is cut off");
      vocabulary.add(std::string_view(text).substr(at, end - at));
    }
    loaded = std::make_shared<WordTokenizer>(std::move(vocabulary));
  } else {
    loaded = parse_tokenizer(text, "its tokenizer");
  }
  if (tokenizer == nullptr)
    tokenizer = std::move(loaded);
  else
    require_same_tokenizer(*tokenizer, *loaded, "the run");
}

void require_same_tokenizer(const Tokenizer& corpus, const Tokenizer& trained, const std::string& run) {
  if (corpus.hash() == trained.hash()) return;
  const auto what = [](const Tokenizer& tokenizer, const char* other) {
    return tokenizer.name() == "word" ? fmt::format("{} {}words", tokenizer.size(), other)
                                      : fmt::format("{} {}tokens of {} (hash {:016x})", tokenizer.size(), other,
                                                    tokenizer.name(), tokenizer.hash());
  };
  throw FormatError(
      fmt::format("the corpus has {}, but {} was trained on {}; use the same text, or the folder it was prepared into",
                  what(corpus, ""), run, what(trained, "other ")));
}

}  // namespace etna::data
