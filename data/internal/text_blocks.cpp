#include <etna/data/internal/text_blocks.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <etna/data/internal/words.h>
#include <etna/data/text_file.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

constexpr std::string_view kTextBlocksByteOrderMark = "\xEF\xBB\xBF";

bool text_blocks_is_line_end(char c) { return c == '\n' || c == '\r'; }

/// Whether a text may be cut before text[at]: white space of ASCII that follows a character that is none.
bool may_cut(std::string_view text, std::size_t at) {
  const char c = text[at];
  if (c != ' ' && (c < '\t' || c > '\r')) return false;
  std::size_t before = at - 1;
  while (before > 0 && (static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) --before;
  return white_space_at(text, before) == 0;
}

}  // namespace

TextBlocks::TextBlocks(const FilePath& file, std::string advice, std::size_t bytes)
    : name_(file.string()),
      advice_(std::move(advice)),
      file_(nullptr, std::fclose),
      block_(std::max<std::size_t>(bytes, 16)) {
  std::string why;
  file_.reset(open_text_stream(file, why));
  if (!file_) refuse(why);
}

void TextBlocks::refuse(const std::string& why) const {
  throw FormatError(fmt::format("{}: {}{}", name_, why, advice_));
}

/// Fills the buffer. @return false at the end of the file
bool TextBlocks::read_more() {
  while (filled_ < buffer_.size()) {
    const std::size_t got = std::fread(buffer_.data() + filled_, 1, buffer_.size() - filled_, file_.get());
    if (got == 0) {
      if (std::ferror(file_.get())) refuse(fmt::format("cannot be read ({})", std::generic_category().message(errno)));
      return false;
    }
    hash_.add(buffer_.data() + filled_, got);
    filled_ += got;
    bytes_ += static_cast<std::int64_t>(got);
  }
  return true;
}

/// Checks what was read since the last call, but for a character at the end whose last bytes are not there yet.
void TextBlocks::check_text() {
  std::size_t end = filled_;
  for (std::size_t back = 1; !ended_ && back <= std::min<std::size_t>(3, filled_ - checked_); ++back) {
    const unsigned lead = static_cast<unsigned char>(buffer_[filled_ - back]);
    if ((lead & 0xC0) == 0x80) continue;
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (length > back) end = filled_ - back;
    break;
  }
  const std::string_view text = std::string_view(buffer_).substr(checked_, end - checked_);
  const std::int64_t first = bytes_ - static_cast<std::int64_t>(filled_ - checked_);
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos)
    refuse(fmt::format("is not text: byte {} is NUL", first + static_cast<std::int64_t>(at)));
  if (const std::size_t at = find_invalid_utf8(text); at != std::string_view::npos)
    refuse(fmt::format("is not UTF-8 text: invalid sequence at byte {}", first + static_cast<std::int64_t>(at)));
  checked_ = end;
}

/// The last place where the buffer may be cut; 0 if there is none.
std::size_t TextBlocks::last_cut() const {
  const std::string_view text = std::string_view(buffer_).substr(0, checked_);
  for (std::size_t at = text.size(); at-- > 1;)
    if (may_cut(text, at)) return at;
  return 0;
}

std::optional<std::string_view> TextBlocks::next() {
  if (given_ > 0) {
    buffer_.erase(0, given_);
    filled_ -= given_;
    checked_ -= given_;
    given_ = 0;
  }
  std::size_t end = 0;
  while (end == 0 && !ended_) {
    const bool first = bytes_ == 0;
    // Where a block's worth has no place to cut, the block becomes larger.
    buffer_.resize(std::max(block_, filled_ >= block_ ? 2 * filled_ : 0));
    ended_ = !read_more();
    if (first && std::string_view(buffer_).substr(0, filled_).starts_with(kTextBlocksByteOrderMark)) {
      buffer_.erase(0, kTextBlocksByteOrderMark.size());
      filled_ -= kTextBlocksByteOrderMark.size();
    }
    check_text();
    if (!ended_) end = last_cut();
  }
  if (ended_) end = filled_;
  if (end == 0) return std::nullopt;
  given_ = end;
  open_line_ = !text_blocks_is_line_end(buffer_[end - 1]);
  return std::string_view(buffer_).substr(0, end);
}

}  // namespace etna::data
