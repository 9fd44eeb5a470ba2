#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/reduce/reduce.h>
#include <etna/tensor/vulkan.h>

namespace etna::reduce {
namespace {

struct Push {
  vulkan::Word64 x, y;
  std::uint32_t rows, columns, stride, piece, groups, pieces;
};

constexpr std::int64_t kColumns = 128;  ///< of a workgroup
constexpr std::int64_t kRows = 64;      ///< of a piece, at least: eight a thread

/// Elements that every row allows to be loaded at once.
std::uint32_t width(const Tensor& x, std::int64_t columns, std::int64_t stride) {
  for (std::uint32_t w : {4u, 2u}) {
    if (x.address() % (w * item_size(x.dtype())) == 0 && columns % w == 0 && stride % w == 0) return w;
  }
  return 1;
}

void dispatch(const OpCall& call, const Tensor& x, const Tensor& y, std::int64_t rows, std::int64_t columns,
              std::int64_t stride, std::int64_t pieces) {
  const std::int64_t groups = (columns + kColumns - 1) / kColumns;
  vulkan::launch(shaders::column_sums, call,
                 {vulkan::word(x.dtype()), vulkan::word(y.dtype()), width(x, columns, stride)},
                 Push{x.address(), y.address(), vulkan::word(rows), vulkan::word(columns), vulkan::word(stride),
                      vulkan::word((rows + pieces - 1) / pieces), vulkan::word(groups), vulkan::word(pieces)},
                 vulkan::grid(groups * pieces), {&x}, {&y});
}

}  // namespace

bool column_sums(const OpCall& call, const Tensor& x, const Plan& plan, Tensor& y) {
  const bool matrix = plan.kept.rank() == 1 && plan.reduced.rank() == 1 && plan.kept_strides[0] == 1;
  const bool floats = x.dtype() == f32 || x.dtype() == f16 || x.dtype() == bf16;
  if (!matrix || !floats || plan.outputs < 16 || plan.length < 8 || plan.reduced_strides[0] < plan.outputs)
    return false;
  const std::int64_t units = gpu::capabilities(x.device()).compute_units;
  const std::int64_t groups = (plan.outputs + kColumns - 1) / kColumns;
  std::int64_t pieces = std::clamp<std::int64_t>(4 * units / groups, 1, std::max<std::int64_t>(1, plan.length / kRows));
  if (pieces < 4) pieces = 1;  // not worth a barrier and a second dispatch
  const std::int64_t stride = plan.reduced_strides[0];
  if (pieces == 1) {
    dispatch(call, x, y, plan.length, plan.outputs, stride, 1);
    return true;
  }
  const Tensor partial = empty({pieces, plan.outputs}, {f32, x.device()});
  dispatch(call, x, partial, plan.length, plan.outputs, stride, pieces);
  dispatch(call, partial, y, pieces, plan.outputs, plan.outputs, 1);
  return true;
}

}  // namespace etna::reduce
