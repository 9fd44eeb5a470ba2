#include <etna/tensor/ops/quantized/internal/fusion.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include <etna/tensor/ops/elementwise/internal/elementwise.h>
#include <etna/tensor/ops/normalization/internal/norm.h>

namespace etna::quantized {
namespace {

using fusion::Call;
using fusion::Calls;
using fusion::Fused;

/// What a Form of activations says beside its data.
struct FormAttrs {
  bool in_bytes = false, normed = false;
  double eps = 0;
};

bool is(const Call& call, std::string_view name) { return call.op->name == name; }

bool refuse(Fused& fused, const char* why) {
  fused.why = why;
  return false;
}

LinearAttrs attrs_of(const Call& product) { return product.attrs.as<LinearAttrs>(); }

std::int64_t rows_of(const Call& product) {
  const std::int64_t columns = attrs_of(product).columns();
  return columns == 0 ? 0 : product.out[0].numel() / columns;
}

/// The weights of a call of quantized_linear.
std::vector<QuantizedTensor> weights_of(const TensorList& in, const LinearAttrs& a) {
  std::vector<QuantizedTensor> weights;
  for (int i = 0; i < a.weights; ++i) {
    weights.emplace_back(a.block_format(i), Shape{a.rows[i], columns_of_x(in[kX], a)},
                         in[static_cast<std::size_t>(kBlocks + i)]);
  }
  return weights;
}

/// Whether a product is one of one weight, as quantized_linear() makes it, whatever form x has.
bool is_plain(const Call& product) {
  const auto a = attrs_of(product);
  return a.weights == 1 && a.gate == Activation::none && !a.next && !product.in[kNorm].defined() &&
         !product.in[kResidual].defined();
}

/// A norm that can be a part of the product behind it.
bool is_of_rows(const Call& norm) {
  const Tensor& weight = norm.in[1];
  return weight.defined() && is_floating(weight.dtype()) && norm.out[0].dtype() == norm.in[0].dtype() &&
         normalization::reads_only_first(norm, norm.in[0]);
}

/// The calls of a pattern by what they do; null where the pattern has none.
struct Parts {
  const Call *norm = nullptr, *activation = nullptr, *joins = nullptr, *next_norm = nullptr, *next = nullptr;
  std::vector<const Call*> products;
  std::size_t joins_at = 0;

  explicit Parts(Calls calls) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const Call& call = calls[i];
      if (is(call, "rms_norm"))
        (i == 0 ? norm : next_norm) = &call;
      else if (is(call, "quantized_linear"))
        joins == nullptr ? products.push_back(&call) : void(next = &call);
      else if (is(call, "mul") || is(call, "cat") || is(call, "add"))
        joins = &call, joins_at = i;
      else
        activation = &call;
    }
  }
  const Call& first() const { return *products.front(); }
};

bool all_dead(Calls calls, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    const Tensor& x = calls[i].out[0];
    // Of two factors, either may be read by a call that is not the next.
    if (x.impl_ptr().use_count() != 2 || x.storage().use_count() != 1) return false;
  }
  return true;
}

/// Joins products into one call of `fused`, the first weight's x and bias included.
bool join_products(const Parts& parts, const std::vector<const Call*>& products, Fused& fused) {
  const Call& first = *products.front();
  LinearAttrs a = attrs_of(first);
  fused.in = first.in;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const Call& product = *products[i];
    const LinearAttrs own = attrs_of(product);
    if (!is_plain(product)) return refuse(fused, "a product is a fused one already");
    if (product.in[kX].impl() != first.in[kX].impl() || own.dtype != a.dtype || own.in_bytes != a.in_bytes)
      return refuse(fused, "the products read different rows, or have different dtypes");
    a.rows[i] = own.rows[0];
    a.format[i] = own.format[0];
    fused.in[kBlocks + i] = product.in[kBlocks];
    if (i > 0) fused.in[kMoreBiases + i - 1] = product.in[kBias];
  }
  a.weights = static_cast<std::uint8_t>(products.size());
  if (parts.norm != nullptr) {
    const Call& norm = *parts.norm;
    if (!is_of_rows(norm) || first.in[kX].impl() != norm.out[0].impl())
      return refuse(fused, "the norm has no weight, or another dtype than x");
    if (norm.out[0].requires_grad()) return refuse(fused, "a gradient needs the normed rows");
    fused.in[kX] = norm.in[0];
    fused.in[kNorm] = norm.in[1];
    a.eps = norm.attrs.as<normalization::NormAttrs>().eps;
    fused.later.push_back(norm);
  }
  fused.attrs = Attrs::of(a);
  return true;
}

