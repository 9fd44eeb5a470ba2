#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/internal/in_place.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/elementwise/internal/elementwise.h>
#include <etna/tensor/tensor.h>

namespace etna {
namespace {

using InPlaceAttrs = elementwise::ElementwiseAttrs;
using InPlaceRow = elementwise::Row;

/// Checks an operand that will be written into x.
void in_place_check_operand(const Tensor& x, const Tensor& other, const char* method) {
  if (!other.defined()) throw UndefinedTensor(method, 1);
  if (broadcast(x.shape(), other.shape(), method) != x.shape()) {
    throw ShapeError(fmt::format("{}: {} does not broadcast to {}", method, str(other.shape()), str(x.shape())));
  }
}

int kind(DType t) { return is_floating(t) ? 2 : t == boolean ? 0 : 1; }

/// A result of a higher kind than x's must not be truncated silently, such as 0.5 added to an integer.
void check_kind(const Tensor& x, DType other, const char* method) {
  if (kind(other) > kind(x.dtype())) {
    throw DtypeError(fmt::format("{}: the result would be {}, which a tensor of {} cannot hold; convert it first",
                                 method, name(promote(x.dtype(), other)), name(x.dtype())));
  }
}
void check_number(const Tensor& x, double value, const char* method) {
  // Kernels convert the number to 64 bits; NaN and infinities fail the comparisons, too.
  const bool whole = value == std::trunc(value) && std::abs(value) < 0x1p63;
  if (!is_floating(x.dtype()) && !whole) {
    throw DtypeError(fmt::format("{}: a tensor of {} cannot hold results of the number {}; convert it first", method,
                                 name(x.dtype()), value));
  }
  if (x.dtype() == boolean) check_kind(x, i64, method);
}

/// `other`, or a copy of it if it overlaps x with different strides. x may be both result and operand.
Tensor without_overlap(const Tensor& x, const Tensor& other) {
  bool shared = x.storage() == other.storage() &&
                !(x.offset() == other.offset() && x.strides() == other.strides() && x.shape() == other.shape());
  return shared ? other.clone() : other;
}

struct WriteAttrs {
  InPlaceAttrs attributes;
  int arity;
};

void write_cpu(const OpCall& call, std::span<Tensor> out) {
  auto a = call.as<WriteAttrs>();
  elementwise::run({call.op.name, a.attributes, a.arity, call.in, out[0]});
}
/// Op definitions for steps captured on the CPU. Not in all_ops(), because these are methods.
const OpDef kInPlaceCopy = {.name = "copy_", .cpu = write_cpu}, kFill = {.name = "fill_", .cpu = write_cpu},
            kAdd = {.name = "add_", .cpu = write_cpu}, kMul = {.name = "mul_", .cpu = write_cpu},
            kDiv = {.name = "div_", .cpu = write_cpu};

void write(const OpDef& op, Tensor& x, InPlaceRow row, int arity, int scalar_at, double scalar,
           std::initializer_list<Tensor> operands) {
  const InPlaceAttrs attributes{row, scalar_at, scalar, x.dtype(), x.dtype()};
  std::span<const Tensor> in(operands.begin(), operands.size());
  detail::check_countable(op.name, x);
  if (x.numel() > std::int64_t{0x7fffffff} && !x.device().is_cpu()) {
    throw ShapeError(
        fmt::format("{}: {} has more than 2^31 elements, which kernels do not index; write to slices of it", op.name,
                    str(x.shape())));
  }
  capture_hooks::Running running(op.name);
  if (capturing()) {
    capture_hooks::touch(op.name, x);
    capture_hooks::touch(op.name, in);
  } else {
    capture_hooks::observe(x.device());
  }
  x.storage()->count_write(op.name);
  if (x.device().is_cpu()) {
    capture_hooks::run_cpu_kernel({op, in, Attrs::of(WriteAttrs{attributes, arity})}, std::span(&x, 1));
  } else {
    elementwise::run({op.name, attributes, arity, in, x});
  }
}

}  // namespace

Tensor& Tensor::copy_(const Tensor& source) {
  const bool recorded = in_place::wants_record("copy_", *this, source);
  in_place_check_operand(*this, source, "copy_");
  if (recorded) {
    return in_place::record("copy_", *this, [&](const Tensor&) { return source.to(device()).to(dtype()); });
  }
  GradMode off(false);
  Tensor from = source.to(device()).to(dtype());
  write(kInPlaceCopy, *this, InPlaceRow::identity, 1, 0, 0, {without_overlap(*this, from)});
  return *this;
}

Tensor& Tensor::fill_(double value) {
  const bool recorded = in_place::wants_record("fill_", *this);
  value = detail::number_held("fill_", dtype(), value);
  if (recorded) {
    return in_place::record("fill_", *this, [&](const Tensor& x) { return scalar(value, {x.dtype(), x.device()}); });
  }
  write(kFill, *this, InPlaceRow::identity, 1, 1, value, {Tensor()});
  return *this;
}

namespace {

/// Computes with the op that is not in place, and converts to x's dtype.
template <typename Result>
Tensor& in_place_composed(const char* method, Tensor& x, Result result) {
  return in_place::record(method, x, [&](const Tensor& old) { return result(old).to(old.dtype()); });
}

Tensor& add_scaled(Tensor& x, const Tensor& other, double alpha, double sign, const char* method) {
  const bool recorded = in_place::wants_record(method, x, other);
  in_place_check_operand(x, other, method);
  check_kind(x, other.dtype(), method);
  check_number(x, alpha, method);
  const double factor = alpha * sign;
  if (recorded) {
    return in_place_composed(method, x,
                             [&](const Tensor& old) { return factor == 1 ? old + other : old + other * factor; });
  }
  if (factor == 1)
    write(kAdd, x, InPlaceRow::add_, 2, 0, 0, {x, without_overlap(x, other)});
  else
    write(kAdd, x, InPlaceRow::add_scaled_, 3, 3, factor, {x, without_overlap(x, other), Tensor()});
  return x;
}

Tensor& add_scaled(Tensor& x, double value, double sign, const char* method) {
  const bool recorded = in_place::wants_record(method, x);
  check_number(x, value, method);
  if (recorded) return in_place_composed(method, x, [&](const Tensor& old) { return old + value * sign; });
  write(kAdd, x, InPlaceRow::add_, 2, 2, value * sign, {x, Tensor()});
  return x;
}

}  // namespace

Tensor& Tensor::add_(const Tensor& other, double alpha) { return add_scaled(*this, other, alpha, 1, "add_"); }
Tensor& Tensor::add_(double value) { return add_scaled(*this, value, 1, "add_"); }
Tensor& Tensor::sub_(const Tensor& other, double alpha) { return add_scaled(*this, other, alpha, -1, "sub_"); }
Tensor& Tensor::sub_(double value) { return add_scaled(*this, value, -1, "sub_"); }

Tensor& Tensor::mul_(const Tensor& other) {
  const bool recorded = in_place::wants_record("mul_", *this, other);
  in_place_check_operand(*this, other, "mul_");
  check_kind(*this, other.dtype(), "mul_");
  if (recorded) return in_place_composed("mul_", *this, [&](const Tensor& old) { return old * other; });
  write(kMul, *this, InPlaceRow::mul_, 2, 0, 0, {*this, without_overlap(*this, other)});
  return *this;
}

Tensor& Tensor::mul_(double value) {
  const bool recorded = in_place::wants_record("mul_", *this);
  check_number(*this, value, "mul_");
  if (recorded) return in_place_composed("mul_", *this, [&](const Tensor& old) { return old * value; });
  write(kMul, *this, InPlaceRow::mul_, 2, 2, value, {*this, Tensor()});
  return *this;
}

Tensor& Tensor::div_(const Tensor& other) {
  const bool recorded = in_place::wants_record("div_", *this, other);
  in_place_check_operand(*this, other, "div_");
  check_kind(*this, f32, "div_");
  if (recorded) return in_place_composed("div_", *this, [&](const Tensor& old) { return old / other; });
  write(kDiv, *this, InPlaceRow::div_, 2, 0, 0, {*this, without_overlap(*this, other)});
  return *this;
}

Tensor& Tensor::div_(double value) {
  const bool recorded = in_place::wants_record("div_", *this);
  check_kind(*this, f32, "div_");
  if (recorded) return in_place_composed("div_", *this, [&](const Tensor& old) { return old / value; });
  write(kDiv, *this, InPlaceRow::div_, 2, 2, value, {*this, Tensor()});
  return *this;
}

bool in_place::wants_record(const char* op, const Tensor& x, const Tensor& source) {
  const TensorImpl* impl = (x.shape(), x.impl());  // shape() throws if x is undefined
  for (int i = 0; i < x.dim() && x.numel() > 0; ++i) {
    if (x.shape()[i] > 1 && x.strides()[i] == 0) {
      throw ShapeError(fmt::format(
          "{}: the tensor {} repeats its elements along dimension {}, as expand() makes it; clone() it and write there",
          op, str(x.shape()), i));
    }
  }
  if (!grad_enabled()) return false;
  const bool plain = !impl->requires_grad && impl->base == nullptr && impl->view == TensorImpl::View::recorded;
  if (plain && !source.requires_grad()) return false;
  return grad_recorder().wants_write(op, x, source);
}

Tensor& in_place::record(const char* op, Tensor& x, const std::function<Tensor(const Tensor&)>& result) {
  grad_recorder().record_write(op, x, [&](const Tensor& old) {
    const Tensor y = result(old);
    return y.shape() == old.shape() ? y : y.expand(old.shape());
  });
  return x;
}

}  // namespace etna
