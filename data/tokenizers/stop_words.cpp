#include <etna/data/tokenizers/stream_decoder.h>

#include <algorithm>
#include <utility>

namespace etna::data {

StopWords::StopWords(std::vector<std::string> words) : words_(std::move(words)) {
  std::erase_if(words_, [](const std::string& word) { return word.empty(); });
}

std::string StopWords::push(std::string_view chunk) {
  if (stopped_) return {};
  pending_ += chunk;
  // The match that ends first wins, as if the text came byte by byte; among those, the longest.
  std::size_t first_end = std::string::npos, begin = 0, held = 0;
  for (const std::string& word : words_) {
    const std::size_t at = pending_.find(word);
    const std::size_t end = at == std::string::npos ? at : at + word.size();
    if (end < first_end || (end == first_end && at < begin)) {
      first_end = end;
      begin = at;
    }
    for (std::size_t n = std::min(word.size() - 1, pending_.size()); n > held; --n)
      if (pending_.ends_with(std::string_view(word).substr(0, n))) held = n;
  }
  stopped_ = first_end != std::string::npos;
  const std::size_t shown = stopped_ ? begin : pending_.size() - held;
  std::string text = pending_.substr(0, shown);
  pending_.erase(0, shown);
  return text;
}

std::string StopWords::finish() { return stopped_ ? std::string() : std::exchange(pending_, {}); }

}  // namespace etna::data
