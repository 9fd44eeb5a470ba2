#include <etna/shaders/shaders.h>
#include <etna/tensor/attention/attention.h>
#include <etna/tensor/vulkan.h>

namespace etna::attention {
namespace {

constexpr std::int64_t kTile = 64;  ///< queries and keys a workgroup handles at a time, as in shaders/lib/attention.glsl
constexpr std::uint32_t kNoMask = 99;

struct Strides3 {
  std::uint32_t batch, head, row;
};
Strides3 strides_of(const Tensor& x) {
  return {vulkan::word(x.strides()[0]), vulkan::word(x.strides()[1]), vulkan::word(x.strides()[2])};
}

struct ForwardPush {
  std::uint64_t q, k, v, mask, y, logsumexp;
  Strides3 q_strides, k_strides, v_strides;
  std::uint32_t mask_strides[4];
  std::uint32_t queries, keys, batch;
  float scale;
};
static_assert(sizeof(ForwardPush) == 120);

struct BackwardPush {
  std::uint64_t q, k, v, mask, dy, rows, dk_or_dq, dv;
  Strides3 q_strides, k_strides, v_strides, dy_strides;
  std::uint32_t queries, keys, batch;
  float scale;
};
static_assert(sizeof(BackwardPush) == 128);

struct RowsPush {
  std::uint64_t y, dy, logsumexp, rows;
  Strides3 dy_strides;
  std::uint32_t queries, count, unused = 0;
};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Elements of a row that may be loaded at once, from every operand.
std::uint32_t width(std::int64_t size, std::initializer_list<const Tensor*> operands) {
  for (std::uint32_t w : {4u, 2u}) {
    bool fits = size % w == 0;
    for (const Tensor* x : operands) {
      fits = fits && x->address() % (w * item_size(x->dtype())) == 0;
      for (int d = 0; d < 3; ++d) fits = fits && x->strides()[d] % w == 0;
    }
    if (fits) return w;
  }
  return 1;
}

std::uint32_t mask_dtype(const Tensor& mask) { return mask.defined() ? vulkan::word(mask.dtype()) : kNoMask; }

const vulkan::Shader& by_size(std::int64_t size, const vulkan::Shader& to_64, const vulkan::Shader& to_128, const vulkan::Shader& to_256) {
  return size <= 64 ? to_64 : size <= 128 ? to_128 : to_256;
}

/// inputs() with a mask that kernels read.
Inputs device_inputs(const OpCall& call) {
  Inputs in = inputs(call);
  if (in.mask.defined() && in.mask.dtype() == f64) in.mask = in.mask.to(f32);
  return in;
}

}  // namespace

bool vulkan_forward(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[1].numel() == 0) return true;
  Inputs in = device_inputs(call);
  auto attributes = call.as<Attributes>();
  ForwardPush push{};
  push.q = in.q.address(), push.k = in.k.address(), push.v = in.v.address();
  push.mask = vulkan::address_or_zero(in.mask);
  push.y = out[0].address(), push.logsumexp = out[1].address();
  push.q_strides = strides_of(in.q), push.k_strides = strides_of(in.k), push.v_strides = strides_of(in.v);
  for (int d = 0; d < 4; ++d) push.mask_strides[d] = in.mask.defined() ? vulkan::word(in.mask.strides()[d]) : 0;
  push.queries = vulkan::word(in.queries), push.keys = vulkan::word(in.keys), push.batch = vulkan::word(in.batch);
  push.scale = static_cast<float>(attributes.scale);
  vulkan::launch(by_size(in.size, shaders::attention_64, shaders::attention_128, shaders::attention_256), call,
                 {vulkan::word(out[0].dtype()), vulkan::word(in.size), vulkan::word(in.heads), vulkan::word(in.groups),
                  width(in.size, {&in.q, &in.k, &in.v}), vulkan::word(attributes.causal), mask_dtype(in.mask)},
                 push, vulkan::grid(in.batch * in.heads * ceil_div(in.queries, kTile)), {&in.q, &in.k, &in.v, &in.mask},
                 {&out[0], &out[1]});
  return true;
}

bool vulkan_backward(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[0].numel() == 0 || out[1].numel() == 0) {
    for (Tensor& gradient : out) gradient.zero_();
    return true;
  }
  Inputs in = device_inputs(call);
  auto attributes = call.as<Attributes>();
  Tensor y = call.in[4].contiguous(), logsumexp = call.in[5].contiguous(), dy = merge_leading(call.in[6].to(in.q.dtype()), in.batch);
  std::int64_t count = in.batch * in.heads * in.queries;
  Tensor rows = empty({count, 2}, {f32, y.device()});
  RowsPush rows_push{y.address(),    dy.address(), logsumexp.address(), rows.address(), strides_of(dy), vulkan::word(in.queries),
                     vulkan::word(count)};
  vulkan::launch(shaders::attention_rows, call, {vulkan::word(y.dtype()), vulkan::word(in.size), vulkan::word(in.heads)}, rows_push,
                 vulkan::grid(ceil_div(count, 32)), {&y, &dy, &logsumexp}, {&rows});

  BackwardPush push{};
  push.q = in.q.address(), push.k = in.k.address(), push.v = in.v.address();
  push.mask = vulkan::address_or_zero(in.mask);
  push.dy = dy.address(), push.rows = rows.address(), push.dk_or_dq = out[0].address();
  push.q_strides = strides_of(in.q), push.k_strides = strides_of(in.k), push.v_strides = strides_of(in.v);
  push.dy_strides = strides_of(dy);
  push.queries = vulkan::word(in.queries), push.keys = vulkan::word(in.keys), push.batch = vulkan::word(in.batch);
  push.scale = static_cast<float>(attributes.scale);
  std::uint32_t s[4] = {};
  for (int d = 0; d < 4; ++d) s[d] = in.mask.defined() ? vulkan::word(in.mask.strides()[d]) : 0;
  std::uint32_t dtype = vulkan::word(y.dtype()), w = width(in.size, {&in.q, &in.k, &in.v, &dy});
  auto launch = [&](const vulkan::Shader& shader, std::int64_t groups, std::initializer_list<const Tensor*> writes) {
    vulkan::launch(shader, call,
                   {dtype, vulkan::word(in.size), vulkan::word(in.heads), vulkan::word(in.groups), w, vulkan::word(attributes.causal),
                    mask_dtype(in.mask), s[0], s[1], s[2], s[3]},
                   push, vulkan::grid(groups), {&in.q, &in.k, &in.v, &in.mask, &dy, &rows}, writes);
  };
  launch(by_size(in.size, shaders::attention_dq_64, shaders::attention_dq_128, shaders::attention_dq_256),
         in.batch * in.heads * ceil_div(in.queries, kTile), {&out[0]});
  push.dk_or_dq = out[1].address(), push.dv = out[2].address();
  launch(by_size(in.size, shaders::attention_dkv_64, shaders::attention_dkv_128, shaders::attention_dkv_256),
         in.batch * in.groups * ceil_div(in.keys, kTile), {&out[1], &out[2]});
  return true;
}

}  // namespace etna::attention
