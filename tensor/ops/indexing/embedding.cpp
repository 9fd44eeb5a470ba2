#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/internal/in_place.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>
#include <etna/tensor/ops/indexing/internal/put.h>
#include <etna/tensor/ops/indexing/internal/rows.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/sorting/order/internal/order.h>

// Rows of a table, and the table's gradient, alone or added to existing values. The gradients of equal indices are
// added in order of position. That order depends only on the index, so the bits never vary.
namespace etna {
namespace {

struct BackwardAttrs {
  std::int64_t rows;
};

std::vector<OutputSpec> embedding_infer(const OpCall& call) {
  const Tensor &weight = call.in[0], &index = call.in[1];
  if (weight.dim() != 2) {
    throw ShapeError(fmt::format("embedding: the weight is {}, it must be [rows, width]", str(weight.shape())));
  }
  indexing::check_index_dtype("embedding", index);
  if (weight.size(0) == 0 && index.numel() > 0) {
    throw ShapeError(fmt::format("embedding: the weight {} has no rows to choose from", str(weight.shape())));
  }
  Shape shape = index.shape();
  shape.push_back(weight.size(1));
  return {{shape, weight.dtype()}};
}

indexing::Selection embedding_selection(const OpCall& call, const Tensor& y) {
  return {call.in[0], call.in[1], y, 1, call.in[0].size(0), call.in[0].size(1)};
}
void embedding_cpu(const OpCall& call, std::span<Tensor> out) {
  indexing::select_cpu(call, embedding_selection(call, out[0]));
}
bool embedding_gpu(const OpCall& call, std::span<Tensor> out) {
  return indexing::select_gpu(call, embedding_selection(call, out[0]));
}

TensorList embedding_reference(const OpCall& call) {
  const Tensor &weight = call.in[0], &index = call.in[1];
  Shape shape = index.shape();
  shape.push_back(weight.size(1));
  return {index_select(weight, 0, index.reshape({index.numel()})).reshape(shape)};
}

TensorList embedding_vjp(const VjpCall& call) {
  return {call.needs[0] ? embedding_backward(call.grad[0], call.in[1], call.in[0].size(0)) : Tensor(), Tensor()};
}

/// A table that is also the output layer already has a gradient for all rows here.
bool embedding_vjp_into(const VjpCall& call, Tensor& sum) {
  if (sum.dtype() != call.grad[0].dtype() || !sum.is_contiguous()) return false;
  index_add_(sum, call.in[1], call.grad[0]);
  return true;
}

const OpDef kEmbedding = {.name = "embedding",
                          .infer = embedding_infer,
                          .cpu = embedding_cpu,
                          .gpu = embedding_gpu,
                          .reference = embedding_reference,
                          .vjp = embedding_vjp,
                          .vjp_into = embedding_vjp_into,
                          .saved = Saved::inputs,
                          .saved_inputs = 0b10};

void check_gradient(const OpCall& call, const Tensor& grad, const Tensor& index, std::int64_t table_rows) {
  indexing::check_index_dtype(call.op.name, index);
  if (!is_floating(grad.dtype())) {
    throw DtypeError(fmt::format("{}: the gradient is {}, it must be floating", call.op.name, name(grad.dtype())));
  }
  Shape wanted = index.shape();
  wanted.push_back(grad.dim() > 0 ? grad.size(-1) : 1);
  if (grad.shape() != wanted || table_rows < 0 || (table_rows == 0 && index.numel() > 0)) {
    throw ShapeError(
        fmt::format("{}: a gradient {} does not match an index {} into {} rows; it must be the index's shape and a "
                    "width",
                    call.op.name, str(grad.shape()), str(index.shape()), table_rows));
  }
}

std::vector<OutputSpec> embedding_backward_infer(const OpCall& call) {
  const Tensor& grad = call.in[0];
  std::int64_t table_rows = call.as<BackwardAttrs>().rows;
  check_gradient(call, grad, call.in[1], table_rows);
  return {{Shape{table_rows, grad.size(-1)}, grad.dtype()}};
}

std::vector<OutputSpec> index_add_infer(const OpCall& call) {
  const Tensor &source = call.in[0], &table = call.in[2];
  check_gradient(call, source, call.in[1], table.dim() > 0 ? table.size(0) : 0);
  if (table.dim() != 2 || table.size(1) != source.size(-1) || table.dtype() != source.dtype() ||
      !table.is_contiguous()) {
    throw ShapeError(fmt::format("{}: the table is {} {}, it must be contiguous and [rows, {}] of {}", call.op.name,
                                 name(table.dtype()), str(table.shape()), source.size(-1), name(source.dtype())));
  }
  return {{table.shape(), table.dtype(), 2}};
}

/// For each row of the table, sums the gradients of the positions that selected it.
/// @param adds adds to the rows' existing values
template <typename T>
void sum_rows(const Tensor& grad, std::span<const std::int64_t> begin, std::span<const std::int64_t> order,
              const Tensor& y, bool adds) {
  auto wide = [](T value) {
    if constexpr (sizeof(T) == 2)
      return static_cast<double>(static_cast<float>(value));
    else
      return static_cast<double>(value);
  };
  std::int64_t width = y.size(1);
  const T* g = grad.host<T>();
  T* out = y.host<T>();
  cpu::parallel_for(y.size(0), std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(width, 1)),
                    [&](std::int64_t first, std::int64_t last) {
                      cpu::Scratch<double> sums(static_cast<std::size_t>(width));
                      for (std::int64_t v = first; v < last; ++v) {
                        auto chosen = order.subspan(static_cast<std::size_t>(begin[static_cast<std::size_t>(v)]),
                                                    static_cast<std::size_t>(begin[static_cast<std::size_t>(v) + 1] -
                                                                             begin[static_cast<std::size_t>(v)]));
                        T* row = out + v * width;
                        if (adds && chosen.empty()) continue;
                        if (!adds && chosen.size() == 1) {
                          std::copy_n(g + chosen[0] * width, width, row);
                          continue;
                        }
                        for (std::int64_t c = 0; c < width; ++c)
                          sums[static_cast<std::size_t>(c)] = adds ? wide(row[c]) : 0.0;
                        for (std::int64_t position : chosen) {
                          const T* from = g + position * width;
                          for (std::int64_t c = 0; c < width; ++c) sums[static_cast<std::size_t>(c)] += wide(from[c]);
                        }
                        for (std::int64_t c = 0; c < width; ++c) {
                          if constexpr (sizeof(T) == 2)
                            row[c] = T(static_cast<float>(sums[static_cast<std::size_t>(c)]));
                          else
                            row[c] = static_cast<T>(sums[static_cast<std::size_t>(c)]);
                        }
                      }
                    });
}

/// Sorts positions by index with a stable counting sort, then sums each row separately.
void cpu_sum(const OpCall& call, Tensor& y, bool adds) {
  Tensor grad = call.in[0].contiguous();
  std::int64_t table_rows = y.size(0);
  Tensor index = indexing::checked_index(call.op.name, call.in[1], table_rows);
  std::span chosen(index.host<std::int64_t>(), static_cast<std::size_t>(index.numel()));
  cpu::Scratch<std::int64_t> begin(static_cast<std::size_t>(table_rows) + 1, 0), order(chosen.size());
  for (std::int64_t v : chosen) ++begin[static_cast<std::size_t>(v) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  cpu::Scratch<std::int64_t> next(begin.begin(), begin.end() - 1);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    order[static_cast<std::size_t>(next[static_cast<std::size_t>(chosen[i])]++)] = static_cast<std::int64_t>(i);
  }
  switch (grad.dtype()) {
    case f64:
      sum_rows<double>(grad, begin, order, y, adds);
      break;
    case f32:
      sum_rows<float>(grad, begin, order, y, adds);
      break;
    case f16:
      sum_rows<Half>(grad, begin, order, y, adds);
      break;
    default:
      sum_rows<BFloat16>(grad, begin, order, y, adds);
      break;
  }
}

void embedding_backward_cpu(const OpCall& call, std::span<Tensor> out) { cpu_sum(call, out[0], false); }
void index_add_cpu(const OpCall& call, std::span<Tensor> out) { cpu_sum(call, out[0], true); }

/// shaders/indexing/embedding.comp explains the steps.
bool gpu_sum(const OpCall& call, Tensor& y, bool adds) {
  constexpr std::int64_t tokens_a_group = 32, segment = 32;
  constexpr std::int64_t kCompared = 32768;  // more tokens are sorted by digits, not by comparing all pairs
  if (y.dtype() == f64) return false;
  if (y.numel() == 0) return true;
  if (!adds) y.zero_();
  Tensor grad = call.in[0].contiguous(), index = call.in[1].contiguous();
  std::int64_t count = index.numel(), width = y.size(1);
  if (count == 0) return true;
  std::int64_t segments = (count + segment - 1) / segment;
  Device device = y.device();
  Tensor order = empty({count}, {i32, device}), keys = empty({count}, {i32, device});
  Tensor partial = empty({segments, 2, width}, {f32, device});
  if (count > kCompared) {
    const Strides none{0};
    const Tensor places =
        indexing::linear_index(index.reshape({count}), {}, {call.op.name, y.size(0), 1, false, false, none});
    const order::SortedKeys sorted = order::sort_keys_gpu(call, places, y.size(0));
    order = sorted.order, keys = sorted.keys;
  } else {
    gpu::Kernel(shaders::embedding_rank, call)
        .spec(256, index.dtype())
        .read(index)
        .write(order)
        .write(keys)
        .index_errors()
        .u32(count, y.size(0))
        .dispatch(gpu::grid(count, tokens_a_group));
  }
  const std::int64_t threads = width <= 256 ? 64 : 256;
  auto grid = [&](std::int64_t groups) {
    auto g = gpu::grid(groups);
    g[2] = gpu::u32((width + 4 * threads - 1) / (4 * threads));
    return g;
  };
  // When adding to existing values, the kernel also reads the rows.
  auto table = [&](gpu::Kernel& kernel) -> gpu::Kernel& { return adds ? kernel.read_write(y) : kernel.write(y); };
  table(gpu::Kernel(shaders::embedding_sum, call).spec(threads, y.dtype(), adds))
      .read(grad)
      .write(partial)
      .read(order)
      .read(keys)
      .u32(count, width)
      .dispatch(grid(count));
  if (segments > 1) {
    const Tensor unused;
    table(gpu::Kernel(shaders::embedding_merge, call).spec(threads, y.dtype(), adds))
        .read(unused)
        .read(partial)
        .read(unused)
        .read(keys)
        .u32(count, width)
        .dispatch(grid(segments - 1));
  }
  return true;
}
bool embedding_backward_gpu(const OpCall& call, std::span<Tensor> out) { return gpu_sum(call, out[0], false); }
bool index_add_gpu(const OpCall& call, std::span<Tensor> out) { return gpu_sum(call, out[0], true); }

TensorList embedding_backward_reference(const OpCall& call) {
  const Tensor &grad = call.in[0], &index = call.in[1];
  std::int64_t count = index.numel(), width = grad.size(-1);
  Tensor table = zeros({call.as<BackwardAttrs>().rows, width}, {grad.dtype(), grad.device()});
  return {scatter_add(table, 0, index.reshape({count, 1}).expand({count, width}), grad.reshape({count, width}))};
}

TensorList embedding_backward_vjp(const VjpCall& call) {
  return {call.needs[0] ? embedding(call.grad[0], call.in[1]) : Tensor(), Tensor()};
}

const OpDef kEmbeddingBackward = {.name = "embedding_backward",
                                  .infer = embedding_backward_infer,
                                  .cpu = embedding_backward_cpu,
                                  .gpu = embedding_backward_gpu,
                                  .reference = embedding_backward_reference,
                                  .vjp = embedding_backward_vjp,
                                  .saved = Saved::inputs,
                                  .saved_inputs = 0b10};

TensorList index_add_reference(const OpCall& call) {
  const Tensor &source = call.in[0], &index = call.in[1], &table = call.in[2];
  std::int64_t count = index.numel(), width = table.size(1);
  return {scatter_add(table, 0, index.reshape({count, 1}).expand({count, width}), source.reshape({count, width}))};
}

const OpDef kIndexAdd = {.name = "index_add_",
                         .infer = index_add_infer,
                         .cpu = index_add_cpu,
                         .gpu = index_add_gpu,
                         .reference = index_add_reference};

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& index, std::optional<std::int64_t> padding_idx) {
  const Tensor y = apply1(kEmbedding, {weight, index});
  if (!padding_idx) return y;
  const std::int64_t count = weight.size(0);
  if (*padding_idx < -count || *padding_idx >= count)
    throw IndexError(fmt::format("embedding: padding_idx {} is outside [{}, {})", *padding_idx, -count, count));
  if (!y.requires_grad()) return y;
  const double row = static_cast<double>(*padding_idx < 0 ? *padding_idx + count : *padding_idx);
  return where(eq(index, row).unsqueeze(-1), y.detach(), y);
}

Tensor embedding_backward(const Tensor& grad, const Tensor& index, std::int64_t table_rows) {
  detail::require_defined("embedding_backward", grad, index);
  return apply1(kEmbeddingBackward, {grad, index}, Attrs::of(BackwardAttrs{table_rows}));
}

void index_add_(const Tensor& table, const Tensor& index, const Tensor& source) {
  detail::require_defined("index_add_", table, index, source);
  Tensor x = table;
  if (in_place::wants_record("index_add_", x, source)) {
    const std::int64_t rows = index.numel();
    in_place::record("index_add_", x, [&](const Tensor& old) {
      return index_add(old, 0, index.reshape({rows}), source.reshape({rows, old.size(-1)}));
    });
    return;
  }
  GradMode off(false);
  apply1(kIndexAdd, {source.storage() == table.storage() ? source.clone() : source, index, table});
}

std::span<const OpDef* const> ops_in_embedding() {
  static const OpDef* const list[] = {&kEmbedding, &kEmbeddingBackward, &kIndexAdd};
  return list;
}

}  // namespace etna
