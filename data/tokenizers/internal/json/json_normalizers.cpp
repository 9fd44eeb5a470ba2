#include <fmt/format.h>

#include <etna/data/internal/base64.h>
#include <etna/data/internal/utf8_character.h>
#include <etna/data/tokenizers/internal/json/json_steps.h>
#include <etna/data/tokenizers/internal/splits/regex_splitter.h>
#include <etna/data/tokenizers/internal/unicode/charsmap.h>
#include <etna/data/tokenizers/internal/unicode/unicode_normal.h>
#include <etna/data/tokenizers/pieces/internal/bert_text.h>

namespace etna::data {
namespace {

using Normalize = TokenizerPlan::Normalize;

/// Applies SentencePiece's rules as Hugging Face's tokenizers do, per grapheme cluster: if rules match a prefix of a
/// cluster of fewer than six bytes, the shortest such rule replaces the whole cluster.
Normalize precompiled(const JsonPart& part) {
  const std::optional<std::string> bytes = from_base64(part.text("precompiled_charsmap"));
  if (!bytes) part.refuse("has a precompiled_charsmap that is not base64");
  const auto rules = std::make_shared<const Charsmap>(*bytes, part.name());
  const auto clusters = std::make_shared<const RegexSplitter>("\\X", part.name());
  return [rules, clusters](std::string_view text) {
    std::string out;
    std::size_t at = 0;
    const auto characters = [&](std::string_view run) {
      for (std::size_t i = 0; i < run.size();) {
        const std::string_view c = run.substr(i, utf8_character(run, i).length);
        const Charsmap::Rule rule = rules->shortest(c);
        out += rule.length > 0 ? rule.text : c;
        i += c.size();
      }
    };
    for (const RegexSplitter::Match& match : clusters->matches(text)) {
      characters(text.substr(at, match.first - at));
      at = match.second;
      const std::string_view cluster = text.substr(match.first, match.second - match.first);
      const Charsmap::Rule rule = cluster.size() < 6 ? rules->shortest(cluster) : Charsmap::Rule{};
      if (rule.length > 0)
        out += rule.text;
      else
        characters(cluster);
    }
    characters(text.substr(at));
    return out;
  };
}

Normalize replace(const JsonPart& part) {
  const auto splitter = std::make_shared<const RegexSplitter>(part.pattern("pattern"), part.name());
  return [splitter, content = part.text("content")](std::string_view text) {
    std::string out;
    std::size_t at = 0;
    for (const RegexSplitter::Match& match : splitter->matches(text)) {
      out.append(text.substr(at, match.first - at)).append(content);
      at = match.second;
    }
    return out.append(text.substr(at));
  };
}

Normalize bert(const JsonPart& part) {
  BertNormalizer normalizer;
  normalizer.clean = part.flag("clean_text", true);
  normalizer.spaces_ideographs = part.flag("handle_chinese_chars", true);
  normalizer.lowercases = part.flag("lowercase", true);
  normalizer.strips_accents = part.flag("strip_accents", normalizer.lowercases);
  return normalizer;
}

}  // namespace

Normalize read_normalizer(const JsonPart& part) {
  const std::string type = part.type();
  const auto form = [](NormalForm to) { return [to](std::string_view text) { return to_normal_form(text, to); }; };
  if (type == "NFC") return form(NormalForm::nfc);
  if (type == "NFD") return form(NormalForm::nfd);
  if (type == "NFKC") return form(NormalForm::nfkc);
  if (type == "NFKD") return form(NormalForm::nfkd);
  if (type == "Lowercase") return to_lowercase;
  if (type == "StripAccents") return [](std::string_view text) { return without_accents(text); };
  if (type == "BertNormalizer") return bert(part);
  if (type == "Precompiled") return precompiled(part);
  if (type == "Replace") return replace(part);
  if (type == "Strip")
    return [left = part.flag("strip_left", true), right = part.flag("strip_right", true)](std::string_view text) {
      return strip(text, left, right);
    };
  if (type == "Prepend")
    return [prefix = part.text("prepend")](std::string_view text) {
      return text.empty() ? std::string() : prefix + std::string(text);
    };
  if (type != "Sequence") part.refuse(fmt::format("is a {}, which Etna does not support", type));
  std::vector<Normalize> steps;
  for (const JsonPart& step : part.list("normalizers")) steps.push_back(read_normalizer(step));
  return [steps](std::string_view text) {
    std::string now(text);
    for (const Normalize& step : steps) now = step(now);
    return now;
  };
}

}  // namespace etna::data
