#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/internal/attention.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// Attention with a sink: a score of each head that takes part in the softmax and has no value. The result is that
// without it, times what the keys have of the weights, sigmoid(logsumexp - sink). Since the sink's value is 0, the
// gradients of q, k and v follow from this result and from a logsumexp that has the sink, by the same kernels.
namespace etna {
namespace {

using AttentionAttrs = attention::AttentionAttrs;

constexpr const char* kSinkAttentionName = "sink_attention";
enum BackwardInput { kResult = 5, kLogsumexp, kGradient, kBackwardSinks };
constexpr std::size_t kForwardSinks = 5;

std::vector<OutputSpec> sink_attention_infer(const OpCall& call) {
  std::vector<OutputSpec> specs = attention::infer(call);
  attention::checked_sinks(call.in[kForwardSinks], call.in[0].size(-3));
  return specs;
}

/// In the accumulation dtype.
attention::Operands sink_operands(const OpCall& call, const Tensor& sinks) {
  const DType rows = attention::row_dtype(call.in[0].dtype());
  return {call.in[0].to(rows), call.in[1].to(rows), call.in[2].to(rows), call.in[3], call.in[4], sinks.to(rows)};
}

TensorList sink_attention_reference(const OpCall& call) {
  const auto attributes = call.as<AttentionAttrs>();
  const attention::Operands in = sink_operands(call, call.in[kForwardSinks]);
  return {attention::composed(in, attributes).to(call.in[0].dtype()), attention::composed_logsumexp(in, attributes)};
}

void sink_attention_cpu(const OpCall& call, std::span<Tensor> out) {
  attention::forward_cpu(call, out);
  attention::add_sinks_cpu(out[0], out[1], call.in[kForwardSinks].to(out[1].dtype()).contiguous());
}

bool sink_attention_gpu(const OpCall& call, std::span<Tensor> out) {
  if (!attention::forward_gpu(call, out)) return false;
  attention::add_sinks_gpu(call, out[0], out[1], call.in[kForwardSinks].to(f32).contiguous());
  return true;
}

std::vector<OutputSpec> sink_attention_backward_infer(const OpCall& call) {
  std::vector<OutputSpec> specs;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{kBackwardSinks}})
    specs.push_back({call.in[i].shape(), call.in[i].dtype()});
  return specs;
}

/// Of the inputs and the gradient only, not of what forward saved, so that it can be differentiated.
TensorList sink_attention_backward_reference(const OpCall& call) {
  const DType t = call.in[0].dtype(), rows = attention::row_dtype(t);
  const Tensor& sinks = call.in[kBackwardSinks];
  const TensorList grads =
      attention::composed_gradients(sink_operands(call, sinks), call.in[kGradient].to(rows), call.as<AttentionAttrs>());
  return {grads[0].to(t), grads[1].to(t), grads[2].to(t), grads[4].to(sinks.dtype())};
}

/// The sink's share of the weights, times the mean gradient of all weights, of all rows of a head.
void write_sink_gradient(const OpCall& call, Tensor& out) {
  const DType rows = attention::row_dtype(call.in[0].dtype());
  const Tensor mean = sum(call.in[kResult].to(rows) * call.in[kGradient].to(rows), {-1});
  const Tensor share = exp(call.in[kBackwardSinks].to(rows).unsqueeze(-1) - call.in[kLogsumexp]);
  out.copy_(-sum_to(share * mean, {call.in[0].size(-3), 1}).squeeze(-1));
}

void sink_attention_backward_cpu(const OpCall& call, std::span<Tensor> out) {
  attention::backward_cpu(call, out.first(3));
  write_sink_gradient(call, out[3]);
}

bool sink_attention_backward_gpu(const OpCall& call, std::span<Tensor> out) {
  if (!attention::backward_gpu(call, out.first(3))) return false;
  write_sink_gradient(call, out[3]);
  return true;
}

const OpDef kSinkAttentionBackward = {.name = "sink_attention_backward",
                                      .infer = sink_attention_backward_infer,
                                      .cpu = sink_attention_backward_cpu,
                                      .gpu = sink_attention_backward_gpu,
                                      .reference = sink_attention_backward_reference};

