#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/internal/gradients.h>
#include <etna/tensor/ops/quantized/internal/fusion.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>

// quantized_linear: matmul with weights in block formats (tensor/quant/).
namespace etna::quantized {
namespace {

/// @param expected shape, if `given` is defined
void linear_check(const OpCall& call, const char* what, const Tensor& given, const Shape& expected) {
  if (!given.defined()) return;
  if (!is_floating(given.dtype()))
    throw DtypeError(fmt::format("{}: {} is {}; wanted a floating dtype", call.op.name, what, name(given.dtype())));
  if (given.shape() != expected) {
    throw ShapeError(fmt::format("{}: {} is {}; wanted {}", call.op.name, what, str(given.shape()), str(expected)));
  }
}

std::vector<OutputSpec> quantized_linear_infer(const OpCall& call) {
  const auto a = call.as<LinearAttrs>();
  const Tensor& x = call.in[kX];
  if (!a.in_bytes && !is_floating(x.dtype()))
    throw DtypeError(fmt::format("{}: x is {}; wanted a floating dtype", call.op.name, name(x.dtype())));
  Shape shape = x.shape();
  shape.back() = a.columns();
  linear_check(call, "the bias", call.in[kBias], {a.rows[0] + a.rows[1] + a.rows[2]});
  linear_check(call, "the norm's weight", call.in[kNorm], {columns_of_x(x, a)});
  linear_check(call, "the residual", call.in[kResidual], shape);
  linear_check(call, "the next norm's weight", call.in[kNextNorm], {a.columns()});
  if (!is_floating(a.dtype))
    throw DtypeError(fmt::format("{}: the result is {}; wanted a floating dtype", call.op.name, name(a.dtype)));
  std::vector<OutputSpec> out{{shape, a.dtype}};
  if (!a.next) return out;
  if (a.next == i8) {
    for (int i = 0; i < a.weights; ++i) {
      if (a.rows[i] % kActivationBlock != 0) {
        throw ShapeError(fmt::format("{}: a weight has {} rows; a result quantized to bytes needs a multiple of {}",
                                     call.op.name, a.rows[i], kActivationBlock));
      }
    }
    shape.back() = activation_bytes(shape.back());
  }
  out.push_back({shape, a.next == i8 ? u8 : *a.next});
  out.push_back({Shape{a.next == f16 ? 1 : 0}, f32});
  return out;
}

/// In f64 if x is, for tests.
TensorList quantized_linear_reference(const OpCall& call) {
  const auto a = call.as<LinearAttrs>();
  const Tensor &given = call.in[kX], &residual = call.in[kResidual], bias = joined_bias(call, a);
  const DType row = given.dtype() == f64 ? f64 : f32;
  Tensor x = a.in_bytes || call.in[kFactor].defined()
                 ? numbers_of({given, call.in[kFactor], a.in_bytes, a.normed}, a.eps)
                 : given.to(row);
  if (call.in[kNorm].defined()) x = rms_norm(x, call.in[kNorm].to(row), a.eps);
  std::vector<Tensor> parts;
  std::int64_t at = 0;
  for (int i = 0; i < a.weights; ++i) {
    const Tensor w =
        dequantized(call.in[static_cast<std::size_t>(kBlocks + i)], {a.rows[i], x.size(-1), a.format[i], row});
    parts.push_back(linear(x, w, bias.defined() ? bias.to(row).slice(0, at, at + a.rows[i]) : Tensor()));
    at += a.rows[i];
  }
  Tensor y = a.gate != Activation::none ? activate(parts[0], a.gate) * parts[1]
             : parts.size() == 1        ? parts[0]
                                        : cat(parts, -1);
  if (residual.defined()) y = y + residual.to(row);
  TensorList out{y.to(a.dtype)};
  if (!a.next) return out;
  const TensorList next = quantize_reference(y, call.in[kNextNorm], *a.next, a.next_eps);
  out.insert(out.end(), next.begin(), next.end());
  return out;
}

/// Of a product without fused neighbors. Weights have no gradient, and are decoded to x's dtype for that of x.
TensorList quantized_linear_vjp(const VjpCall& call) {
  const auto a = call.as<LinearAttrs>();
  const Tensor &x = call.in[kX], &g = call.grad[0];
  TensorList grads(kLinearInputs);
  if (!g.defined()) return grads;
  if (call.needs[kX]) {
    TensorList weights;
    for (int i = 0; i < a.weights; ++i) {
      const Tensor& blocks = call.in[static_cast<std::size_t>(kBlocks + i)];
      weights.push_back(dequantized(blocks, {a.rows[i], x.size(-1), a.format[i], x.dtype()}));
    }
    grads[kX] = matmul(g.to(x.dtype()), weights.size() == 1 ? weights[0] : cat(weights));
  }
  std::int64_t at = 0;
  for (int i = 0; i < a.weights; at += a.rows[i++]) {
    const auto place = static_cast<std::size_t>(i == 0 ? static_cast<int>(kBias) : kMoreBiases + i - 1);
    if (call.needs[place]) grads[place] = gemm::bias_gradient(g.slice(-1, at, at + call.in[place].size(0)));
  }
  return grads;
}

/// Runs the call with one bias for all weights.
template <typename Run>
auto with_joined_bias(const OpCall& call, Run&& run) {
  const auto separate = call.in.subspan(kMoreBiases);
  if (std::none_of(separate.begin(), separate.end(), [](const Tensor& b) { return b.defined(); })) return run(call);
  TensorList in(call.in.begin(), call.in.end());
  in[kBias] = joined_bias(call, call.as<LinearAttrs>());
  for (std::size_t i = kMoreBiases; i < kLinearInputs; ++i) in[i] = Tensor();
  return run(OpCall{call.op, in, call.attrs});
}

void quantized_linear_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<LinearAttrs>();
  if (a.in_bytes || call.in[kFactor].defined() || a.next) {
    const TensorList results = quantized_linear_reference(call);
    for (std::size_t i = 0; i < out.size(); ++i) out[i].copy_(results[i]);
    return;
  }
  with_joined_bias(call, [&](const OpCall& joined) { linear_cpu(joined, out); });
}

bool quantized_linear_gpu(const OpCall& call, std::span<Tensor> out) {
  return with_joined_bias(call, [&](const OpCall& joined) { return linear_gpu(joined, out); });
}

/// The attributes of weights, checked against x [..., K]; writes their blocks to `in`.
LinearAttrs linear_attrs(const Shape& x, std::span<const QuantizedTensor> weights, Activation gate, TensorList& in) {
  constexpr const char* kName = "quantized_linear";
  if (weights.empty() || weights.size() > kMostWeights)
    throw ShapeError(fmt::format("{}: got {} weights; wanted 1 to {}", kName, weights.size(), kMostWeights));
  LinearAttrs a;
  a.gate = gate;
  a.weights = static_cast<std::uint8_t>(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    require_table(kName, "a weight", weights[i]);
    if (x.rank() == 0 || weights[i].size(1) != x.back()) {
      throw ShapeError(fmt::format("{}: x is {}, a weight is {}; their last sizes must be equal", kName, str(x),
                                   str(weights[i].shape())));
    }
    a.rows[i] = weights[i].size(0);
    a.format[i] = place_of(weights[i].format());
    in[kBlocks + i] = weights[i].blocks();
  }
  if (gate != Activation::none && (weights.size() != 2 || a.rows[0] != a.rows[1]))
    throw ShapeError(fmt::format("{}: a gate takes two weights of the same shape", kName));
  return a;
}

// Gated matmuls with any activation: either one may be called first, and a further matmul may read the result.
#define ETNA_ACTIVATION(number, name, ...) #name "|"
constexpr char kGated[] =
    "rms_norm? quantized_linear "
#include <etna/tables/activations.def>
    " &quantized_linear mul";
constexpr char kGatedThenProduct[] =
    "rms_norm? quantized_linear "
#include <etna/tables/activations.def>
    " &quantized_linear mul quantized_linear";
constexpr char kProductsThenGate[] =
    "rms_norm? quantized_linear &quantized_linear ^"
#include <etna/tables/activations.def>
    " mul";
constexpr char kProductsThenGateThenProduct[] =
    "rms_norm? quantized_linear &quantized_linear ^"
#include <etna/tables/activations.def>
    " mul quantized_linear";
#undef ETNA_ACTIVATION

constexpr FusionPattern kPatterns[] = {
    {"rms_norm? quantized_linear add rms_norm quantized_linear", fuse},
    {"rms_norm? quantized_linear add", fuse},
    {kGatedThenProduct, fuse},
    {kProductsThenGateThenProduct, fuse},
    {kGated, fuse},
    {kProductsThenGate, fuse},
    {"rms_norm? quantized_linear &quantized_linear &quantized_linear? &quantized_linear? cat", fuse},
    {"rms_norm quantized_linear", fuse_norm},
    {"gated_rms_norm ~quantized_linear", fuse_gated_norm},
    {"cast ~quantized_linear", fuse_cast},
};

}  // namespace

