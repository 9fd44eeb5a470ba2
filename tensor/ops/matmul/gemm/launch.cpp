#include <etna/device/internal/rounding.h>
#include <etna/tensor/ops/matmul/gemm/internal/launch.h>

#include <algorithm>

namespace etna::gemm {
void launch_tiled(const OpCall& call, const GemmParams& p, const TiledShader& kernel, std::int64_t split_k) {
  const std::int64_t matrices = p.matrices();
  const std::int64_t tiles = ceil_div(p.m, kernel.tile_m) * ceil_div(p.n, kernel.tile_n);
  // The kernel runs fewer than one iteration per element of k.
  const std::uint32_t most = gpu::capabilities(p.device).most_iterations;
  const bool limited_loops = most != 0;
  if (limited_loops) split_k = std::max(split_k, ceil_div(p.k, most));
  const std::int64_t k_per_split = ceil_div(ceil_div(p.k, split_k), kernel.step) * kernel.step;
  split_k = ceil_div(p.k, k_per_split);
  const bool split = split_k > 1;
  const Tensor partial = split ? empty({split_k * p.m * p.n * matrices}, {f32, p.device}) : Tensor();

  auto width_of = [&](const Operand& x) {
    return vector_width(x.at.address, p.dtype, {x.leading, x.strides[0], x.strides[1]}, kernel.widest);
  };
  const bool a_along_k = !p.a.transposed, b_along_k = p.b.transposed;
  const EpilogueSpec epilogue = split ? EpilogueSpec::partial_sums(partial, p.n) : EpilogueSpec(p);
  std::int64_t a_width = width_of(p.a), b_width = width_of(p.b), y_width = epilogue.width;
  // A software rasterizer takes half a second to compile each combination, and gains nothing from wide loads.
  if (limited_loops) a_width = b_width = y_width = std::min({a_width, b_width, y_width});
  gpu::Kernel launch(kernel.shader, call);
  launch.spec(kernel.first)
      .spec(a_along_k, b_along_k, a_width, b_width)
      .spec(p.m % kernel.tile_m == 0, p.n % kernel.tile_n == 0, !kernel.k_by_expert && p.k % kernel.step == 0)
      .spec(y_width, epilogue.flags, epilogue.y, epilogue.bias, epilogue.aux, epilogue.residual)
      .spec(kernel.last)
      .on(p.device)
      .read(p.a.at)
      .read(p.b.at)
      .arguments(split ? partial_sum_arguments(partial, p.n) : epilogue_arguments(p))
      .u32(p.m, p.n, p.k, p.a.leading, p.b.leading)
      .u32(p.a.strides[0], p.a.strides[1]);
  if (kernel.points)
    launch.read(kernel.points);
  else
    launch.u32(p.b.strides[0], p.b.strides[1]);
  launch.u32(p.inner, matrices, k_per_split);
  if (kernel.experts) launch.read(kernel.experts);
  launch.dispatch(gpu::grid(tiles * matrices * split_k));
  if (split) add_split_k(call, p, partial, split_k);
}

}  // namespace etna::gemm
