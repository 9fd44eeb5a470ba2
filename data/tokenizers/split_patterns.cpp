#include <etna/data/tokenizers/split_patterns.h>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::data {
namespace {

// The expressions are facts of the models: each is the one its authors published with the vocabulary.
constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                                     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                                     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kHan = "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+";
constexpr std::string_view kHanHangul =
    "[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80\xEA\xB0\x80-\xED\x9F\xBF]+";

bool among(std::string_view name, std::initializer_list<std::string_view> names) {
  for (const std::string_view other : names)
    if (name == other) return true;
  return false;
}

SplitRule rule(std::initializer_list<std::string_view> patterns) {
  SplitRule made;
  for (const std::string_view pattern : patterns) made.patterns.emplace_back(pattern);
  return made;
}

}  // namespace

std::string_view gpt2_pattern() { return kGpt2; }

SplitRule split_rule(const std::string& pre, const std::string& name) {
  if (pre.empty() || pre == "default") return rule({R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"});
  if (among(pre, {"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "jina-es", "jina-de",
                  "jina-v2-es", "jina-v2-de", "gigachat", "exaone4"})) {
    SplitRule made = rule({kGpt2});
    made.gpt2 = true;
    return made;
  }
  if (among(pre, {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"})) {
    SplitRule made = rule({kLlama3});
    made.ignore_merges = made.add_bos = true;
    return made;
  }
  if (among(pre, {"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"})) return rule({kLlama3});
  if (among(pre, {"qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "kormo"})) return rule({kQwen2});
  if (among(pre, {"gpt-4o", "llama4", "kanana2"})) return rule({kGpt4o});
  if (pre == "tekken") {
    SplitRule made = rule({kTekken});
    made.ignore_merges = made.add_bos = true;
    return made;
  }
  if (among(pre, {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"}))
    return rule({R"(\p{N})", kGpt2});
  if (pre == "falcon") return rule({R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2, "[0-9][0-9][0-9]"});
  if (among(pre, {"deepseek-v3", "hunyuan-dense"})) return rule({R"(\p{N}{1,3})", kHan, kDeepSeek3});
  if (pre == "deepseek-coder") return rule({R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kHanHangul, R"(\p{N})"});
  throw FormatError(
      fmt::format("{}: splits text by the rule '{}', which Etna does not know; it knows among others gpt-2, llama-bpe, "
                  "qwen2, gpt-4o, tekken, starcoder, falcon, deepseek-v3 and deepseek-coder",
                  name, pre));
}

}  // namespace etna::data