const OpDef kQuantizedLinear = {.name = "quantized_linear",
                                .infer = quantized_linear_infer,
                                .cpu = quantized_linear_cpu,
                                .gpu = quantized_linear_gpu,
                                .reference = quantized_linear_reference,
                                .vjp = quantized_linear_vjp,
                                .saved = Saved::inputs,
                                .saved_inputs = ((1u << kMostWeights) - 1) << kBlocks,
                                .replaces = kPatterns,
                                .read_form = read_form};

namespace {

/// The same op with a norm, a gate or a residual, which is differentiated through its reference.
const OpDef& with_neighbors() {
  static const OpDef op = [] {
    OpDef same = kQuantizedLinear;
    same.vjp = nullptr;
    return same;
  }();
  return op;
}

}  // namespace

Tensor joined_bias(const OpCall& call, const LinearAttrs& a) {
  const auto bias_of = [&](int i) {
    return call.in[static_cast<std::size_t>(i == 0 ? static_cast<int>(kBias) : kMoreBiases + i - 1)];
  };
  std::vector<Tensor> all;
  bool any = false;
  for (int i = 1; i < a.weights; ++i) any = any || bias_of(i).defined();
  if (!any && (!bias_of(0).defined() || bias_of(0).size(0) != a.rows[0] || a.weights == 1)) return bias_of(0);
  DType dtype = f32;
  for (int i = 0; i < a.weights; ++i)
    if (bias_of(i).defined()) dtype = bias_of(i).dtype();
  bool adjacent = true;
  for (int i = 0; i < a.weights; ++i) {
    const Tensor own = bias_of(i);
    all.push_back(own.defined() ? own.to(dtype) : zeros({a.rows[i]}, {dtype, call.in[kX].device()}));
    const Tensor &first = all.front(), &last = all.back();
    adjacent = adjacent && last.is_contiguous() && last.storage() == first.storage() &&
               (i == 0 || last.offset() == all[all.size() - 2].offset() + all[all.size() - 2].numel());
  }
  if (!adjacent) return cat(all);
  return detail::make_view(all[0].storage(), all[0].device(), dtype, {a.rows[0] + a.rows[1] + a.rows[2]}, {1},
                           all[0].offset());
}

