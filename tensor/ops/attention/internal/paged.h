#pragma once

#include <cstdint>
#include <span>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/attention/attention.h>

namespace etna::attention::paged {

enum WriteInput {
  kQkv,
  kFrequencies,
  kWriteTable,
  kWritePositions,
  kQueryNorm,
  kKeyNorm,
  kKeysOut,
  kValuesOut,
  kStepSinks  ///< of rotate_and_attend only
};
struct WriteAttrs {
  std::int64_t heads = 0, kv_heads = 0, size = 0;
  float eps = 0, magnitude = 1;
  bool interleaved = false;
  bool has_values = true;    ///< else the cache has keys only, and a row of qkv, too
  DType dtype = DType::f32;  ///< dtype of the returned queries

  /// Of a row: of queries, keys and values.
  std::int64_t all_heads() const { return heads + (has_values ? 2 : 1) * kv_heads; }
};

/// Without values, the rows of keys are values, too.
enum AttentionInput { kQ, kKeys, kValues, kTable, kPositions, kSinks };
struct AttentionAttrs {
  double scale = 0, softcap = 0;
  std::int64_t window = 0, chunk = 0;  ///< at most one of them is not 0; below 2^31

  /// The first position that a query attends to.
  std::int64_t oldest(std::int64_t position) const {
    if (chunk > 0 && position > 0) return position - position % chunk;
    return window > 0 && position >= window ? position + 1 - window : 0;
  }
};

/// Inputs are those of WriteInput. Outputs are the attention's, [B, 1, H · D], then the cache, then, if the op
/// quantizes, the attention's as quantized activations (quantized::ActivationRows).
struct StepAttrs {
  WriteAttrs write;
  AttentionAttrs attention;
  bool quantizes = false;
};

/// From this number of query rows on, kernels for many queries are faster.
inline constexpr std::int64_t kPrompt = 16;
/// The largest head that these support, and those that rotate a step's row, too.
inline constexpr std::int64_t kMostSize = 256;

/// The dtype for the queries of a prompt: the one that the device multiplies fastest without losing digits of the
/// cache. f16 or bf16 on a GPU with matrix units, else f32.
DType prompt_dtype(const PagedCache& cache);

void rotate_and_cache_cpu(const OpCall& call, std::span<Tensor> out);
bool rotate_and_cache_gpu(const OpCall& call, std::span<Tensor> out);
void paged_attention_cpu(const OpCall& call, std::span<Tensor> out);
bool paged_attention_gpu(const OpCall& call, std::span<Tensor> out);
/// True if step_gpu() supports one new row per sequence. @param size elements of a head
bool has_step_gpu(const Tensor& qkv, const PagedCache& cache, std::int64_t heads, std::int64_t size);
/// True if it can also quantize its result. @param table of the cache's blocks
bool step_quantizes_gpu(const Tensor& table, std::int64_t size);
bool rotate_and_attend_gpu(const OpCall& call, std::span<Tensor> out);

enum RowsInput { kCache, kRowsTable };
struct RowsAttrs {
  std::int64_t length = 0;
  DType dtype = DType::f32;
};

bool cached_rows_gpu(const OpCall& call, std::span<Tensor> out);

/// Values per row of the cache: D, whatever dtype the cache stores.
inline std::int64_t row_values(const Tensor& cache) {
  return cache.dtype() == u8 ? cache.size(3) / 34 * 32 : cache.size(3);
}

}  // namespace etna::attention::paged
