// A SentencePiece model from a stranger: read, checked, and used on a text. Needs libetna and -fsanitize=fuzzer.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/device/error.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace etna::data;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const bool llama2c : {false, true}) {
    try {
      const ModelTokenizer tokenizer(
          llama2c ? parse_llama2c_tokenizer(bytes, "fuzz") : parse_sentencepiece(bytes, "fuzz"), "fuzz");
      tokenizer.decode(tokenizer.encode_prompt("The <s> of\xFF \xE2\x96\x81  it, 12\n"));
      tokenizer.decode(tokenizer.encode(bytes.substr(0, 256)));
    } catch (const etna::FormatError&) {}
  }
  return 0;
}
