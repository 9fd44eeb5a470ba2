#pragma once

#include <etna/tensor/ops/loss/internal/cross_entropy.h>

/// The loss of a linear layer's logits, which are computed one chunk of rows at a time and never all stored. If
/// gradients are wanted, they are computed in the same pass: a chunk's logits are overwritten with their gradient.
namespace etna::loss::chunked {

/// in: x [N, E], weight [C, E], bias [C] or none, target [N]
/// out: loss [], then, if wanted, the gradients of x [N, E], weight [C, E], bias [C], for a loss gradient of 1
struct LinearCrossEntropyAttrs {
  loss::CrossEntropyAttrs loss;  ///< reduction: mean or sum
  bool wants_x = false, wants_weight = false, wants_bias = false;

  bool wants_any() const { return wants_x || wants_weight || wants_bias; }
};

/// The outputs by name; undefined if not wanted.
struct Outputs {
  Tensor loss, x, weight, bias;

  Outputs(const LinearCrossEntropyAttrs& a, std::span<Tensor> out) : loss(out[0]) {
    std::size_t next = 1;
    if (a.wants_x) x = out[next++];
    if (a.wants_weight) weight = out[next++];
    if (a.wants_bias) bias = out[next++];
  }
};

/// Rows of logits in memory at a time on a GPU. @param row_bytes bytes of a row of logits @param most_bytes of all
std::int64_t rows_of_chunk(std::int64_t rows, std::int64_t row_bytes, std::int64_t most_bytes);

/// Factor of stored gradients of the logits. Without it, f16 gradients would underflow: they are probabilities over
/// thousands of classes.
constexpr float stored_factor(DType t) { return t == DType::f16 ? 256.0f : 1.0f; }

void cpu(const OpCall& call, std::span<Tensor> out);
bool gpu(const OpCall& call, std::span<Tensor> out);

}  // namespace etna::loss::chunked
