#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <etna/tensor/io/mapped_bytes.h>
#include <etna/tensor/quant/block_format.h>
#include <etna/tensor/shape.h>

/// Files of weights of every kind that Etna reads, seen alike.
namespace etna::cli {

struct WeightTensor {
  std::string name;
  Shape shape;
  std::int64_t elements = 0;
  std::string format;                          ///< "Q4_K", "F32"; of an unknown one, what is known of it
  const quant::BlockFormat* layout = nullptr;  ///< null where this build cannot decode it
  std::uint64_t bytes = 0;                     ///< 0 where they cannot be found
  std::function<io::MappedBytes()> data;       ///< not copied
};

struct WeightFile {
  std::string kind;  ///< "GGUF version 3", "safetensors", "safetensors in 3 files", "llama2.c checkpoint"
  std::vector<std::pair<std::string, std::string>> metadata;  ///< lists are cut
  std::vector<WeightTensor> tensors;
};

/// Reads headers only. @param path a file, or a folder of Hugging Face @throws FormatError, naming the file
WeightFile open_weights(const std::filesystem::path& path);

}  // namespace etna::cli
