#include <etna/data/corpus.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <vector>

#include <etna/data/internal/demo_grammar.h>
#include <etna/data/internal/words.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

/// SplitMix64 (Steele, Lea & Flood 2014). Uses 64-bit integer arithmetic only, so every machine draws the same numbers.
class CorpusRandom {
 public:
  explicit CorpusRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// In [0, n). n is small, so the bias of the remainder does not matter.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }

 private:
  std::uint64_t state_;
};

/// Writes one article: expands templates and remembers the `$` draws.
class Writer {
 public:
  explicit Writer(CorpusRandom& random) : random_(random) {
    const bool she = random_.below(2) == 0;
    facts_ = {{"he", she ? "she" : "he"},   {"He", she ? "She" : "He"},   {"his", she ? "her" : "his"},
              {"His", she ? "Her" : "His"}, {"him", she ? "her" : "him"}, {"name", draw(she ? "woman" : "man")}};
    std::size_t year = 1740 + random_.below(80);
    for (const char* name : {"year", "year2", "year3"}) {
      facts_[name] = std::to_string(year);
      year += 20 + random_.below(30);
    }
  }

  std::string write(const demo::Article& article) {
    std::string text = " \n = " + opening(article.title) + " = \n \n";
    for (const demo::Section& section : article.sections) {
      if (!section.title.empty()) text += fmt::format(" = = {} = = \n \n", expand(section.title));
      text += ' ';
      for (const std::string_view sentence : choose(section)) text += opening(sentence) + ' ';
      text += "\n \n";
    }
    return text;
  }

 private:
  /// The first sentence of a lead is always included; the others keep the order of the pool.
  std::vector<std::string_view> choose(const demo::Section& section) {
    const std::size_t total = section.sentences.size();
    std::size_t wanted = section.least + random_.below(total - section.least + 1);
    std::vector<std::string_view> chosen;
    for (std::size_t i = 0; i < total; ++i) {
      const bool opens = i == 0 && section.title.empty();
      if (opens || random_.below(total - i) < wanted) {
        chosen.push_back(section.sentences[i]);
        --wanted;
      }
    }
    return chosen;
  }

  /// Expands the text and capitalizes its first letter.
  std::string opening(std::string_view text) {
    std::string out = expand(text);
    out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
    return out;
  }

  std::string draw(std::string_view list) {
    for (const demo::List& candidate : demo::lists())
      if (candidate.name == list) return expand(candidate.entries[random_.below(candidate.entries.size())]);
    throw Error(fmt::format("demo corpus: the grammar has no list '{}'", list));
  }

  const std::string& fact(const std::string& name) {
    if (const auto known = facts_.find(name); known != facts_.end()) return known->second;
    const std::string list = name.substr(0, name.find_first_of("23"));
    std::string value = draw(list);
    while (taken(list, value)) value = draw(list);
    return facts_.emplace(name, std::move(value)).first->second;
  }

  bool taken(const std::string& list, const std::string& value) const {
    return std::any_of(facts_.begin(), facts_.end(),
                       [&](const auto& f) { return f.first.compare(0, list.size(), list) == 0 && f.second == value; });
  }

  std::string expand(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      if (text[i] == '{') {
        const std::size_t end = text.find('}', i);
        out += expand(choice(text.substr(i + 1, end - i - 1)));
        i = end + 1;
      } else if (text[i] == '$' || text[i] == '~') {
        std::size_t end = i + 1;
        while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[end]))) ++end;
        const std::string name(text.substr(i + 1, end - i - 1));
        out += text[i] == '$' ? fact(name) : draw(name);
        i = end;
      } else {
        out += text[i++];
      }
    }
    return out;
  }

  std::string_view choice(std::string_view options) {
    const auto bars = static_cast<std::size_t>(std::count(options.begin(), options.end(), '|'));
    for (std::size_t skip = random_.below(bars + 1); skip > 0; --skip) options.remove_prefix(options.find('|') + 1);
    return options.substr(0, options.find('|'));
  }

  CorpusRandom& random_;
  std::map<std::string, std::string> facts_;
};

/// Number of tokens of the text: words, and `<eos>` for each line.
std::size_t count_tokens(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    count += text[i] == '\n' || (text[i] != ' ' && (i == 0 || text[i - 1] == ' '));
  return count;
}

std::string write_articles(CorpusRandom& random, std::size_t tokens) {
  std::string text;
  for (std::size_t count = 0; count < tokens;) {
    const std::string article = Writer(random).write(demo::articles()[random.below(demo::articles().size())]);
    count += count_tokens(article);
    text += article;
  }
  return text;
}

}  // namespace

std::string demo_text(std::uint64_t seed, std::size_t tokens) {
  CorpusRandom random(seed);
  return write_articles(random, tokens);
}

Corpus demo_corpus(std::uint64_t seed) {
  CorpusRandom random(seed);
  Corpus corpus;
  append_lines(write_articles(random, 120'000), corpus.vocab, corpus.train);
  append_lines(write_articles(random, 8'000), corpus.vocab, corpus.valid);
  append_lines(write_articles(random, 8'000), corpus.vocab, corpus.test);
  corpus.source = fmt::format("the embedded demo corpus, seed {}", seed);
  return corpus;
}

}  // namespace etna::data