LinearResult linear(const ActivationRows& x, std::span<const QuantizedTensor> weights, const LinearOptions& options) {
  detail::require_defined("quantized_linear", x.data);
  TensorList in(kLinearInputs);
  const Shape shape = x.shape();
  LinearAttrs a = linear_attrs(shape, weights, options.gate, in);
  in[kX] = x.data;
  in[kBias] = options.bias;
  in[kNorm] = options.norm;
  in[kResidual] = options.residual;
  in[kFactor] = x.factor;
  in[kNextNorm] = options.next_norm;
  a.dtype = options.dtype.value_or(x.in_bytes || x.factor.defined() ? f32 : x.data.dtype());
  a.in_bytes = x.in_bytes;
  a.normed = x.normed;
  a.next = options.next;
  a.eps = options.eps;
  a.next_eps = options.next_eps;
  const bool plain = !options.norm.defined() && !options.residual.defined() && options.gate == Activation::none &&
                     !options.next && !x.in_bytes && !x.factor.defined();
  const TensorList out = apply(plain ? kQuantizedLinear : with_neighbors(), in, Attrs::of(a));
  LinearResult result{out[0], {}};
  if (a.next)
    result.next = {out[1], a.next == f16 ? out[2] : Tensor(), a.next == i8,
                   a.next == i8 && options.next_norm.defined()};
  return result;
}

}  // namespace etna::quantized

namespace etna {

Tensor quantized_linear(const Tensor& x, std::span<const QuantizedTensor> weights,
                        const QuantizedLinearOptions& options) {
  return quantized::linear(x, weights, {.bias = options.bias, .dtype = options.dtype}).y;
}

Tensor quantized_linear(const Tensor& x, const QuantizedTensor& weight, const QuantizedLinearOptions& options) {
  return quantized_linear(x, std::span(&weight, 1), options);
}

std::span<const OpDef* const> ops_in_quantized_linear() {
  static const OpDef* const list[] = {&quantized::kQuantizedLinear};
  return list;
}

}  // namespace etna
