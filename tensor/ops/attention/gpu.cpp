#include <algorithm>
#include <bit>

#include <etna/device/internal/backend.h>
#include <etna/device/internal/rounding.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/attention/internal/attention.h>
#include <etna/tensor/ops/attention/internal/cubin.h>
#include <etna/tensor/ops/attention/internal/matrix.h>
#include <etna/tensor/ops/kernel.h>

namespace etna::attention {
namespace {

/// Queries and keys per workgroup, as in shaders/lib/attention.glsl.
constexpr std::int64_t kTile = 64;
/// As the mask's dtype: none, or in its place the bounds of documents, as in shaders/lib/attention_limits.glsl, or what
/// launch_f32_cubin() returns.
constexpr std::uint32_t kNoMask = 99, kDocuments = 98, kAfterParts = 97;

/// Strides of batch, head and row.
std::array<std::uint32_t, 3> strides_of(const Tensor& x) {
  return {gpu::u32(x.strides()[0]), gpu::u32(x.strides()[1]), gpu::u32(x.strides()[2])};
}
std::array<std::uint32_t, 4> mask_strides(const Tensor& mask) {
  if (!mask.defined()) return {};
  const Strides& s = mask.strides();
  return {gpu::u32(s[0]), gpu::u32(s[1]), gpu::u32(s[2]), gpu::u32(s[3])};
}

/// The number of elements of a row that can be loaded at once from every operand: 4 or 1.
std::uint32_t width(std::int64_t size, std::initializer_list<const Tensor*> operands) {
  bool fits = size % 4 == 0;
  for (const Tensor* x : operands) {
    fits = fits && x->address() % (4 * item_size(x->dtype())) == 0;
    for (int d = 0; d < 3; ++d) fits = fits && x->strides()[d] % 4 == 0;
  }
  return fits ? 4 : 1;
}

/// Packs the sizes as the kernels unpack them: the head size is at most 256.
std::uint32_t packed_sizes(const Inputs& in, bool causal, bool packed = false) {
  return gpu::u32(in.heads_per_group()) | gpu::u32(in.size) << 16 | gpu::u32(packed) << 30 | gpu::u32(causal) << 31;
}

/// One workgroup per block of rows, head and batch. False if that exceeds the grid limits.
bool fits_grid(const Inputs& in) { return in.heads <= 65535 && in.batch <= 65535; }
std::array<std::uint32_t, 3> grid(std::int64_t rows, std::int64_t heads, std::int64_t batch,
                                  std::int64_t tile = kTile) {
  return {gpu::u32(ceil_div(rows, tile)), gpu::u32(heads), gpu::u32(batch)};
}

const Tensor& mask_or_documents(const Inputs& in) { return in.documents.defined() ? in.documents : in.mask; }
std::uint32_t mask_dtype(const Inputs& in) {
  return in.documents.defined() ? kDocuments : in.mask.defined() ? gpu::u32(in.mask.dtype()) : kNoMask;
}
/// Specialization constants: the window, and the bits of the soft cap.
std::array<std::uint32_t, 2> window_and_softcap(const AttentionAttrs& attributes) {
  return {gpu::u32(attributes.window), std::bit_cast<std::uint32_t>(static_cast<float>(attributes.softcap))};
}

/// Iterations of a sum that plain kernels unroll. On a software rasterizer unrolling costs long compile times for
/// little speed. So it does for gradients of sequences of one tile: on an H200 a step of tiny in f32 took 0.944 ms with
/// 4 and with 16, and the first one 1.42 and 1.70 to 1.83 s.
constexpr std::uint32_t kFewUnrolled = 4;
std::uint32_t unrolled(Device device) {
  const auto& all = backend(device).adapters();
  return std::any_of(all.begin(), all.end(),
                     [&](const AdapterInfo& a) { return a.device == device && a.kind == "software"; })
             ? kFewUnrolled
             : 16;
}

const gpu::Shader& by_size(std::int64_t size, const gpu::Shader& to_64, const gpu::Shader& above) {
  return size <= 64 ? to_64 : above;
}

/// inputs() with a mask in a dtype that kernels read.
Inputs device_inputs(const OpCall& call) {
  Inputs in = inputs(call);
  if (in.mask.defined() && in.mask.dtype() == f64) in.mask = in.mask.to(f32);
  return in;
}

/// By a kernel for Hopper, whatever the size of values' heads is. @param packed as below
bool attention_cubin_forward(const OpCall& call, const Inputs& in, bool packed, std::span<Tensor> out) {
  if (!has_cubin(out[0].device(), out[0].dtype(), in.size)) return false;
  const Tensor y = packed ? heads_of(out[0], in.batch, in.heads) : merge_leading(out[0], in.batch);
  return launch_cubin(call, in, y, out[1]);
}

/// @param packed the result's heads are adjacent in memory
void attention_gpu_forward(const OpCall& call, const Inputs& in, bool packed, std::span<Tensor> out) {
  auto attributes = call.as<AttentionAttrs>();
  Tensor unsplit;
  if (out[0].dtype() == f32) {
    const Tensor y = packed ? heads_of(out[0], in.batch, in.heads) : merge_leading(out[0], in.batch);
    unsplit = launch_f32_cubin(call, in, y, out[1]);
  }
  auto dispatch = [&](gpu::Kernel& kernel, std::array<std::uint32_t, 3> groups) {
    kernel.read(in.q).read(in.k).read(in.v).read(unsplit.defined() ? unsplit : mask_or_documents(in));
    for (const Tensor& result : out.first(2)) unsplit.defined() ? kernel.read_write(result) : kernel.write(result);
    kernel.u32(strides_of(in.q)).u32(strides_of(in.k)).u32(strides_of(in.v)).u32(mask_strides(in.mask));
    kernel.u32(in.queries, in.keys, packed_sizes(in, attributes.causal, packed));
    kernel.f32(static_cast<float>(attributes.scale)).dispatch(groups);
  };
  if (auto matrix = matrix_kernel(Pass::forward, in, attributes.scale, mask_dtype(in), {&in.q, &in.k, &in.v})) {
    dispatch(gpu::Kernel(*matrix->shader, call).spec(matrix->spec()).spec(window_and_softcap(attributes)),
             grid(in.queries, in.heads, in.batch, matrix->tile()));
    return;
  }
  dispatch(
      gpu::Kernel(by_size(in.size, shaders::attention_64, shaders::attention_128), call)
          .spec(out[0].dtype(), width(in.size, {&in.q, &in.k, &in.v}), unsplit.defined() ? kAfterParts : mask_dtype(in))
          .spec(unrolled(out[0].device()))
          .spec(window_and_softcap(attributes)),
      grid(in.queries, in.heads, in.batch));
}

/// Σ y · dy per row, f32 [B, H, T].
Tensor sum_rows(const OpCall& call, const Inputs& in, const Tensor& y, const Tensor& dy) {
  std::int64_t count = in.batch * in.heads * in.queries;
  Tensor rows = empty({in.batch, in.heads, in.queries}, {f32, y.device()});
  gpu::Kernel(shaders::attention_rows, call)
      .spec(y.dtype(), width(in.size, {&y, &dy}))
      .read(y)
      .read(dy)
      .write(rows)
      .u32(strides_of(y))
      .u32(strides_of(dy))
      .u32(in.queries, in.heads, in.size, count)
      .dispatch(gpu::grid(count, 16));
  return rows;
}

/// The arguments that both gradient kernels share, which are all but their outputs.
struct Backward {
  /// @param unsplit what launch_f32_cubin_gradients() returned, or undefined
  Backward(const OpCall& call, const Inputs& in, const Kept& kept, const Tensor& unsplit)
      : call(call), in(in), kept(kept), unsplit(unsplit) {
    if (unsplit.defined()) return;  // what hardly ever runs computes its sums itself
    auto attributes = call.as<AttentionAttrs>();
    auto matrix = [&](Pass pass) {
      return matrix_kernel(pass, in, attributes.scale, mask_dtype(in), {&in.q, &in.k, &in.v, &kept.dy});
    };
    // They find the derivative of a soft cap from scores, which must not have a mask added.
    if (attributes.softcap == 0 || !in.mask.defined() || in.mask.dtype() == boolean)
      dq = matrix(Pass::dq), dkv = matrix(Pass::dkv);
    // Plain kernels that handle each query in only one tile compute its sum themselves.
    if ((dq && dkv) || in.queries > kTile || in.keys > kTile) rows = sum_rows(call, in, kept.y, kept.dy);
  }

