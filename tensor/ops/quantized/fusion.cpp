#include <etna/tensor/ops/quantized/internal/fusion.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include <etna/tensor/internal/kernels.h>
#include <etna/tensor/ops/elementwise/internal/elementwise.h>
#include <etna/tensor/ops/normalization/internal/norm.h>

namespace etna::quantized {
namespace {

using fusion::Call;
using fusion::Calls;
using fusion::Fused;

/// The attributes of a Form of activations.
struct FormAttrs {
  bool in_bytes = false, normed = false;
  double eps = 0;
};

bool is(const Call& call, std::string_view name) { return call.op->name == name; }

bool refuse(Fused& fused, const char* why) {
  fused.why = why;
  return false;
}

LinearAttrs attrs_of(const Call& matmul) { return matmul.attrs.as<LinearAttrs>(); }

std::int64_t rows_of(const Call& matmul) {
  const std::int64_t columns = attrs_of(matmul).columns();
  return columns == 0 ? 0 : matmul.out[0].numel() / columns;
}

/// The weights of a quantized_linear call.
std::vector<QuantizedTensor> weights_of(const TensorList& in, const LinearAttrs& a) {
  std::vector<QuantizedTensor> weights;
  weights.reserve(a.weights);
  for (int i = 0; i < a.weights; ++i) {
    weights.emplace_back(a.block_format(i), Shape{a.rows[i], columns_of_x(in[kX], a)},
                         in[static_cast<std::size_t>(kBlocks + i)]);
  }
  return weights;
}

/// Whether a call is a matmul with one weight and nothing fused, as quantized_linear() records it; x may have any form.
bool is_plain(const Call& matmul) {
  const auto a = attrs_of(matmul);
  return a.weights == 1 && a.gate == Activation::none && !a.next && !matmul.in[kNorm].defined() &&
         !matmul.in[kResidual].defined();
}

/// Whether a norm can be fused into the matmul that follows it.
bool is_of_rows(const Call& norm) {
  const Tensor& weight = norm.in[1];
  return weight.defined() && is_floating(weight.dtype()) && norm.out[0].dtype() == norm.in[0].dtype() &&
         normalization::reads_only_first(norm, norm.in[0]);
}

/// The calls of a pattern by role; null if the pattern lacks one.
struct Parts {
  const Call *norm = nullptr, *activation = nullptr, *joins = nullptr, *next_norm = nullptr, *next = nullptr;
  std::vector<const Call*> matmuls;
  std::size_t joins_at = 0;

  explicit Parts(Calls calls) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const Call& call = calls[i];
      if (is(call, "rms_norm"))
        (i == 0 ? norm : next_norm) = &call;
      else if (is(call, "quantized_linear"))
        joins == nullptr ? matmuls.push_back(&call) : void(next = &call);
      else if (is(call, "mul") || is(call, "cat") || is(call, "add"))
        joins = &call, joins_at = i;
      else
        activation = &call;
    }
  }
  const Call& first() const { return *matmuls.front(); }
};

bool all_dead(Calls calls, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    const Tensor& x = calls[i].out[0];
    // Either of two factors may be read by a call that is not the next one.
    if (x.impl_ptr().use_count() != 2 || x.storage().use_count() != 1) return false;
  }
  return true;
}

/// Merges matmuls into one call in `fused`, which takes x and bias from the first one.
bool merge_matmuls(const Parts& parts, const std::vector<const Call*>& matmuls, Fused& fused) {
  const Call& first = *matmuls.front();
  LinearAttrs a = attrs_of(first);
  fused.in = first.in;
  for (std::size_t i = 0; i < matmuls.size(); ++i) {
    const Call& matmul = *matmuls[i];
    const LinearAttrs own = attrs_of(matmul);
    if (!is_plain(matmul)) return refuse(fused, "a matmul is already fused with others");
    if (matmul.in[kX].impl() != first.in[kX].impl() || own.dtype != a.dtype || own.in_bytes != a.in_bytes)
      return refuse(fused, "the matmuls read different activations, or have different dtypes");
    a.rows[i] = own.rows[0];
    a.format[i] = own.format[0];
    fused.in[kBlocks + i] = matmul.in[kBlocks];
    if (i > 0) fused.in[kMoreBiases + i - 1] = matmul.in[kBias];
  }
  a.weights = static_cast<std::uint8_t>(matmuls.size());
  if (parts.norm != nullptr) {
    const Call& norm = *parts.norm;
    if (!is_of_rows(norm) || first.in[kX].impl() != norm.out[0].impl())
      return refuse(fused, "the norm has no weight, or a dtype other than x's");
    if (norm.out[0].requires_grad()) return refuse(fused, "a gradient needs the norm's result");
    fused.in[kX] = norm.in[0];
    fused.in[kNorm] = norm.in[1];
    a.eps = norm.attrs.as<normalization::NormAttrs>().eps;
    fused.later.push_back(norm);
  }
  fused.attrs = Attrs::of(a);
  return true;
}

