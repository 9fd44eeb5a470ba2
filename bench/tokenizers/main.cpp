#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/bpe_tokenizer.h>
#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/device/error.h>

/// Times Tokenizer::encode on the start of a text, as a server encodes a conversation again at each turn. Without a
/// tokenizer's file, learns one of each kind from the text.
using namespace etna;

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

void row(const std::string& name, const data::Tokenizer& tokenizer, std::string_view text, int repeats) {
  const auto start = Clock::now();
  const std::size_t count = tokenizer.encode(text).size();
  const double first = milliseconds(start);
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = Clock::now();
    tokenizer.encode(text);
    times.push_back(milliseconds(begin));
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  fmt::print("{:<22} {:>8} {:>10.3f} {:>10.3f} {:>10.1f}\n", name, count, first, median,
             static_cast<double>(text.size()) / median / 1e3);
}

std::string with(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// The same tokens for SentencePiece: spaces are U+2581, and a token's score is its place.
data::VocabularyFields pieces(const data::BpeTokenizer& bpe, const std::string& model) {
  data::VocabularyFields fields;
  fields.model = model;
  const auto add = [&](std::string text, data::TokenType type, float score) {
    fields.tokens.push_back(std::move(text));
    fields.types.push_back(static_cast<std::int32_t>(type));
    fields.scores.push_back(score);
  };
  add("<unk>", data::TokenType::unknown, 0);
  add("<s>", data::TokenType::control, 0);
  add("</s>", data::TokenType::control, 0);
  for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), data::TokenType::byte, 0);
  for (std::size_t id = 0; id < bpe.size(); ++id) {
    const std::string text(bpe.token(static_cast<std::int32_t>(id)));
    if (data::find_invalid_utf8(text) != std::string::npos) continue;
    const auto rank = static_cast<float>(id);
    add(with(text, " ", "\xE2\x96\x81"), data::TokenType::normal, model == "t5" ? -std::log(rank + 2) : -rank);
  }
  fields.bos = 1;
  fields.eos = 2;
  fields.unk = 0;
  return fields;
}

void measure_learned(std::string_view all, std::string_view text, std::int64_t size, int repeats) {
  const std::vector<std::string_view> texts{all};
  const data::BpeTokenizer bpe = data::BpeTokenizer::train(texts, {.vocab_size = size});
  row("bpe", bpe, text, repeats);
  // A tokenizer.json with a normalizer is a ModelTokenizer; NFC leaves this text as it is.
  row("tokenizer.json, NFC",
      *data::parse_tokenizer(with(bpe.json(), "\"normalizer\":null", R"("normalizer":{"type":"NFC"})"), "learned"),
      text, repeats);
  row("sentencepiece", data::ModelTokenizer(pieces(bpe, "llama")), text, repeats);
  row("unigram", data::ModelTokenizer(pieces(bpe, "t5")), text, repeats);
}

}  // namespace

int main(int argc, char** argv) try {
  std::string file, tokenizer;
  std::size_t kib = 30;
  std::int64_t vocabulary = 16384;
  int repeats = 201;
  CLI::App app{"Times Tokenizer::encode"};
  app.add_option("--text", file, "a text, such as wiki.valid.tokens")->required()->check(CLI::ExistingFile);
  app.add_option("--tokenizer", tokenizer, "a tokenizer's file; without one, each kind learns from the text");
  app.add_option("--kib", kib, "how much of the text is encoded")->capture_default_str()->check(CLI::Range(1, 1 << 20));
  app.add_option("--vocab-size", vocabulary, "tokens to learn")->capture_default_str()->check(CLI::Range(256, 1 << 20));
  app.add_option("--repeats", repeats, "calls, of which the median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  CLI11_PARSE(app, argc, argv);
  const std::string all = data::read_text_file(file);
  const std::string_view text = std::string_view(all).substr(0, kib << 10);
  fmt::print("{:<22} {:>8} {:>10} {:>10} {:>10}\n", "tokenizer", "tokens", "first ms", "median ms", "MB/s");
  if (tokenizer.empty()) {
    measure_learned(all, text, vocabulary, repeats);
  } else {
    const auto loaded = data::load_tokenizer(tokenizer);
    row(std::string(loaded->name()), *loaded, text, repeats);
  }
  return 0;
} catch (const Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
