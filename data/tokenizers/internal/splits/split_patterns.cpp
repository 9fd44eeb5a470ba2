#include <etna/data/tokenizers/internal/splits/split_patterns.h>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/splits/published_patterns.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

using namespace published;

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

SplitRule split_rule(const std::string& pre, const std::string& name) {
  if (pre.empty() || pre == "default") return rule({kPunctuation, kGpt2, kNumbers, kThreeDigits});
  if (among(pre, {"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "jina-es", "jina-de",
                  "jina-v2-es", "jina-v2-de", "gigachat", "exaone4"}))
    return rule({kGpt2});
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
    return rule({kOneNumber, kGpt2});
  if (pre == "falcon") return rule({kFalconPunctuation, kGpt2, kThreeDigits});
  if (among(pre, {"deepseek-v3", "hunyuan-dense"})) return rule({kThreeNumbers, kHan, kDeepSeek3});
  if (pre == "deepseek-coder") return rule({kLineEnd, kSpacedLetters, kSpacedPunctuation, kHanHangul, kOneNumber});
  throw FormatError(
      fmt::format("{}: unknown pre-tokenizer '{}'; known are gpt-2, llama-bpe, qwen2, gpt-4o, tekken, starcoder, "
                  "falcon, deepseek-v3, deepseek-coder and others",
                  name, pre));
}

}  // namespace etna::data