bool fuse_gated(Calls calls, const Parts& parts, Fused& fused) {
  const bool second = parts.matmuls.size() == 2 && parts.activation->in[0].impl() == parts.matmuls[1]->out[0].impl();
  if (parts.matmuls.size() != 2) return refuse(fused, "a gate takes two matmuls");
  const Call &gate = *parts.matmuls[second ? 1 : 0], &up = *parts.matmuls[second ? 0 : 1];
  const Call& act = *parts.activation;
  const TensorList& factors = parts.joins->in;
  const auto factor_is = [&](std::size_t i, const Tensor& x) {
    return factors[i].defined() && factors[i].impl() == x.impl();
  };
  if (parts.activation->in[0].impl() != gate.out[0].impl() ||
      !((factor_is(0, act.out[0]) && factor_is(1, up.out[0])) || (factor_is(1, act.out[0]) && factor_is(0, up.out[0]))))
    return refuse(fused, "mul does not multiply the activation and the other matmul");
  if (!all_dead(calls, parts.norm == nullptr ? 0 : 1, parts.joins_at))
    return refuse(fused, "a factor of mul is read elsewhere");
  if (!merge_matmuls(parts, {&gate, &up}, fused)) return false;
  auto a = fused.attrs.as<LinearAttrs>();
  if (a.rows[0] != a.rows[1] || fusion::rounds_when_stored(gate.out[0]))
    return refuse(fused, "the factors of mul have different shapes, or are rounded when they are stored");
  a.gate = activation_named(act.op->name).value();
  a.dtype = parts.joins->out[0].dtype();
  fused.attrs = Attrs::of(a);
  fused.out = {parts.joins->out[0]};
  return true;
}

bool fuse_concatenated(Calls calls, const Parts& parts, Fused& fused) {
  const TensorList& joined = parts.joins->in;
  bool in_order = joined.size() == parts.matmuls.size();
  for (std::size_t i = 0; in_order && i < joined.size(); ++i)
    in_order = joined[i].impl() == parts.matmuls[i]->out[0].impl();
  const Shape &shape = parts.joins->out[0].shape(), &first = parts.first().out[0].shape();
  if (!in_order || shape.back() == first.back() || parts.joins->out[0].dtype() != parts.first().out[0].dtype())
    return refuse(fused, "the results of the matmuls are not concatenated in order along their last dimension");
  if (!all_dead(calls, parts.norm == nullptr ? 0 : 1, parts.joins_at))
    return refuse(fused, "the result of a matmul is read elsewhere");
  fused.out = {parts.joins->out[0]};
  return merge_matmuls(parts, parts.matmuls, fused);
}

bool fuse_added(Calls calls, const Parts& parts, Fused& fused) {
  const Tensor residual = fusion::added_to(calls, parts.joins_at), sum = parts.joins->out[0];
  if (!residual.defined() || residual.shape() != sum.shape() || sum.shape() != parts.first().out[0].shape() ||
      !is_floating(residual.dtype()))
    return refuse(fused, "the residual has another shape");
  if (fusion::rounds_when_stored(parts.first().out[0]) || !fusion::dead(calls, parts.joins_at - 1))
    return refuse(fused, "the matmul's result is read elsewhere, or rounded when stored");
  if (!merge_matmuls(parts, parts.matmuls, fused)) return false;
  auto a = fused.attrs.as<LinearAttrs>();
  a.dtype = sum.dtype();
  fused.attrs = Attrs::of(a);
  fused.in[kResidual] = residual;
  fused.out = {sum};
  return true;
}

/// Outputs for quantized x: data and factor.
TensorList empty_activations(const Tensor& x, DType dtype) {
  Shape shape = x.shape();
  if (dtype == i8) shape.back() = activation_bytes(shape.back());
  const char* op = "quantize_activations";
  return {detail::empty_when_used(op, shape, {dtype == i8 ? u8 : dtype, x.device()}),
          detail::empty_when_used(op, {dtype == f16 ? 1 : 0}, {f32, x.device()})};
}

