#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/attention/attention.h>
#include <etna/tensor/ops/attention/matrix.h>
#include <etna/tensor/vulkan.h>

namespace etna::attention {
namespace {

constexpr std::int64_t kTile =
    64;  ///< queries and keys a workgroup handles at a time, as in shaders/lib/attention.glsl
constexpr std::uint32_t kNoMask = 99;

struct Strides3 {
  std::uint32_t batch, head, row;
};
Strides3 strides_of(const Tensor& x) {
  return {vulkan::word(x.strides()[0]), vulkan::word(x.strides()[1]), vulkan::word(x.strides()[2])};
}

struct ForwardPush {
  vulkan::Word64 q, k, v, mask, y, logsumexp;
  Strides3 q_strides, k_strides, v_strides;
  std::uint32_t mask_strides[4];
  std::uint32_t queries, keys, shape;
  float scale;
};
static_assert(sizeof(ForwardPush) == 116);

struct BackwardPush {
  vulkan::Word64 q, k, v, mask, dy, y, logsumexp, gradient, dv;
  Strides3 q_strides, kv_strides, dy_strides;
  std::uint32_t queries, keys, shape;
  float scale;
};
static_assert(sizeof(BackwardPush) == 124);

struct RowsPush {
  vulkan::Word64 y, dy, rows;
  Strides3 y_strides, dy_strides;
  std::uint32_t queries, heads, size, count;
};
static_assert(sizeof(RowsPush) == 64);

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Elements of a row that may be loaded at once, from every operand: 4 or 1.
std::uint32_t width(std::int64_t size, std::initializer_list<const Tensor*> operands) {
  bool fits = size % 4 == 0;
  for (const Tensor* x : operands) {
    fits = fits && x->address() % (4 * item_size(x->dtype())) == 0;
    for (int d = 0; d < 3; ++d) fits = fits && x->strides()[d] % 4 == 0;
  }
  return fits ? 4 : 1;
}

/// What the kernels unpack: the head size is at most 256.
std::uint32_t shape_word(const Inputs& in, bool causal, bool packed = false) {
  return vulkan::word(in.heads_per_group()) | vulkan::word(in.size) << 16 | vulkan::word(packed) << 30 |
         vulkan::word(causal) << 31;
}

/// A workgroup a block of rows, head and batch; false beyond what a grid holds.
bool fits_grid(const Inputs& in) { return in.heads <= 65535 && in.batch <= 65535; }
std::array<std::uint32_t, 3> grid(std::int64_t rows, std::int64_t heads, std::int64_t batch,
                                  std::int64_t tile = kTile) {
  return {vulkan::word(ceil_div(rows, tile)), vulkan::word(heads), vulkan::word(batch)};
}

std::uint32_t mask_dtype(const Tensor& mask) { return mask.defined() ? vulkan::word(mask.dtype()) : kNoMask; }

/// Steps of a sum that plain kernels unroll. A software rasterizer would compile for long what it hardly runs faster.
std::uint32_t unrolled(Device device) {
  for (const AdapterInfo& a : adapters()) {
    if (a.device == device) return a.kind == "software" ? 4 : 16;
  }
  return 16;
}

const gpu::Shader& by_size(std::int64_t size, const gpu::Shader& to_64, const gpu::Shader& above) {
  return size <= 64 ? to_64 : above;
}

/// inputs() with a mask that kernels read.
Inputs device_inputs(const OpCall& call) {
  Inputs in = inputs(call);
  if (in.mask.defined() && in.mask.dtype() == f64) in.mask = in.mask.to(f32);
  return in;
}

/// @param packed the result's heads lie side by side
void forward(const OpCall& call, const Inputs& in, bool packed, std::span<Tensor> out) {
  auto attributes = call.as<Attributes>();
  ForwardPush push{};
  push.q = in.q.address(), push.k = in.k.address(), push.v = in.v.address();
  push.mask = vulkan::address_or_zero(in.mask);
  push.y = out[0].address(), push.logsumexp = out[1].address();
  push.q_strides = strides_of(in.q), push.k_strides = strides_of(in.k), push.v_strides = strides_of(in.v);
  for (int d = 0; d < 4; ++d) push.mask_strides[d] = in.mask.defined() ? vulkan::word(in.mask.strides()[d]) : 0;
  push.queries = vulkan::word(in.queries), push.keys = vulkan::word(in.keys),
  push.shape = shape_word(in, attributes.causal, packed);
  push.scale = static_cast<float>(attributes.scale);
  if (auto kernel = matrix_kernel(Pass::forward, in, attributes.scale, mask_dtype(in.mask), {&in.q, &in.k, &in.v})) {
    vulkan::launch(*kernel->shader, call,
                   {kernel->threads(), kernel->subgroups, kernel->rows, kernel->blocks, kernel->columns, kernel->m,
                    kernel->mask_dtype},
                   push, grid(in.queries, in.heads, in.batch, kernel->tile()), {&in.q, &in.k, &in.v, &in.mask},
                   {&out[0], &out[1]});
    return;
  }
  vulkan::launch(by_size(in.size, shaders::attention_64, shaders::attention_128), call,
                 {vulkan::word(out[0].dtype()), width(in.size, {&in.q, &in.k, &in.v}), mask_dtype(in.mask),
                  unrolled(out[0].device())},
                 push, grid(in.queries, in.heads, in.batch), {&in.q, &in.k, &in.v, &in.mask}, {&out[0], &out[1]});
}

/// Σ y · dy of each row, f32 [B, H, T].
Tensor sum_rows(const OpCall& call, const Inputs& in, const Tensor& y, const Tensor& dy) {
  std::int64_t count = in.batch * in.heads * in.queries;
  Tensor rows = empty({in.batch, in.heads, in.queries}, {f32, y.device()});
  RowsPush push{y.address(),
                dy.address(),
                rows.address(),
                strides_of(y),
                strides_of(dy),
                vulkan::word(in.queries),
                vulkan::word(in.heads),
                vulkan::word(in.size),
                vulkan::word(count)};
  vulkan::launch(shaders::attention_rows, call, {vulkan::word(y.dtype()), width(in.size, {&y, &dy})}, push,
                 vulkan::grid(ceil_div(count, 16)), {&y, &dy}, {&rows});
  return rows;
}

/// The gradients' kernels, but for what they write.
struct Backward {
  Backward(const OpCall& call, const Inputs& in, const Kept& kept) : call(call), in(in), kept(kept) {
    auto attributes = call.as<Attributes>();
    auto matrix = [&](Pass pass) {
      return matrix_kernel(pass, in, attributes.scale, mask_dtype(in.mask), {&in.q, &in.k, &in.v, &kept.dy});
    };
    dq = matrix(Pass::dq), dkv = matrix(Pass::dkv);
    // Plain kernels that meet a query in one tile only find its sum themselves.
    if ((dq && dkv) || in.queries > kTile || in.keys > kTile) rows = sum_rows(call, in, kept.y, kept.dy);
    push.q = in.q.address(), push.k = in.k.address(), push.v = in.v.address();
    push.mask = vulkan::address_or_zero(in.mask);
    push.dy = kept.dy.address(), push.y = (rows.defined() ? rows : kept.y).address(),
    push.logsumexp = kept.logsumexp.address();
    push.q_strides = strides_of(in.q), push.kv_strides = strides_of(in.k), push.dy_strides = strides_of(kept.dy);
    push.queries = vulkan::word(in.queries), push.keys = vulkan::word(in.keys),
    push.shape = shape_word(in, attributes.causal);
    push.scale = static_cast<float>(attributes.scale);
  }

