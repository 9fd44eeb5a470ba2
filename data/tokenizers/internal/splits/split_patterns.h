#pragma once

#include <string>
#include <vector>

namespace etna::data {

/// How a family of byte-level tokenizers splits text into words.
struct SplitRule {
  /// Regular expressions, applied one after the other: each cuts the pieces of the one before into its matches and what
  /// lies between them.
  std::vector<std::string> patterns;
  bool ignore_merges = false;
  bool add_bos = false;
};

/// The rule of the name that a GGUF file gives in `tokenizer.ggml.pre`, such as "llama-bpe". Empty: the one for files
/// that are older than this field. @throws FormatError for a name that Etna does not know
SplitRule split_rule(const std::string& pre, const std::string& name);

}  // namespace etna::data
