#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <etna/models/decoder_config.h>

namespace bench {

/// The sizes of one training step of a language model: the presets of examples/wikitext with WikiText-2's vocabulary.
struct Workload {
  std::string name;
  etna::models::DecoderOptions model;  ///< of the design of GPT-2
  std::int64_t batch = 16;
  std::int64_t rows() const { return batch * model.context; }  ///< tokens per step
};

/// @param name tiny, small or gpt2 @throws etna::Error for any other name
Workload find_workload(std::string_view name);
std::vector<std::string> workload_names();

}  // namespace bench
