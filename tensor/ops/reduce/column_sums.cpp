#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/reduce/internal/reduce.h>

namespace etna::reduce {
namespace {

constexpr std::int64_t kColumnSumsColumns = 128;  ///< per workgroup
constexpr std::int64_t kRows = 64;                ///< per chunk, at least: eight per thread

/// Number of elements that can be loaded at once from every row.
std::uint32_t width(const Tensor& x, std::int64_t columns, std::int64_t stride) {
  for (std::uint32_t w : {4u, 2u}) {
    if (x.address() % (w * item_size(x.dtype())) == 0 && columns % w == 0 && stride % w == 0) return w;
  }
  return 1;
}

void dispatch(const OpCall& call, const Tensor& x, const Tensor& y, std::int64_t rows, std::int64_t columns,
              std::int64_t stride, std::int64_t chunks) {
  const std::int64_t groups = (columns + kColumnSumsColumns - 1) / kColumnSumsColumns;
  gpu::Kernel(shaders::column_sums, call)
      .spec(x.dtype(), y.dtype(), width(x, columns, stride))
      .read(x)
      .write(y)
      .u32(rows, columns, stride, (rows + chunks - 1) / chunks, groups, chunks)
      .dispatch(gpu::grid(groups * chunks));
}

}  // namespace

bool column_sums(const OpCall& call, const Tensor& x, const Plan& plan, Tensor& y) {
  const bool matrix = plan.kept.rank() == 1 && plan.reduced.rank() == 1 && plan.kept_strides[0] == 1;
  const bool floats = x.dtype() == f32 || x.dtype() == f16 || x.dtype() == bf16;
  if (!matrix || !floats || plan.outputs < 16 || plan.length < 8 || plan.reduced_strides[0] < plan.outputs)
    return false;
  const std::int64_t units = gpu::capabilities(x.device()).compute_units;
  const std::int64_t groups = (plan.outputs + kColumnSumsColumns - 1) / kColumnSumsColumns;
  std::int64_t chunks = std::clamp<std::int64_t>(4 * units / groups, 1, std::max<std::int64_t>(1, plan.length / kRows));
  if (chunks < 4) chunks = 1;  // fewer are not worth a barrier and a second dispatch
  const std::int64_t stride = plan.reduced_strides[0];
  if (chunks == 1) {
    dispatch(call, x, y, plan.length, plan.outputs, stride, 1);
    return true;
  }
  const Tensor partial = empty({chunks, plan.outputs}, {f32, x.device()});
  dispatch(call, x, partial, plan.length, plan.outputs, stride, chunks);
  dispatch(call, partial, y, chunks, plan.outputs, plan.outputs, 1);
  return true;
}

}  // namespace etna::reduce