bool fuse_gated(Calls calls, const Parts& parts, Fused& fused) {
  const bool second = parts.products.size() == 2 && parts.activation->in[0].impl() == parts.products[1]->out[0].impl();
  if (parts.products.size() != 2) return refuse(fused, "a gate takes two products");
  const Call &gate = *parts.products[second ? 1 : 0], &up = *parts.products[second ? 0 : 1];
  const Call& act = *parts.activation;
  const TensorList& factors = parts.joins->in;
  const auto factor_is = [&](std::size_t i, const Tensor& x) {
    return factors[i].defined() && factors[i].impl() == x.impl();
  };
  if (parts.activation->in[0].impl() != gate.out[0].impl() ||
      !((factor_is(0, act.out[0]) && factor_is(1, up.out[0])) || (factor_is(1, act.out[0]) && factor_is(0, up.out[0]))))
    return refuse(fused, "the product of activation and up is another");
  if (!all_dead(calls, parts.norm == nullptr ? 0 : 1, parts.joins_at))
    return refuse(fused, "a factor of the gated product is read elsewhere");
  if (!join_products(parts, {&gate, &up}, fused)) return false;
  auto a = fused.attrs.as<LinearAttrs>();
  if (a.rows[0] != a.rows[1] || fusion::rounds_when_stored(gate.out[0]))
    return refuse(fused, "the factors have different shapes, or are rounded when they are stored");
  a.gate = activation_named(act.op->name).value();
  a.dtype = parts.joins->out[0].dtype();
  fused.attrs = Attrs::of(a);
  fused.out = {parts.joins->out[0]};
  return true;
}

bool fuse_concatenated(Calls calls, const Parts& parts, Fused& fused) {
  const TensorList& joined = parts.joins->in;
  bool in_order = joined.size() == parts.products.size();
  for (std::size_t i = 0; in_order && i < joined.size(); ++i)
    in_order = joined[i].impl() == parts.products[i]->out[0].impl();
  const Shape &shape = parts.joins->out[0].shape(), &first = parts.first().out[0].shape();
  if (!in_order || shape.back() == first.back() || parts.joins->out[0].dtype() != parts.first().out[0].dtype())
    return refuse(fused, "the products are not concatenated in order along their last dimension");
  if (!all_dead(calls, parts.norm == nullptr ? 0 : 1, parts.joins_at))
    return refuse(fused, "a product is read elsewhere");
  fused.out = {parts.joins->out[0]};
  return join_products(parts, parts.products, fused);
}

bool fuse_added(Calls calls, const Parts& parts, Fused& fused) {
  const Tensor residual = fusion::added_to(calls, parts.joins_at), sum = parts.joins->out[0];
  if (!residual.defined() || residual.shape() != sum.shape() || sum.shape() != parts.first().out[0].shape() ||
      !is_floating(residual.dtype()))
    return refuse(fused, "what is added has another shape");
  if (fusion::rounds_when_stored(parts.first().out[0]) || !fusion::dead(calls, parts.joins_at - 1))
    return refuse(fused, "the product is read elsewhere, or rounded when it is stored");
  if (!join_products(parts, parts.products, fused)) return false;
  auto a = fused.attrs.as<LinearAttrs>();
  a.dtype = sum.dtype();
  fused.attrs = Attrs::of(a);
  fused.in[kResidual] = residual;
  fused.out = {sum};
  return true;
}

/// Data and factor for x, quantized, as ops write them.
TensorList empty_activations(const Tensor& x, DType dtype) {
  Shape shape = x.shape();
  if (dtype == i8) shape.back() = activation_bytes(shape.back());
  return {empty(shape, {dtype == i8 ? u8 : dtype, x.device()}), empty({dtype == f16 ? 1 : 0}, {f32, x.device()})};
}

