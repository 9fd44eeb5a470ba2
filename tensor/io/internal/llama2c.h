#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/tensor/io/mapped_bytes.h>
#include <etna/tensor/tensor.h>

/// llama2.c's legacy checkpoint: seven i32, then f32 weights in a fixed order, without names.
namespace etna::io {

struct Llama2cConfig {
  std::int64_t width = 0;         ///< of the embeddings ("dim")
  std::int64_t feed_forward = 0;  ///< hidden width of the feed-forward layers ("hidden_dim")
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;  ///< longest sequence
  bool tied = false;         ///< the output matrix is the embedding table; there is no output.weight

  std::int64_t head_width() const { return width / heads; }
  std::int64_t kv_width() const { return head_width() * kv_heads; }
};

struct Llama2cTensor {
  std::string name;
  Shape shape;
  std::size_t begin = 0;  ///< offset of the first byte in the file
};

struct Llama2cHeader {
  Llama2cConfig config;
  std::vector<Llama2cTensor> tensors;
};

/// @param file all bytes of the file; their number must match the weights
/// @throws FormatError with text that fits after "FILE: "
Llama2cHeader parse_llama2c(std::span<const std::byte> file);

/// A memory-mapped checkpoint. Tensors have the names of Meta's Llama: tok_embeddings.weight [vocabulary, width],
/// layers.N.{attention_norm, ffn_norm}.weight, layers.N.attention.{wq, wk, wv, wo}.weight,
/// layers.N.feed_forward.{w1, w2, w3}.weight, norm.weight, output.weight; matrices are [out, in]. Queries and keys have
/// Meta's order: rotary embeddings rotate the adjacent elements 2i and 2i + 1. The file's sine tables are skipped.
class Llama2cCheckpoint {
 public:
  /// @throws FormatError for a file that cannot be read or is damaged, naming the file and the fault
  explicit Llama2cCheckpoint(const FilePath& path);

  const Llama2cConfig& config() const { return header_.config; }
  const std::vector<Llama2cTensor>& tensors() const { return header_.tensors; }
  /// A view of a tensor's f32 values, which may outlive this object. @throws FormatError if no tensor has this name
  MappedBytes bytes(std::string_view name) const;
  Tensor load(std::string_view name, Device device = {}) const;

 private:
  const Llama2cTensor& tensor(std::string_view name) const;

  FilePath path_;
  std::shared_ptr<const MappedFile> file_;
  Llama2cHeader header_;
};

}  // namespace etna::io
