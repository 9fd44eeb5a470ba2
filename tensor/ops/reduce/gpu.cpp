#include <algorithm>
#include <array>

#include <etna/device/internal/graph/fusion_info.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/reduce/internal/reduce.h>

namespace etna::reduce {
namespace {

/// The numbers of a dispatch: the loops of a Plan, divided into chunks.
struct Loops {
  std::int64_t outputs, length;           ///< number of outputs; reduced elements per output
  std::int64_t chunk_length, chunks = 1;  ///< elements that a workgroup reduces; chunks per output
  std::int64_t kept_inner, reduced_inner;
  std::array<std::uint32_t, 2> kept_strides, reduced_strides;  ///< outer, inner
  float divisor = 1;
};

constexpr std::int64_t kThreads = 256;

/// Sums and products of integers are computed in i64.
const gpu::Shader& shader_for(Kind kind, DType t, Device device) {
  const gpu::Variants variants{shaders::reduce_float, shaders::reduce_int, shaders::reduce_i64, shaders::reduce_pairs};
  const bool totals = kind == Kind::sum || kind == Kind::prod;
  return variants.of(totals && !is_floating(t) ? i64 : t, device);
}

/// Threads per output. Few choices, since each needs its own pipeline. Eight adjacent columns are enough to read whole
/// sectors of 32 bytes.
std::int64_t threads_for(std::int64_t outputs, std::int64_t length, bool columns, bool fours,
                         const gpu::Capabilities& can) {
  if (fours && length > 32) {  // sixteen elements per thread, unless that leaves compute units idle
    const std::int64_t threads = length <= 256 ? 8 : length <= 1024 ? 32 : length <= 8192 ? 64 : kThreads;
    return outputs * threads >= 2 * kThreads * can.compute_units ? threads
           : length <= 256                                       ? 32
           : length <= 1024                                      ? 64
                                                                 : kThreads;
  }
  if (columns) return length < 8 ? 1 : outputs < std::int64_t{64} * can.compute_units && length >= 32 ? 32 : 8;
  return length <= 4 ? 1 : length <= 32 ? 8 : length <= 256 ? 32 : kThreads;
}

const char* defines_of(const gpu::Shader& shader) {
  if (&shader == &shaders::reduce_float) return "#define T float\n#define T_FLOAT\n";
  return &shader == &shaders::reduce_i64 ? "#define T int64_t\n#define T_I64\n" : "#define T int\n#define T_INT\n";
}

struct Dispatcher {
  const OpCall& call;
  const gpu::Shader& shader;
  Kind kind;