  void launch(const gpu::Shader& shader, std::array<std::uint32_t, 3> groups,
              std::initializer_list<const Tensor*> writes) const {
    std::array<std::uint32_t, 4> s = mask_strides();
    vulkan::launch(shader, call,
                   {vulkan::word(kept.y.dtype()), width(in.size, {&in.q, &in.k, &in.v, &kept.dy}), mask_dtype(in.mask),
                    unrolled(kept.y.device()), s[0], s[1], s[2], s[3], vulkan::word(rows.defined())},
                   push, groups,
                   {&in.q, &in.k, &in.v, &in.mask, &kept.dy, rows.defined() ? &rows : &kept.y, &kept.logsumexp},
                   writes);
  }

  /// Both kernels on matrix units, where they fit: queries' gradients at dq, keys' at dk and dv, or all of them at dq, packed.
  bool on_matrix_units(Tensor& q_gradient, Tensor* k_gradient, Tensor* v_gradient) {
    if (!dq || !dkv) return false;
    bool packed = k_gradient == nullptr;
    push.shape = shape_word(in, call.as<Attributes>().causal, packed);
    push.gradient = q_gradient.address();
    launch(*dq, grid(in.queries, in.heads, in.batch, dq->tile()), {&q_gradient});
    if (!packed) push.gradient = k_gradient->address(), push.dv = v_gradient->address();
    launch(*dkv, grid(in.keys, in.groups, in.batch, dkv->tile()),
           {packed ? &q_gradient : k_gradient, packed ? nullptr : v_gradient});
    return true;
  }

