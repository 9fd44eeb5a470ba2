#include <etna/data/tokenizers/bpe_tokenizer.h>

#include <algorithm>
#include <utility>

#include <etna/data/tokenizers/internal/splits/pre_tokenizer.h>
#include <etna/data/tokenizers/internal/splits/text_chunks.h>
#include <etna/device/internal/cpu/parallel.h>

namespace etna::data {

WordCounts::WordCounts(std::vector<std::string> except) : except_(std::move(except)) {
  std::erase(except_, std::string());
}

void WordCounts::count(std::string_view text, std::size_t first_except, Views& counts) const {
  if (first_except == except_.size()) {
    for_each_word(text, [&](std::string_view word) { ++counts[word]; });
    return;
  }
  const std::string& except = except_[first_except];
  for (std::size_t at; (at = text.find(except)) != std::string_view::npos;) {
    count(text.substr(0, at), first_except + 1, counts);
    text.remove_prefix(at + except.size());
  }
  count(text, first_except + 1, counts);
}

void WordCounts::add(std::string_view text) {
  const std::vector<std::string_view> chunks = text_chunks(text, chunk_size(text.size()));
  const auto tasks = static_cast<std::int64_t>(chunks.size());
  const std::int64_t workers = std::min<std::int64_t>(tasks, cpu::workers());
  std::vector<Views> each(static_cast<std::size_t>(workers));
  cpu::for_each_task(workers, [&](std::int64_t worker) {
    for (std::int64_t i = worker; i < tasks; i += workers)
      count(chunks[static_cast<std::size_t>(i)], 0, each[static_cast<std::size_t>(worker)]);
  });
  for (const Views& views : each) {
    for (const auto& entry : views) {
      const auto known = counts_.find(entry.first);
      if (known != counts_.end())
        known->second += entry.second;
      else
        counts_.emplace(entry.first, entry.second);
    }
  }
}

}  // namespace etna::data