TensorList sink_attention_vjp(const VjpCall& call) {
  TensorList grads(6);
  if (!call.grad[0].defined()) return grads;
  const auto& in = call.in;
  const TensorList found =
      apply(kSinkAttentionBackward,
            {in[0], in[1], in[2], in[3], in[4], call.out[0], call.out[1], call.grad[0], in[kForwardSinks]}, call.attrs);
  for (std::size_t i = 0; i < 3; ++i)
    if (call.needs[i]) grads[i] = found[i];
  if (call.needs[3]) {
    const OpCall forward{call.op, in, call.attrs};
    const attention::Operands operands = sink_operands(forward, in[kForwardSinks]);
    grads[3] =
        attention::composed_gradients(operands, call.grad[0].to(operands.q.dtype()), call.as<AttentionAttrs>())[3];
  }
  if (call.needs[kForwardSinks]) grads[kForwardSinks] = found[3];
  return grads;
}

const OpDef kSinkAttention = {.name = kSinkAttentionName,
                              .infer = sink_attention_infer,
                              .cpu = sink_attention_cpu,
                              .gpu = sink_attention_gpu,
                              .reference = sink_attention_reference,
                              .vjp = sink_attention_vjp,
                              .saved = Saved::both};

/// max(a, b) + ln(1 + e^-|a - b|), also where a is -inf.
template <typename T>
T log_of_sum(T a, T b) {
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

template <typename T>
void add_sinks(Tensor& y, Tensor& logsumexp, const Tensor& sinks) {
  const std::int64_t size = y.size(-1), queries = y.size(-2), heads = y.size(-3);
  T* lse = logsumexp.host<T>();
  const T* sink = sinks.host<T>();
  const std::int64_t grain = std::max<std::int64_t>(1, rows::kGrain / std::max<std::int64_t>(1, size));
  cpu::parallel_for(logsumexp.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> row(static_cast<std::size_t>(size));
    for (std::int64_t r = begin; r < end; ++r) {
      const T own = sink[r / queries % heads], factor = 1 / (1 + std::exp(own - lse[r]));
      const T* from = rows::read(y, r * size, 1, size, row.data());
      for (std::int64_t i = 0; i < size; ++i) row[static_cast<std::size_t>(i)] = from[i] * factor;
      rows::write(y, r * size, 1, size, row.data());
      lse[r] = log_of_sum(lse[r], own);
    }
  });
}

}  // namespace

const Tensor& attention::checked_sinks(const Tensor& sinks, std::int64_t heads) {
  if (!is_floating(sinks.dtype()))
    throw DtypeError(
        fmt::format("{}: sinks hold {}; wanted a floating dtype", kSinkAttentionName, name(sinks.dtype())));
  if (sinks.shape() != Shape{heads})
    throw ShapeError(fmt::format("{}: the sinks are {}; wanted [{}], one for each head", kSinkAttentionName,
                                 str(sinks.shape()), heads));
  return sinks;
}

void attention::add_sinks_cpu(Tensor& y, Tensor& logsumexp, const Tensor& sinks) {
  if (logsumexp.dtype() == f64)
    add_sinks<double>(y, logsumexp, sinks);
  else
    add_sinks<float>(y, logsumexp, sinks);
}

void attention::add_sinks_gpu(const OpCall& call, Tensor& y, Tensor& logsumexp, const Tensor& sinks) {
  if (logsumexp.numel() == 0) return;
  const std::int64_t size = y.size(-1);
  gpu::Kernel(shaders::attention_sinks, call)
      .spec(y.dtype(), size % 4 == 0 && y.address() % (4 * item_size(y.dtype())) == 0 ? 4 : 1)
      .read_write(y)
      .read_write(logsumexp)
      .read(sinks)
      .u32(y.size(-2), y.size(-3), size, logsumexp.numel())
      .dispatch(gpu::grid(logsumexp.numel(), 16));
}

Tensor attention::fused_with_sinks(const Tensor& q, const Tensor& k, const Tensor& v, const Extras& extras,
                                   const AttentionAttrs& attributes) {
  return apply1(kSinkAttention, {q, k, v, extras.mask, extras.documents, extras.sinks}, Attrs::of(attributes));
}

std::span<const OpDef* const> ops_in_sinks() {
  static const OpDef* const list[] = {&kSinkAttention, &kSinkAttentionBackward};
  return list;
}

}  // namespace etna
