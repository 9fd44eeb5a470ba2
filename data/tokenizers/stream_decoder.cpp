#include <etna/data/tokenizers/stream_decoder.h>

#include <etna/data/internal/utf8_character.h>

namespace etna::data {
namespace {

/// The number of bytes at text[at] that form the prefix of a valid character; at least 1.
/// @param open whether they reach the end of the text, so that more bytes could complete the character
std::size_t truncated_length(std::string_view text, std::size_t at, bool& open) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned lead = byte(0);
  std::size_t needs = 0;
  unsigned low = 0x80, high = 0xBF;  // of the second byte
  if (lead >= 0xC2 && lead <= 0xDF) needs = 2;
  if (lead >= 0xE0 && lead <= 0xEF) needs = 3;
  if (lead >= 0xF0 && lead <= 0xF4) needs = 4;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  std::size_t length = 1;
  while (length < needs && at + length < text.size() && byte(length) >= low && byte(length) <= high) {
    ++length;
    low = 0x80;
    high = 0xBF;
  }
  open = length < needs && at + length == text.size();
  return length;
}

/// Appends the text whose decoding is final to `out` and returns the number of bytes it consumed.
std::size_t append_valid(std::string_view text, bool last, std::string& out) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Character c = utf8_character(text, at);
    if (c.valid) {
      out += text.substr(at, c.length);
      at += c.length;
      continue;
    }
    bool open = false;
    const std::size_t length = truncated_length(text, at, open);
    if (open && !last) break;
    out += "\xEF\xBF\xBD";
    at += length;
  }
  return at;
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool show_special)
    : tokenizer_(tokenizer), show_special_(show_special) {
  state_.show_special = show_special;
}

void StreamDecoder::decode(std::int32_t id, DecodeState& state, std::string& text) const {
  if (id < 0 || static_cast<std::size_t>(id) < tokenizer_.size()) tokenizer_.decode_next(id, state, text);
}

std::string StreamDecoder::push(std::int32_t id) {
  decode(id, state_, pending_);
  return take(false);
}

void StreamDecoder::skip(std::span<const std::int32_t> ids) {
  while (!ids.empty() && (state_.at_start || !tokenizer_.forgets())) {
    push(ids[0]);
    ids = ids.subspan(1);
  }
  // What remains open is the start of one character: at most three bytes.
  std::string tail;
  for (; !ids.empty() && tail.size() < 4; ids = ids.first(ids.size() - 1)) {
    std::string text;
    decode(ids.back(), state_, text);
    tail.insert(0, text);
  }
  if (ids.empty()) tail.insert(0, pending_);
  pending_ = std::move(tail);
  take(false);
}

std::string StreamDecoder::finish() {
  std::string rest = take(true);
  state_ = {};
  state_.show_special = show_special_;
  return rest;
}

std::string StreamDecoder::take(bool last) {
  std::string out;
  pending_.erase(0, append_valid(pending_, last, out));
  return out;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  append_valid(text, true, out);
  return out;
}

}  // namespace etna::data
