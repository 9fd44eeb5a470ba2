#pragma once

#include <cstdio>

#include <etna/data/tokenizers/model_tokenizer.h>

namespace etna {

/// Bytes and a few words.
inline data::VocabularyFields some_fields() {
  data::VocabularyFields fields;
  fields.model = "llama";
  fields.tokens = {"<unk>", "<s>", "</s>"};
  fields.types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    fields.tokens.emplace_back(name);
    fields.types.push_back(6);
  }
  for (const char* word :
       {"\xE2\x96\x81", "the", "\xE2\x96\x81the", "river", "\xE2\x96\x81river", "a", "b", "c", "."}) {
    fields.tokens.emplace_back(word);
    fields.types.push_back(1);
  }
  fields.scores.resize(fields.tokens.size());
  for (std::size_t i = 0; i < fields.scores.size(); ++i) fields.scores[i] = -static_cast<float>(i);
  fields.bos = 1;
  fields.eos = 2;
  return fields;
}
inline data::ModelTokenizer some_tokenizer() { return data::ModelTokenizer(some_fields()); }

}  // namespace etna
