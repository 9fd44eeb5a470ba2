#include <array>

#include <fmt/format.h>

#include <etna/device/kernel.h>
#include <etna/device/memory.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/internal/detours.h>
#include <etna/tensor/internal/kernels.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/elementwise/internal/elementwise.h>

namespace etna {
namespace elementwise {

void run(const Evaluation& e) {
  if (e.y.device().is_cpu()) {
    cpu(e);
    return;
  }
  if (etna::detail::computes_by_cpu_kernels(e.y.device())) {
    etna::detail::HostAliases aliases;
    TensorList operands;
    for (const Tensor& x : e.operands) operands.push_back(aliases.of(x));
    Tensor result = aliases.of(e.y);
    cpu({e.name, e.attributes, e.arity, operands, result});
    return;
  }
  if (gpu::runs_kernels(e.y.device()) && on_gpu(e)) return;
  etna::detail::count_fallback(
      e.name, fmt::format("no kernel on {} for these dtypes, computed on the CPU", e.y.device().str()));
  etna::detail::count_detour(Detour::fallback, e.y.device(), e.name);
  etna::detail::count_cpu_kernel(e.name);
  TensorList host;
  for (const Tensor& x : e.operands) host.push_back(x.defined() ? etna::detail::host_copy(x) : x);
  Tensor y = empty(e.y.shape(), {e.y.dtype(), kCPU});
  cpu({e.name, e.attributes, e.arity, host, y});
  etna::detail::write_back(y, e.y);
}

}  // namespace elementwise

namespace {

using ElementwiseAttrs = elementwise::ElementwiseAttrs;
using ElementwiseRow = elementwise::Row;

enum class Result { same, real, truth, bits };

template <int arity>
std::vector<OutputSpec> elementwise_infer(const OpCall& call) {
  Shape shape;
  for (const Tensor& x : call.in) {
    if (x.defined()) shape = broadcast(shape, x.shape(), call.op.name);
  }
  return {{shape, call.as<ElementwiseAttrs>().result}};
}

template <int arity>
void elementwise_cpu(const OpCall& call, std::span<Tensor> out) {
  elementwise::cpu({call.op.name, call.as<ElementwiseAttrs>(), arity, call.in, out[0]});
}
template <int arity>
bool elementwise_gpu(const OpCall& call, std::span<Tensor> out) {
  return elementwise::on_gpu({call.op.name, call.as<ElementwiseAttrs>(), arity, call.in, out[0]});
}

constexpr Saved kSavedNone = Saved::none, kSavedIn = Saved::inputs, kSavedOut = Saved::outputs;
#define ETNA_SAVED_none kSavedNone
#define ETNA_SAVED_in kSavedIn
#define ETNA_SAVED_out kSavedOut
#define ETNA_SAVED_mask kSavedIn
#define ETNA_SAVED_factors Saved::factors
#define ETNA_SAVED_quotient Saved::quotient
constexpr std::uint32_t kSavesAll = ~0u, kSavesMask = 0b1;
#define ETNA_SAVED_INPUTS_none kSavesAll
#define ETNA_SAVED_INPUTS_in kSavesAll
#define ETNA_SAVED_INPUTS_out kSavesAll
#define ETNA_SAVED_INPUTS_mask kSavesMask
#define ETNA_SAVED_INPUTS_factors kSavesAll
#define ETNA_SAVED_INPUTS_quotient kSavesAll

const OpDef kElementwiseRows[] = {
#define ETNA_ELEMENTWISE(op_name, arity, result, keeps, ...) \
  {.name = #op_name,                                         \
   .infer = elementwise_infer<ETNA_ARITY(arity)>,            \
   .cpu = elementwise_cpu<ETNA_ARITY(arity)>,                \
   .gpu = elementwise_gpu<ETNA_ARITY(arity)>,                \
   .vjp = elementwise::vjp,                                  \
   .saved = ETNA_SAVED_##keeps,                              \
   .saved_inputs = ETNA_SAVED_INPUTS_##keeps},
#include <etna/tables/elementwise.def>
#undef ETNA_ELEMENTWISE
};

TensorList cast_vjp(const VjpCall& call) { return {call.grad[0].to(call.in[0].dtype())}; }
const OpDef kCast = {.name = "cast",
                     .infer = elementwise_infer<1>,
                     .cpu = elementwise_cpu<1>,
                     .gpu = elementwise_gpu<1>,
                     .vjp = cast_vjp};
TensorList copy_vjp(const VjpCall& call) { return {call.grad[0]}; }
const OpDef kElementwiseCopy = {.name = "copy",
                                .infer = elementwise_infer<1>,
                                .cpu = elementwise_cpu<1>,
                                .gpu = elementwise_gpu<1>,
                                .vjp = copy_vjp};

constexpr int category(DType t) { return is_floating(t) ? 2 : t == boolean ? 0 : 1; }

/// PyTorch's promotion rule. Tensors with dimensions decide within their kind (bool < integer < floating). 0-d tensors,
/// and after them numbers, count only if their kind is higher. `skip`: an operand to ignore (the condition of where).
DType result_dtype(std::span<const Tensor> operands, int scalar_at, double scalar, bool skip_first) {
  std::optional<DType> dimensioned, zero_d;
  for (std::size_t k = skip_first ? 1 : 0; k < operands.size(); ++k) {
    if (!operands[k].defined()) continue;
    auto& slot = operands[k].dim() > 0 ? dimensioned : zero_d;
    slot = slot ? promote(*slot, operands[k].dtype()) : operands[k].dtype();
  }
  DType t = dimensioned ? *dimensioned : zero_d ? *zero_d : f32;
  if (dimensioned && zero_d && category(*zero_d) > category(t)) t = *zero_d;
  if (scalar_at != 0 && !(skip_first && scalar_at == 1)) {
    bool whole = scalar == static_cast<double>(static_cast<std::int64_t>(std::abs(scalar) < 9e18 ? scalar : 0.5));
    DType of_scalar = dimensioned || zero_d ? (whole ? i64 : f32) : f32;
    if (category(of_scalar) > category(t)) t = of_scalar;
  }
  return t;
}

/// True for rows whose results overflow or lose digits in 16 bits.
bool raised_by_autocast(ElementwiseRow row) {
  switch (row) {
    case ElementwiseRow::exp_:
    case ElementwiseRow::exp2_:
    case ElementwiseRow::expm1_:
    case ElementwiseRow::log_:
    case ElementwiseRow::log2_:
    case ElementwiseRow::log10_:
    case ElementwiseRow::log1p_:
    case ElementwiseRow::pow_:
    case ElementwiseRow::reciprocal_:
    case ElementwiseRow::rsqrt_:
    case ElementwiseRow::tan_:
    case ElementwiseRow::asin_:
    case ElementwiseRow::acos_:
    case ElementwiseRow::sinh_:
    case ElementwiseRow::cosh_:
    case ElementwiseRow::erfinv_:
      return true;
    default:
      return false;
  }
}

/// True for rows whose result may be the scalar itself, so that the result's dtype must be able to hold it.
/// minimum with a large positive number, or maximum with a large negative one, returns the operand.
bool may_choose(ElementwiseRow row, double number) {
  switch (row) {
    case ElementwiseRow::where_:
    case ElementwiseRow::heaviside_:
      return true;
    case ElementwiseRow::minimum_:
    case ElementwiseRow::clamp_max_:
    case ElementwiseRow::fmin_:
      return number < 0;
    case ElementwiseRow::maximum_:
    case ElementwiseRow::clamp_min_:
    case ElementwiseRow::fmax_:
      return number > 0;
    default:
      return false;
  }
}

/// On the CPU, images stay channels-last: convolutions and pooling want adjacent channels.
/// @return the order of dimensions in memory, or none
Dims channels_last_order(std::span<const Tensor> operands) {
  const Tensor* only = nullptr;
  for (const Tensor& x : operands) {
    if (!x.defined()) continue;
    if (only != nullptr) return {};
    only = &x;
  }
  if (only == nullptr || !only->device().is_cpu() || only->dim() < 4 || only->is_contiguous()) return {};
  Dims order = {0};
  for (int d = 2; d < only->dim(); ++d) order.push_back(d);
  order.push_back(1);
  return only->permute(order).is_contiguous() ? order : Dims();
}

Tensor call_row(ElementwiseRow row, Result kind, std::initializer_list<Tensor> given, int scalar_at, double scalar) {
  std::span<const Tensor> operands(given.begin(), given.size());
  TensorList raised;
  if (autocast_dtype() != f32 && raised_by_autocast(row)) {
    for (const Tensor& x : operands) raised.push_back(detail::raised(x));
    operands = raised;
  }
  const char* op = kElementwiseRows[static_cast<int>(row)].name;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (!operands[k].defined() && static_cast<int>(k) != scalar_at - 1) {
      throw UndefinedTensor(op, k + 1);
    }
  }
  if (row == ElementwiseRow::where_ && operands[0].dtype() != boolean) {
    throw DtypeError(fmt::format("where: the condition holds {}, it must be bool; compare first: where(x > 0, ...)",
                                 name(operands[0].dtype())));
  }
  DType t = result_dtype(operands, scalar_at, scalar, row == ElementwiseRow::where_);
  if (kind == Result::real && !is_floating(t)) t = f32;
  if (kind == Result::same && t == boolean && row != ElementwiseRow::where_) {
    throw DtypeError(
        fmt::format("{}: arithmetic on bool tensors is not defined; convert them first, or use logical_and, "
                    "logical_or, logical_not",
                    op));
  }
  if (kind == Result::bits && is_floating(t)) {
    throw DtypeError(fmt::format(
        "{}: takes integers or bool, not {}; convert first, e.g. with .to(i64), or compare, e.g. x > 0", op, name(t)));
  }
  if ((row == ElementwiseRow::gcd_ || row == ElementwiseRow::lcm_) && t == boolean)
    throw DtypeError(fmt::format("{}: takes integers, not bool; convert first, e.g. with .to(i64)", op));
  if (row == ElementwiseRow::nextafter_ && item_size(t) == 2) {
    throw DtypeError(fmt::format("nextafter: takes f32 and f64, not {}, which is computed in f32", name(t)));
  }
  if (row == ElementwiseRow::bitwise_not_ && t == boolean) return logical_not(operands[0]);
  if (scalar_at != 0 && is_integral(t) && may_choose(row, scalar)) detail::number_held(op, t, scalar);
  // GPUs compute i32 in 32 bits, in which a larger number would wrap.
  const bool large = scalar_at != 0 && (scalar < -0x1p31 || scalar >= 0x1p31);
  const DType compute = large && !is_floating(t) ? i64 : t;
  const auto run = [&](std::span<const Tensor> in) {
    return apply(kElementwiseRows[static_cast<int>(row)], in,
                 Attrs::of(ElementwiseAttrs{row, scalar_at, scalar, kind == Result::truth ? boolean : t, compute}))[0];
  };
  const Dims order = channels_last_order(operands);
  if (order.rank() == 0) return run(operands);
  TensorList last(operands.begin(), operands.end());
  Dims back = order;
  for (int d = 0; d < order.rank(); ++d) back[static_cast<int>(order[d])] = d;
  for (Tensor& x : last) {
    if (x.defined()) x = x.permute(order);
  }
  return run(last).permute(back);
}

}  // namespace

#define ETNA_DEFINE_1(name, kind) \
  Tensor name(const Tensor& x) { return call_row(ElementwiseRow::name##_, Result::kind, {x}, 0, 0); }
#define ETNA_DEFINE_1n(name, kind)                                                    \
  Tensor name(const Tensor& x, double number) {                                       \
    return call_row(ElementwiseRow::name##_, Result::kind, {x, Tensor()}, 2, number); \
  }
#define ETNA_DEFINE_2n(name, kind)                                                       \
  Tensor name(const Tensor& a, const Tensor& b, double number) {                         \
    return call_row(ElementwiseRow::name##_, Result::kind, {a, b, Tensor()}, 3, number); \
  }
#define ETNA_DEFINE_2(name, kind)                                                \
  Tensor name(const Tensor& a, const Tensor& b) {                                \
    return call_row(ElementwiseRow::name##_, Result::kind, {a, b}, 0, 0);        \
  }                                                                              \
  Tensor name(const Tensor& a, double b) {                                       \
    return call_row(ElementwiseRow::name##_, Result::kind, {a, Tensor()}, 2, b); \
  }                                                                              \
  Tensor name(double a, const Tensor& b) {                                       \
    return call_row(ElementwiseRow::name##_, Result::kind, {Tensor(), b}, 1, a); \
  }
#define ETNA_DEFINE_3(name, kind)                                                   \
  Tensor name(const Tensor& a, const Tensor& b, const Tensor& c) {                  \
    return call_row(ElementwiseRow::name##_, Result::kind, {a, b, c}, 0, 0);        \
  }                                                                                 \
  Tensor name(const Tensor& a, const Tensor& b, double c) {                         \
    return call_row(ElementwiseRow::name##_, Result::kind, {a, b, Tensor()}, 3, c); \
  }                                                                                 \
  Tensor name(const Tensor& a, double b, const Tensor& c) {                         \
    return call_row(ElementwiseRow::name##_, Result::kind, {a, Tensor(), c}, 2, b); \
  }
#define ETNA_ELEMENTWISE(name, arity, result, ...) ETNA_DEFINE_##arity(name, result)
#include <etna/tables/elementwise.def>
#undef ETNA_ELEMENTWISE

namespace {
bool masks(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.dtype() == boolean && b.dtype() == boolean;
}
}  // namespace

Tensor operator&(const Tensor& a, const Tensor& b) { return masks(a, b) ? logical_and(a, b) : bitwise_and(a, b); }
Tensor operator|(const Tensor& a, const Tensor& b) { return masks(a, b) ? logical_or(a, b) : bitwise_or(a, b); }
Tensor operator^(const Tensor& a, const Tensor& b) { return masks(a, b) ? logical_xor(a, b) : bitwise_xor(a, b); }
Tensor operator~(const Tensor& x) { return masks(x, x) ? logical_not(x) : bitwise_not(x); }
Tensor operator&(const Tensor& a, std::int64_t b) { return bitwise_and(a, static_cast<double>(b)); }
Tensor operator|(const Tensor& a, std::int64_t b) { return bitwise_or(a, static_cast<double>(b)); }
Tensor operator^(const Tensor& a, std::int64_t b) { return bitwise_xor(a, static_cast<double>(b)); }

Tensor cast(const Tensor& x, DType dtype) {
  // Conversions between integers stay in integers; any conversion with a float goes through the wider float.
  DType compute = is_floating(x.dtype()) || is_floating(dtype) ? (x.dtype() == f64 || dtype == f64 ? f64 : f32)
                                                               : promote(x.dtype(), dtype);
  if (compute == f32 && (x.dtype() == i64 || dtype == i64) && x.device().is_cpu()) compute = f64;
  return apply1(kCast, {x}, Attrs::of(ElementwiseAttrs{ElementwiseRow::identity, 0, 0, dtype, compute}));
}

Tensor copy(const Tensor& x) {
  return apply1(kElementwiseCopy, {x},
                Attrs::of(ElementwiseAttrs{ElementwiseRow::identity, 0, 0, x.dtype(), x.dtype()}));
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  detail::require_defined("masked_fill", x, mask);
  if (mask.dtype() != boolean)
    throw DtypeError(fmt::format("masked_fill: the mask is {}, it must be bool", name(mask.dtype())));
  value = detail::number_held("masked_fill", x.dtype(), value);
  // As a tensor, a number neither promotes bool nor demotes i64.
  if (x.dtype() == boolean || x.dtype() == i64) return where(mask, scalar(value, {x.dtype(), x.device()}), x);
  return where(mask, value, x);
}

Tensor clamp(const Tensor& x, std::optional<double> lo, std::optional<double> hi) {
  detail::require_defined("clamp", x);
  if (!lo && !hi) throw Error("clamp: neither a lower nor an upper bound was given; it takes one of them or both");
  Tensor y = x;
  if (lo) y = clamp_min(y, *lo);
  if (hi) y = clamp_max(y, *hi);
  return y;
}

Tensor clamp(const Tensor& x, const Tensor& lo, const Tensor& hi) {
  detail::require_defined("clamp", x);
  Tensor y = x;
  if (lo.defined()) y = clamp_min(y, lo);
  if (hi.defined()) y = clamp_max(y, hi);
  return y;
}

Tensor where(const Tensor& mask, double a, double b) {
  detail::require_defined("where", mask);
  return where(mask, full({}, a, {f32, mask.device()}), b);
}

std::span<const OpDef* const> ops_in_elementwise() {
  static const auto list = [] {
    std::vector<const OpDef*> ops;
    for (const OpDef& row : kElementwiseRows) ops.push_back(&row);
    ops.push_back(&kCast);
    ops.push_back(&kElementwiseCopy);
    return ops;
  }();
  return list;
}

}  // namespace etna
