#pragma once

#include <cstdint>
#include <vector>

#include <etna/tensor/op.h>

/// Rows on the CPU in the order of the experts that they chose.
namespace etna::quantized {

/// The choices in the order of their experts.
struct ChoiceOrder {
  std::vector<std::int64_t> begin;  ///< of each expert's; the last is the number of choices
  Tensor choices, places;           ///< i64: the choice at each place, and the place of each choice
};

/// @param expert [R, C] @throws IndexError
ChoiceOrder choice_order(const char* op, const Tensor& expert, std::int64_t experts);
/// @param x [R, n] or [R, C, n] @return [R · C, n], a row for each choice
Tensor rows_in_order(const Tensor& x, const Tensor& expert, const ChoiceOrder& order);
/// The rows of choices, or their sums over the choices of each row. @param x [R · C, n] in the order of the experts
/// @param y [R, C, n], or [R, n] if summed
void write_by_choice(const OpCall& call, const Tensor& x, const Tensor& expert, const ChoiceOrder& order, bool summed,
                     const Tensor& y);

/// Calls a function with the number of each expert and the range of its choices, which may be empty.
template <typename Each>
void for_each_expert(const ChoiceOrder& order, const Each& each) {
  for (std::size_t e = 0; e + 1 < order.begin.size(); ++e)
    each(static_cast<std::int64_t>(e), order.begin[e], order.begin[e + 1]);
}

/// The dtype of sums of f16 and bf16: f32; of others their own.
inline DType sum_dtype_of(DType t) { return item_size(t) == 2 ? f32 : t; }

}  // namespace etna::quantized