/// These outputs as ActivationRows. @param normed they are x times a norm's weight
ActivationRows written(const TensorList& out, DType dtype, bool normed) {
  return {out[0], dtype == f16 ? out[1] : Tensor(), dtype == i8, dtype == i8 && normed};
}

/// Makes a fused call quantize its result for the matmul that follows. @param read_once nothing else reads the result
bool quantize_result(Calls calls, const Parts& parts, DType wanted, bool read_once, Fused& fused) {
  const Call& next = *parts.next;
  auto a = fused.attrs.as<LinearAttrs>();
  const Tensor y = fused.out[0];
  const Tensor& read = parts.next_norm == nullptr ? y : parts.next_norm->out[0];
  if (y.dtype() != f32 || next.in[kX].impl() != read.impl() || !is_plain(next))
    return refuse(fused, "the next matmul does not read this result, or it is not f32");
  const std::int64_t rows = rows_of(next);
  const std::vector<QuantizedTensor> weights = weights_of(fused.in, a);
  const std::optional<DType> own = activations_dtype(y.device(), rows, weights, a.gate != Activation::none);
  const std::optional<DType> few = activations_dtype(y.device(), rows, weights_of(next.in, attrs_of(next)));
  if (parts.next_norm != nullptr) {
    const Call& norm = *parts.next_norm;
    if (!is_of_rows(norm) || norm.in[0].impl() != y.impl())
      return refuse(fused, "the norm has no weight, or a dtype other than x's");
    if (norm.out[0].requires_grad()) return refuse(fused, "a gradient needs the norm's result");
  }
  if (few && (!own || (own == i8) != (few == i8) || a.columns() % 32 != 0))
    return refuse(fused, "this matmul cannot quantize its result in the form that the next one reads");
  fused.replaces = calls.size() - 1;
  ActivationRows form;
  if (parts.next_norm == nullptr && wanted != i8 && (wanted == bf16 || !few)) {
    // Only the 16-bit result is needed.
    if (!read_once) return refuse(fused, "the result is read elsewhere");
    a.dtype = wanted;
    form = empty(y.shape(), {wanted, y.device()});
    fused.out = {form.data};
  } else {
    const TensorList out = empty_activations(y, wanted);
    a.next = wanted;
    form = written(out, wanted, parts.next_norm != nullptr);
    fused.out = {y, out[0], out[1]};
    if (parts.next_norm != nullptr) {
      fused.in[kNextNorm] = parts.next_norm->in[1];
      a.next_eps = parts.next_norm->attrs.as<normalization::NormAttrs>().eps;
      fused.later.push_back(*parts.next_norm);
    }
  }
  fused.attrs = Attrs::of(a);
  fused.forms.push_back(form_of(read, form, a.next_eps));
  return true;
}

}  // namespace

bool fuse(Calls calls, Fused& fused) {
  const Parts parts(calls);
  const bool read_once = fusion::dead(calls, parts.joins_at);  // before `fused` refers to it
  std::optional<DType> wanted;
  if (parts.next != nullptr) {
    wanted = wanted_form(*parts.next);
    if (!wanted) return refuse(fused, "the next matmul reads f32");
    if (parts.next_norm != nullptr && rows_of(*parts.next) > kMostQuantized)
      return refuse(fused, "the next matmul norms that many rows itself");
  }
  if (is(*parts.joins, "mul")) {
    if (!fuse_gated(calls, parts, fused)) return false;
  } else if (is(*parts.joins, "cat")) {
    if (!fuse_concatenated(calls, parts, fused)) return false;
  } else if (!fuse_added(calls, parts, fused)) {
    return false;
  }
  return !wanted || quantize_result(calls, parts, *wanted, read_once, fused);
}

bool fuse_norm(Calls calls, Fused& fused) {
  const Call &norm = calls[0], &matmul = calls[1];
  const Parts parts(calls);
  if (!merge_matmuls(parts, parts.matmuls, fused)) return false;
  fused.out = matmul.out;
  const std::optional<DType> wanted =
      activations_dtype(norm.out[0].device(), rows_of(matmul), weights_of(matmul.in, attrs_of(matmul)));
  if (!wanted || norm.in[0].dtype() != f32) return true;
  const double eps = norm.attrs.as<normalization::NormAttrs>().eps;
  fused.op = &kQuantizeActivations;
  fused.in = {norm.in[0], norm.in[1]};
  fused.out = empty_activations(norm.in[0], *wanted);
  fused.attrs = Attrs::of(QuantizeAttrs{*wanted, eps});
  fused.replaces = 1;
  fused.forms.push_back(form_of(norm.out[0], written(fused.out, *wanted, true), eps));
  return true;
}