/// What ops read of them. @param normed they are of x and a norm's weight
ActivationRows written(const TensorList& out, DType dtype, bool normed) {
  return {out[0], dtype == f16 ? out[1] : Tensor(), dtype == i8, dtype == i8 && normed};
}

/// Adds the quantized result to a fused call, as the product behind it reads it. @param read_once only that product
/// reads it
bool quantize_result(Calls calls, const Parts& parts, DType wanted, bool read_once, Fused& fused) {
  const Call& next = *parts.next;
  auto a = fused.attrs.as<LinearAttrs>();
  const Tensor y = fused.out[0];
  const Tensor& read = parts.next_norm == nullptr ? y : parts.next_norm->out[0];
  if (y.dtype() != f32 || next.in[kX].impl() != read.impl() || !is_plain(next))
    return refuse(fused, "the next product does not read this result, or it is not f32");
  const std::int64_t rows = rows_of(next);
  const std::vector<QuantizedTensor> weights = weights_of(fused.in, a);
  const std::optional<DType> own = activations_dtype(y.device(), rows, weights, a.gate != Activation::none);
  const std::optional<DType> few = activations_dtype(y.device(), rows, weights_of(next.in, attrs_of(next)));
  if (parts.next_norm != nullptr) {
    const Call& norm = *parts.next_norm;
    if (!is_of_rows(norm) || norm.in[0].impl() != y.impl())
      return refuse(fused, "the norm has no weight, or another dtype than x");
    if (norm.out[0].requires_grad()) return refuse(fused, "a gradient needs the normed rows");
  }
  if (few && (!own || (own == i8) != (few == i8) || a.columns() % 32 != 0))
    return refuse(fused, "this product does not quantize its result in that form");
  fused.replaces = calls.size() - 1;
  ActivationRows form;
  if (parts.next_norm == nullptr && wanted != i8 && (wanted == bf16 || !few)) {
    // 16 bits are all that is needed of it.
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
    if (!wanted) return refuse(fused, "the next product reads f32");
    if (parts.next_norm != nullptr && rows_of(*parts.next) > kMostQuantized)
      return refuse(fused, "so many rows are normed by the next product");
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
  const Call &norm = calls[0], &product = calls[1];
  const Parts parts(calls);
  if (!join_products(parts, parts.products, fused)) return false;
  fused.out = product.out;
  const std::optional<DType> wanted =
      activations_dtype(norm.out[0].device(), rows_of(product), weights_of(product.in, attrs_of(product)));
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

bool fuse_cast(Calls calls, Fused& fused) {
  const Call &cast = calls[0], &product = calls[1];
  const Tensor &x = cast.in[0], &wide = cast.out[0];
  if (item_size(x.dtype()) != 2 || !is_floating(x.dtype()) || wide.dtype() != f32 || wide.device().is_cpu() ||
      !fusion::same_elements(wide, product.in[kX]) || !is_plain(product) || wide.requires_grad())
    return refuse(fused, "the cast does not widen rows of a product");
  const std::int64_t rows = rows_of(product);
  const DType wanted = operand_dtype(x.device(), rows, x.dtype(), weights_of(product.in, attrs_of(product))[0]);
  if (rows <= kMostRows || item_size(wanted) != 2) return refuse(fused, "the product reads f32");
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
  call.in[kX] = form.data[0].reshape(shape);
  call.in[kFactor] = form.data[1];
  a.in_bytes = f.in_bytes;
  a.normed = f.normed;
  a.eps = f.eps;
  call.attrs = Attrs::of(a);
  return true;
}

std::optional<DType> wanted_form(const Call& product, bool fits) {
  const auto a = attrs_of(product);
  const Device device = product.out[0].device();
  if (device.is_cpu() || product.in[kX].dtype() != f32) return {};
  const std::int64_t rows = rows_of(product);
  const std::vector<QuantizedTensor> weights = weights_of(product.in, a);
  if (const auto few = activations_dtype(device, rows, weights)) return few;
  const DType many = operand_dtype(device, rows, f32, weights[0], fits);
  return many == f32 ? std::nullopt : std::optional(many);
}

}  // namespace etna::quantized
