#include <etna/data/tokenizers/internal/splits/split_patterns.h>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/splits/published_patterns.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

using namespace published;

using Patterns = std::initializer_list<std::string_view>;

bool among(std::string_view name, Patterns names) {
  for (const std::string_view other : names)
    if (name == other) return true;
  return false;
}

SplitRule rule(Patterns patterns) {
  SplitRule made;
  for (const std::string_view pattern : patterns) made.patterns.emplace_back(pattern);
  return made;
}

/// Rules of few models, all with a matcher of the library.
struct RareRule {
  Patterns names, patterns;
};
const RareRule kRareRules[] = {
    {{"deepseek-llm"}, {kLineEnd, kDeepSeekLetters, kDeepSeekPunctuation, kLastSpaces, kHanHangul, kNumbers}},
    {{"qwen35"}, {kQwen35}},
    {{"poro-chat", "bloom", "gpt3-finnish"}, {kBloom}},
    {{"viking"}, {kBloom, kOneNumber}},
    {{"chameleon"}, {kSentinels, kImageTokens, kWideSpaces, kOneNumber, kOneMark, kGpt2}},
    {{"bailingmoe", "bailingmoe2", "llada-moe"}, {kBailing}},
    {{"seed-coder"}, {kSeedCoder}},
    {{"superbpe"}, {kNumbers, kThousands}},
    {{"tiny_aya", "cohere2moe"}, {kThousandsOfWord, kGpt4o}},
    {{"exaone-moe"}, {kExaoneMoe}},
    {{"afmoe"}, {kThousands, kAfmoeScripts, kDeepSeek3}},
    {{"kimi-k2"}, {kKimi}},
    {{"minicpm5"}, {kThreeNumbers, kLlama3}}};

}  // namespace

SplitRule split_rule(const std::string& pre, const std::string& name) {
  if (pre.empty() || pre == "default") return rule({kPunctuation, kGpt2, kNumbers, kThreeDigits});
  if (among(pre, {"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "jina-es", "jina-de",
                  "jina-v2-es", "jina-v2-de", "jina-v1-en", "jina-v2-code", "roberta-bpe", "modern-bert", "a.x-4.0",
                  "mellum", "gigachat", "exaone4"}))
    return rule({kGpt2});
  if (among(pre, {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"})) {
    SplitRule made = rule({kLlama3});
    made.ignore_merges = made.add_bos = true;
    return made;
  }
  if (among(pre, {"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"})) return rule({kLlama3});
  if (among(pre, {"qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "kormo", "grok-2", "solar-open"}))
    return rule({kQwen2});
  if (among(pre, {"gpt-4o", "llama4", "kanana2", "minimax-m2"})) return rule({kGpt4o});
  if (pre == "tekken") {
    SplitRule made = rule({kTekken});
    made.ignore_merges = made.add_bos = true;
    return made;
  }
  if (among(pre, {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"}))
    return rule({kOneNumber, kGpt2});
  if (pre == "falcon") return rule({kFalconPunctuation, kGpt2, kThreeDigits});
  if (among(pre, {"deepseek-v3", "hunyuan-dense", "joyai-llm"})) return rule({kThreeNumbers, kHan, kDeepSeek3});
  if (pre == "deepseek-coder") return rule({kLineEnd, kSpacedLetters, kSpacedPunctuation, kHanHangul, kOneNumber});
  for (const RareRule& rare : kRareRules)
    if (among(pre, rare.names)) return rule(rare.patterns);
  throw FormatError(
      fmt::format("{}: unknown pre-tokenizer '{}'; known are gpt-2, llama-bpe, qwen2, gpt-4o, tekken, starcoder, "
                  "falcon, deepseek-v3, deepseek-coder and others",
                  name, pre));
}

}  // namespace etna::data
