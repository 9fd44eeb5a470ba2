#pragma once

#include <string>
#include <vector>

namespace etna::data {

/// The pre-tokenizer of a family of byte-level tokenizers.
struct SplitRule {
  /// Regular expressions, applied in sequence: each splits the pieces of the previous one into its matches and the text
  /// between them.
  std::vector<std::string> patterns;
  bool ignore_merges = false;
  bool add_bos = false;
};

/// The rule for the value of `tokenizer.ggml.pre` in a GGUF file, such as "llama-bpe". Empty: the rule for files that
/// predate this field. @throws FormatError for an unknown name
SplitRule split_rule(const std::string& pre, const std::string& name);

}  // namespace etna::data
