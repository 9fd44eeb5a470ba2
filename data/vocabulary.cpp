#include <etna/data/corpus.h>

#include <fmt/format.h>

#include <functional>
#include <limits>

#include <etna/data/internal/words.h>
#include <etna/data/text_file.h>
#include <etna/device/error.h>
#include <etna/device/output_file.h>

namespace etna::data {

std::string_view Vocabulary::at(std::size_t id) const {
  const std::size_t begin = id == 0 ? 0 : ends_[id - 1];
  return std::string_view(text_).substr(begin, ends_[id] - begin);
}

std::size_t Vocabulary::slot_of(std::string_view word) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(word)&mask;
  while (slots_[slot] >= 0 && at(static_cast<std::size_t>(slots_[slot])) != word) slot = (slot + 1) & mask;
  return slot;
}

void Vocabulary::grow() {
  slots_.assign(slots_.empty() ? 1024 : slots_.size() * 2, -1);
  for (std::size_t id = 0; id < size(); ++id) slots_[slot_of(at(id))] = static_cast<std::int32_t>(id);
}

std::int32_t Vocabulary::add(std::string_view word) {
  if (2 * size() >= slots_.size()) grow();
  std::int32_t& id = slots_[slot_of(word)];
  if (id >= 0) return id;
  if (size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    throw FormatError("vocabulary: more words than a 32-bit id can number; use a smaller corpus");
  id = static_cast<std::int32_t>(size());
  text_ += word;
  ends_.push_back(text_.size());
  return id;
}

std::optional<std::int32_t> Vocabulary::find(std::string_view word) const {
  if (slots_.empty()) return std::nullopt;
  const std::int32_t id = slots_[slot_of(word)];
  return id < 0 ? std::nullopt : std::optional(id);
}

std::int32_t Vocabulary::id(std::string_view word) const {
  if (auto found = find(word)) return *found;
  if (auto unknown = find(kUnknown)) return *unknown;
  throw FormatError(fmt::format("vocabulary: '{}' is not among its {} words, and it has no {} to stand for it", word,
                                size(), kUnknown));
}

std::string_view Vocabulary::word(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= size())
    throw FormatError(fmt::format("vocabulary: id {} is outside its {} words", id, size()));
  return at(static_cast<std::size_t>(id));
}

void Vocabulary::save(const FilePath& file) const {
  std::string lines;
  lines.reserve(text_.size() + size());
  for (std::size_t id = 0; id < size(); ++id) {
    const std::string_view word = at(id);
    if (!is_word(word))
      throw FormatError(
          fmt::format("vocabulary: word {} ('{}') is empty or holds white space and cannot be saved", id, word));
    lines.append(word).push_back('\n');
  }
  io::write_file(file, lines);
}

Vocabulary Vocabulary::load(const FilePath& file) {
  const std::string text = read_text_file(file);
  if (text.empty()) throw FormatError(fmt::format("{}: empty, but a vocabulary has one word a line", file.string()));
  if (text.back() != '\n')
    throw FormatError(fmt::format("{}: the last line is cut off; save the vocabulary again", file.string()));
  Vocabulary vocab;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(word.size() + 1);
    if (!is_word(word))
      throw FormatError(fmt::format("{}:{}: a vocabulary has exactly one word a line, found '{}'", file.string(),
                                    vocab.size() + 1, word));
    if (auto first = vocab.find(word))
      throw FormatError(
          fmt::format("{}:{}: the word '{}' is already on line {}", file.string(), vocab.size() + 1, word, *first + 1));
    vocab.add(word);
  }
  return vocab;
}

std::vector<std::int32_t> encode(std::string_view text, const Vocabulary& vocab) {
  std::vector<std::int32_t> ids;
  for_each_token(text, [&](std::string_view word, bool) { ids.push_back(vocab.id(word)); });
  return ids;
}

}  // namespace etna::data