bool fuse_gated_norm(Calls calls, Fused& fused) {
  const Call &norm = calls[0], &matmul = calls[1];
  const Tensor &y = norm.out[0], &weight = norm.in[1], &x = matmul.in[kX];
  if (y.dtype() != f32 || y.device().is_cpu() || !fusion::same_elements(y, x) || !is_plain(matmul) || y.requires_grad())
    return refuse(fused, "a gradient needs the norm's result, or the matmul does not read it in f32");
  if (!weight.defined() || !norms_heads_of(y.size(-1)) || x.size(-1) % y.size(-1) != 0)
    return refuse(fused, "the norm has no weight, or its heads have another size than a power of two");
  if (activations_dtype(y.device(), rows_of(matmul), weights_of(matmul.in, attrs_of(matmul))) != i8)
    return refuse(fused, "the matmul does not read bytes");
  fused.op = &kQuantizeActivations;
  fused.in = {norm.in[0].reshape(x.shape()), weight, norm.in[2].reshape(x.shape())};
  fused.out = empty_activations(x, i8);
  fused.attrs = Attrs::of(QuantizeAttrs{i8, norm.attrs.as<normalization::NormAttrs>().eps});
  fused.replaces = 1;
  fused.later.push_back(norm);
  fused.forms.push_back(form_of(y, written(fused.out, i8, false)));
  return true;
}

bool fuse_cast(Calls calls, Fused& fused) {
  const Call &cast = calls[0], &matmul = calls[1];
  const Tensor &x = cast.in[0], &wide = cast.out[0];
  if (item_size(x.dtype()) != 2 || !is_floating(x.dtype()) || wide.dtype() != f32 || wide.device().is_cpu() ||
      !fusion::same_elements(wide, matmul.in[kX]) || !is_plain(matmul) || wide.requires_grad())
    return refuse(fused, "the cast does not widen the activations of a matmul");
  const std::int64_t rows = rows_of(matmul);
  const DType wanted = operand_dtype(x.device(), rows, x.dtype(), weights_of(matmul.in, attrs_of(matmul))[0]);
  if (rows <= kMostRows || item_size(wanted) != 2) return refuse(fused, "the matmul reads f32");
  fused.replaces = 1;
  fused.later.push_back(cast);
  if (wanted == x.dtype() && x.is_contiguous()) {
    fused.op = nullptr;
    fused.forms.push_back(form_of(wide, x));
    return true;
  }
  auto a = cast.attrs.as<elementwise::ElementwiseAttrs>();
  a.result = wanted;
  fused.op = cast.op;
  fused.in = cast.in;
  fused.out = {empty(x.shape(), {wanted, x.device()})};
  fused.attrs = Attrs::of(a);
  fused.forms.push_back(form_of(wide, fused.out[0]));
  return true;
}

fusion::Form form_of(const Tensor& of, const ActivationRows& x, double eps) {
  return {of, {x.data, x.factor}, Attrs::of(FormAttrs{x.in_bytes, x.normed, eps})};
}

bool read_form(const fusion::Form& form, Call& call) {
  const auto f = form.attrs.as<FormAttrs>();
  auto a = attrs_of(call);
  if (!is_plain(call) || a.in_bytes || call.in[kFactor].defined()) return false;
  const DType dtype = f.in_bytes ? i8 : form.data[0].dtype();
  if (wanted_form(call, true) != dtype) return false;
  Shape shape = call.in[kX].shape();
  if (f.in_bytes) shape.back() = activation_bytes(shape.back());
  call.in[kX] = form.data[0].shape() == shape ? form.data[0] : form.data[0].reshape(shape);
  call.in[kFactor] = form.data[1];
  a.in_bytes = f.in_bytes;
  a.normed = f.normed;
  a.eps = f.eps;
  call.attrs = Attrs::of(a);
  return true;
}

std::optional<DType> wanted_form(const Call& matmul, bool fits) {
  const auto a = attrs_of(matmul);
  const Device device = matmul.out[0].device();
  if (device.is_cpu() || matmul.in[kX].dtype() != f32) return {};
  const std::int64_t rows = rows_of(matmul);
  const std::vector<QuantizedTensor> weights = weights_of(matmul.in, a);
  if (const auto few = activations_dtype(device, rows, weights)) return few;
  const DType many = operand_dtype(device, rows, f32, weights[0], fits);
  return many == f32 ? std::nullopt : std::optional(many);
}

}  // namespace etna::quantized