  /// @param width the kernel's WIDTH
  void operator()(const Tensor& x, const Tensor& y, const Loops& loops, std::int64_t threads, bool columns,
                  bool from_states, bool to_states, std::uint32_t width) const {
    const std::int64_t slots = kThreads / threads, groups = (loops.outputs + slots - 1) / slots;
    const DType x_dtype = from_states ? f32 : x.dtype();
    gpu::PrologueFusion through;
    if (capturing() && !from_states && x.is_contiguous() && &shader != &shaders::reduce_pairs) {
      const std::uint32_t n = gpu::u32(x.numel()), one = 1;
      through = {
          call.op.name, "reduce.comp", defines_of(shader), {x.address(), gpu::u32(x_dtype), {&n, 1}, {&one, 1}}, n};
    }
    gpu::Kernel(shader, call)
        .spec(kind, x_dtype, y.dtype(), threads, columns, from_states, to_states, width)
        .read(x)
        .write(y)
        .u32(loops.outputs, loops.length, loops.chunk_length, groups)
        .u32(loops.kept_inner, loops.reduced_inner)
        .u32(loops.kept_strides)
        .u32(loops.reduced_strides)
        .f32(loops.divisor)
        .u32(loops.chunks)
        .fusible(through.n > 0 ? &through : nullptr)
        .dispatch(gpu::grid(groups * loops.chunks));
  }
};

Loops loops_of(const Plan& plan) {
  auto inner = [](const Shape& shape) { return shape.empty() ? 1 : shape.back(); };
  auto strides = [](const Strides& from) {
    return std::array{from.rank() > 1 ? gpu::u32(from[0]) : 0, from.rank() > 0 ? gpu::u32(from.back()) : 0};
  };
  return {.outputs = plan.outputs,
          .length = plan.length,
          .chunk_length = plan.length,
          .kept_inner = inner(plan.kept),
          .reduced_inner = std::max<std::int64_t>(1, inner(plan.reduced)),
          .kept_strides = strides(plan.kept_strides),
          .reduced_strides = strides(plan.reduced_strides)};
}

/// True if an output's elements can be loaded four at a time: adjacent, aligned, a multiple of four.
bool by_fours(const Tensor& x, const Plan& plan) {
  const bool floats = x.dtype() == f32 || x.dtype() == f16 || x.dtype() == bf16;
  bool fits = floats && plan.reduced.rank() == 1 && plan.reduced_strides[0] == 1 && plan.length % 4 == 0 &&
              x.address() % (4 * item_size(x.dtype())) == 0;
  for (std::int64_t stride : plan.kept_strides) fits = fits && stride % 4 == 0;
  return fits;
}

/// x with the reduced dimensions moved last, contiguous; `dims` is set to their new positions.
Tensor reduced_last(const Tensor& x, Dims& dims) {
  Dims order, last;
  for (int d = 0; d < x.dim(); ++d) {
    if (!dims.contains(d)) order.push_back(d);
  }
  for (std::int64_t d : dims) {
    last.push_back(order.rank());
    order.push_back(d);
  }
  dims = last;
  return x.permute(order).contiguous();
}

}  // namespace

bool gpu(const OpCall& call, std::span<Tensor> out) {
  auto a = call.as<ReduceAttrs>();
  Tensor x = call.in[0];
  Tensor& y = out[0];
  if (x.dtype() == f64) return false;
  const gpu::Capabilities& can = gpu::capabilities(x.device());
  const gpu::Shader& shader = shader_for(a.kind, x.dtype(), x.device());
  if (y.numel() == 0) return true;
  Plan plan(x, a.dims);
  if (a.kind == Kind::sum && column_sums(call, x, plan, y)) return true;
  if (plan.kept.rank() > 2 || plan.reduced.rank() > 2) {
    x = reduced_last(x, a.dims);
    plan = Plan(x, a.dims);
  }
  bool columns = plan.columns();
  const bool fours = by_fours(x, plan);
  const std::uint32_t width = fours ? 4 : plan.reduced.rank() <= 1 ? 1 : 0;
  std::int64_t threads = threads_for(plan.outputs, plan.length, columns, fours, can);
  std::int64_t groups = (plan.outputs * threads + kThreads - 1) / kThreads;
  // Enough workgroups to fill the device, but at least sixteen elements per thread. Fewer than four chunks are not
  // worth a barrier and a second dispatch.
  std::int64_t wanted = std::int64_t{8} * can.compute_units / groups, useful = plan.length / (threads * 16);
  if (useful < 4) useful = 1;
  std::int64_t chunks = std::clamp<std::int64_t>(std::min(wanted, useful), 1, 1024);

  Loops loops = loops_of(plan);
  loops.divisor = static_cast<float>(
      std::max<std::int64_t>(0, plan.length - (a.kind == Kind::var || a.kind == Kind::std ? a.correction : 0)));
  loops.chunk_length = ((plan.length + chunks - 1) / chunks + 3) / 4 * 4;
  loops.chunks = chunks;
  Dispatcher dispatch{call, shader, a.kind};
  if (chunks == 1) {
    dispatch(x, y, loops, threads, columns, false, false, width);
    return true;
  }
  std::int64_t state_words = &shader == &shaders::reduce_i64 || &shader == &shaders::reduce_pairs ? 8 : 4;
  Tensor states = empty({chunks, plan.outputs, state_words}, {i32, x.device()});
  dispatch(x, states, loops, threads, columns, false, true, width);
  loops.length = loops.chunk_length = chunks;
  loops.chunks = 1;
  dispatch(states, y, loops, threads_for(plan.outputs, chunks, plan.outputs > 1, false, can), plan.outputs > 1, true,
           false, 0);
  return true;
}

}  // namespace etna::reduce
