#include <fuzz/targets.h>

// The entry of libFuzzer, compiled once for each target: ETNA_FUZZ_TARGET is a function of targets.h.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  etna::fuzz::ETNA_FUZZ_TARGET(data, size);
  return 0;
}