  void launch(const MatrixKernel& k, std::array<std::uint32_t, 3> groups,
              std::initializer_list<const Tensor*> writes) const {
    std::array<std::uint32_t, 4> s = mask_strides();
    vulkan::launch(*k.shader, call,
                   {k.threads(), k.subgroups, k.rows, k.blocks, k.columns, k.m, k.mask_dtype, s[0], s[1], s[2], s[3]},
                   push, groups, {&in.q, &in.k, &in.v, &in.mask, &kept.dy, &rows, &kept.logsumexp}, writes);
  }

  std::array<std::uint32_t, 4> mask_strides() const {
    std::array<std::uint32_t, 4> s{};
    for (int d = 0; d < 4; ++d)
      s[static_cast<std::size_t>(d)] = in.mask.defined() ? vulkan::word(in.mask.strides()[d]) : 0;
    return s;
  }

  const OpCall& call;
  const Inputs& in;
  const Kept& kept;
  std::optional<MatrixKernel> dq, dkv;
  Tensor rows;  ///< where the kernels do not sum them
  BackwardPush push{};
};

}  // namespace

bool gpu_forward(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[1].numel() == 0) return true;
  Inputs in = device_inputs(call);
  if (!fits_grid(in)) return false;
  forward(call, in, false, out);
  return true;
}

bool gpu_self_forward(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[1].numel() == 0) return true;
  Inputs in = packed_inputs(call.in[0], call.as<Attributes>());
  if (!fits_grid(in)) return false;
  forward(call, in, true, out);
  return true;
}

bool gpu_backward(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[0].numel() == 0 || out[1].numel() == 0) {
    for (Tensor& gradient : out) gradient.zero_();
    return true;
  }
  Inputs in = device_inputs(call);
  if (!fits_grid(in)) return false;
  if (in.k.strides() != in.v.strides()) in.k = in.k.contiguous(), in.v = in.v.contiguous();  // kernels know one set
  Kept kept{merge_leading(call.in[4].contiguous(), in.batch), call.in[5].contiguous(),
            merge_leading(call.in[6].to(in.q.dtype()), in.batch)};
  Backward run(call, in, kept);
  if (run.on_matrix_units(out[0], &out[1], &out[2])) return true;
  run.push.gradient = out[0].address();
  run.launch(by_size(in.size, shaders::attention_dq_64, shaders::attention_dq_128),
             grid(in.queries, in.heads, in.batch), {&out[0]});
  run.push.gradient = out[1].address(), run.push.dv = out[2].address();
  run.launch(by_size(in.size, shaders::attention_dkv_64, shaders::attention_dkv_128),
             grid(in.keys, in.groups, in.batch), {&out[1], &out[2]});
  return true;
}

bool gpu_self_backward(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[0].numel() == 0) return true;
  Inputs in = packed_inputs(call.in[0], call.as<Attributes>());
  if (!fits_grid(in)) return false;
  Kept kept{heads_of(call.in[1].contiguous(), in.batch, in.heads), call.in[2].contiguous(),
            merge_leading(heads_of(call.in[3].to(in.q.dtype()), in.batch, in.heads), in.batch)};
  Backward run(call, in, kept);
  if (run.on_matrix_units(out[0], nullptr, nullptr)) return true;
  run.push.gradient = out[0].address();
  auto groups = grid(in.queries, in.heads, in.batch);
  groups[0] *= 2;  // tiles of keys, then as many of queries
  run.launch(by_size(in.size, shaders::attention_dqkv_64, shaders::attention_dqkv_128), groups, {&out[0]});
  return true;
}

}  // namespace etna::attention
