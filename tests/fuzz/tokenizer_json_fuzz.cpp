// A tokenizer.json from a stranger: read, checked, and used on a text. Needs libetna and -fsanitize=fuzzer; the files
// in tests/tokenizers/tokenizer_json.json make a corpus to begin with.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <etna/data/tokenizers/stream_decoder.h>
#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/error.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace etna::data;
  try {
    const auto tokenizer = parse_tokenizer(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    StreamDecoder stream(*tokenizer, true);
    for (const std::int32_t id :
         tokenizer->encode_prompt("The <s> of\xFF \xE2\x96\x81  it, 12\r\n'll", {SpecialTokens::recognize, true}))
      stream.push(id);
    stream.finish();
  } catch (const etna::FormatError&) {}
  return 0;
}