  /// @param gradient, dv the outputs: dq and none, dk and dv, or the packed gradient and none
  void launch(const gpu::Shader& shader, std::array<std::uint32_t, 3> groups, const Tensor& gradient,
              const Tensor& dv = {}) const {
    dispatch(gpu::Kernel(shader, call)
                 .spec(kept.y.dtype(), width(in.size, {&in.q, &in.k, &in.v, &kept.dy}),
                       unsplit.defined() ? kAfterParts : mask_dtype(in))
                 .spec(rows.defined() ? unrolled(kept.y.device()) : kFewUnrolled)
                 .spec(window_and_softcap(call.as<AttentionAttrs>()))
                 .spec(mask_strides(in.mask))
                 .spec(rows.defined()),
             groups, false, gradient, dv);
  }

  /// Runs both kernels on matrix units. Returns false if they do not fit. If only q_gradient is given, it receives all
  /// three gradients packed.
  bool on_matrix_units(const Tensor& q_gradient, const Tensor& k_gradient = {}, const Tensor& v_gradient = {}) const {
    if (!dq || !dkv) return false;
    const bool packed = !k_gradient.defined();
    auto launch = [&](const MatrixKernel& kernel, std::int64_t length, std::int64_t heads, const Tensor& gradient,
                      const Tensor& dv) {
      dispatch(gpu::Kernel(*kernel.shader, call)
                   .spec(kernel.spec())
                   .spec(mask_strides(in.mask))
                   .spec(window_and_softcap(call.as<AttentionAttrs>())),
               grid(length, heads, in.batch, kernel.tile()), packed, gradient, dv);
    };
    launch(*dq, in.queries, in.heads, q_gradient, {});
    launch(*dkv, in.keys, in.groups, packed ? q_gradient : k_gradient, v_gradient);
    return true;
  }

