#include <etna/tensor/ops/quantized/internal/choice_order.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/rows.h>

// Rows by expert on the CPU.
namespace etna::quantized {

ChoiceOrder choice_order(const char* op, const Tensor& expert, std::int64_t experts) {
  const Tensor index = indexing::checked_index(op, expert, experts);
  const std::int64_t* of = index.host<std::int64_t>();
  const std::int64_t count = index.numel();
  ChoiceOrder order{std::vector<std::int64_t>(static_cast<std::size_t>(experts) + 1), empty({count}, {i64}),
                    empty({count}, {i64})};
  for (std::int64_t i = 0; i < count; ++i) ++order.begin[static_cast<std::size_t>(of[i]) + 1];
  for (std::size_t e = 1; e < order.begin.size(); ++e) order.begin[e] += order.begin[e - 1];
  std::vector<std::int64_t> next = order.begin;
  auto *choices = order.choices.mutable_data<std::int64_t>(), *places = order.places.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    places[i] = next[static_cast<std::size_t>(of[i])]++;
    choices[places[i]] = i;
  }
  return order;
}

Tensor rows_in_order(const Tensor& x, const Tensor& expert, const ChoiceOrder& order) {
  if (x.dim() == 3) return index_select(x.reshape({expert.numel(), x.size(2)}), 0, order.choices);
  if (expert.size(1) <= 1) return index_select(x, 0, order.choices);
  return index_select(x, 0, floor_divide(order.choices, expert.size(1)));
}

void write_by_choice(const OpCall& call, const Tensor& x, const Tensor& expert, const ChoiceOrder& order, bool summed,
                     const Tensor& y) {
  const std::int64_t columns = x.size(1);
  if (summed) {
    const Tensor each = index_select(x, 0, order.places).reshape({expert.size(0), expert.size(1), columns});
    Tensor(y).copy_(each.sum(1));
  } else {
    indexing::select_cpu(call, {x, order.places, y, 1, x.size(0), columns});
  }
}

}  // namespace etna::quantized