 private:
  void dispatch(gpu::Kernel& kernel, std::array<std::uint32_t, 3> groups, bool packed, const Tensor& gradient,
                const Tensor& dv) const {
    auto attributes = call.as<AttentionAttrs>();
    kernel.read(in.q).read(in.k).read(in.v).read(unsplit.defined() ? unsplit : mask_or_documents(in)).read(kept.dy);
    kernel.read(rows.defined() ? rows : kept.y).read(kept.logsumexp);
    for (const Tensor* result : {&gradient, &dv})
      unsplit.defined() ? kernel.read_write(*result) : kernel.write(*result);
    kernel.u32(strides_of(in.q)).u32(strides_of(in.k)).u32(strides_of(kept.dy));
    kernel.u32(in.queries, in.keys, packed_sizes(in, attributes.causal, packed));
    kernel.f32(static_cast<float>(attributes.scale)).dispatch(groups);
  }

  const OpCall& call;
  const Inputs& in;
  const Kept& kept;
  const Tensor unsplit;
  std::optional<MatrixKernel> dq, dkv;
  Tensor rows;  ///< undefined if the kernels compute the sums themselves
};

}  // namespace

bool forward_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[1].numel() == 0) return true;
  Inputs in = device_inputs(call);
  if (!fits_grid(in)) return false;
  if (attention_cubin_forward(call, in, false, out)) return true;
  if (in.size != in.value_size) return with_equal_heads(call, out, forward_gpu);
  attention_gpu_forward(call, in, false, out);
  return true;
}

bool self_forward_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[1].numel() == 0) return true;
  Inputs in = packed_inputs(call.in[0], call.in[1], call.as<AttentionAttrs>());
  if (!fits_grid(in)) return false;
  if (!attention_cubin_forward(call, in, true, out)) attention_gpu_forward(call, in, true, out);
  return true;
}

bool backward_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[0].numel() == 0 || out[1].numel() == 0) {
    for (Tensor& gradient : out) gradient.zero_();
    return true;
  }
  Inputs in = device_inputs(call);
  if (!fits_grid(in)) return false;
  Kept kept{merge_leading(call.in[5].contiguous(), in.batch), call.in[6].contiguous(),
            merge_leading(call.in[7].to(in.q.dtype()), in.batch)};
  if (has_cubin(in.q.device(), in.q.dtype(), in.size) &&
      launch_cubin_gradients(call, in, kept, merge_leading(out[0], in.batch), merge_leading(out[1], in.batch),
                             merge_leading(out[2], in.batch)))
    return true;
  if (in.size != in.value_size) return with_equal_heads(call, out, backward_gpu);
  // The others take one set of strides for both k and v.
  if (in.k.strides() != in.v.strides()) in.k = in.k.contiguous(), in.v = in.v.contiguous();
  Tensor unsplit;
  if (in.q.dtype() == f32)
    unsplit = launch_f32_cubin_gradients(call, in, kept, merge_leading(out[0], in.batch),
                                         merge_leading(out[1], in.batch), merge_leading(out[2], in.batch));
  Backward run(call, in, kept, unsplit);
  if (run.on_matrix_units(out[0], out[1], out[2])) return true;
  run.launch(by_size(in.size, shaders::attention_dq_64, shaders::attention_dq_128),
             grid(in.queries, in.heads, in.batch), out[0]);
  run.launch(by_size(in.size, shaders::attention_dkv_64, shaders::attention_dkv_128),
             grid(in.keys, in.groups, in.batch), out[1], out[2]);
  return true;
}

bool self_backward_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[0].numel() == 0) return true;
  Inputs in = packed_inputs(call.in[0], call.in[1], call.as<AttentionAttrs>());
  if (!fits_grid(in)) return false;
  Kept kept{heads_of(call.in[2].contiguous(), in.batch, in.heads), call.in[3].contiguous(),
            merge_leading(heads_of(call.in[4].to(in.q.dtype()), in.batch, in.heads), in.batch)};
  if (has_cubin(in.q.device(), in.q.dtype(), in.size)) {
    const Inputs gradients = packed_inputs(out[0], {}, call.as<AttentionAttrs>());
    if (launch_cubin_gradients(call, in, kept, gradients.q, gradients.k, gradients.v)) return true;
  }
  Tensor unsplit;
  if (in.q.dtype() == f32) {
    const Inputs gradients = packed_inputs(out[0], {}, call.as<AttentionAttrs>());
    unsplit = launch_f32_cubin_gradients(call, in, kept, gradients.q, gradients.k, gradients.v);
  }
  Backward run(call, in, kept, unsplit);
  if (run.on_matrix_units(out[0])) return true;
  auto groups = grid(in.queries, in.heads, in.batch);
  groups[0] *= 2;  // tiles of keys, followed by as many tiles of queries
  run.launch(by_size(in.size, shaders::attention_dqkv_64, shaders::attention_dqkv_128), groups, out[0]);
  return true;
}

}  // namespace etna::attention
