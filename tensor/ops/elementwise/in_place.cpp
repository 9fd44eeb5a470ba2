#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/elementwise/elementwise.h>
#include <etna/tensor/recording.h>
#include <etna/tensor/tensor.h>

namespace etna {
namespace {

using elementwise::Attributes;
using elementwise::Row;

void check_writable(const Tensor& x, const char* method) {
  if (x.requires_grad() && grad_enabled()) {
    throw GradError(fmt::format(
        "{}: the tensor requires grad and grad mode is on; write under NoGrad, or on a detached tensor", method));
  }
}

void check_fits(const Tensor& to, const Tensor& from, const char* method) {
  if (broadcast(to.shape(), from.shape(), method) != to.shape()) {
    throw ShapeError(fmt::format("{}: {} does not broadcast to {}", method, str(from.shape()), str(to.shape())));
  }
}

/// x may be both result and operand. An operand that overlaps x with other strides is copied first.
Tensor apart(const Tensor& x, const Tensor& other) {
  bool shared = x.storage() == other.storage() &&
                !(x.offset() == other.offset() && x.strides() == other.strides() && x.shape() == other.shape());
  return shared ? other.clone() : other;
}

struct WriteAttrs {
  Attributes attributes;
  int arity;
};

void write_cpu(const OpCall& call, std::span<Tensor> out) {
  auto a = call.as<WriteAttrs>();
  elementwise::run({call.op.name, a.attributes, a.arity, call.in, out[0]});
}
/// Op definitions for steps recorded on the CPU. Not in all_ops(): these are methods.
const OpDef kCopy = {.name = "copy_", .cpu = write_cpu}, kFill = {.name = "fill_", .cpu = write_cpu},
            kAdd = {.name = "add_", .cpu = write_cpu}, kMul = {.name = "mul_", .cpu = write_cpu};

void write(const OpDef& op, Tensor& x, Row row, int arity, int scalar_at, double scalar,
           std::initializer_list<Tensor> operands) {
  const Attributes attributes{row, scalar_at, scalar, x.dtype(), x.dtype()};
  std::span<const Tensor> in(operands.begin(), operands.size());
  detail::check_countable(op.name, x);
  if (x.numel() > std::int64_t{0x7fffffff} && !x.device().is_cpu()) {
    throw ShapeError(
        fmt::format("{}: {} has more than 2^31 elements, which kernels do not index; write to slices of it", op.name,
                    str(x.shape())));
  }
  recording::Running running(op.name);
  if (capturing()) {
    recording::touch(op.name, x);
    recording::touch(op.name, in);
  } else {
    recording::observe(x.device());
  }
  ++x.storage()->version;
  if (x.device().is_cpu()) {
    recording::run_cpu_kernel({op, in, Attrs::of(WriteAttrs{attributes, arity})}, std::span(&x, 1));
  } else {
    elementwise::run({op.name, attributes, arity, in, x});
  }
}

}  // namespace

Tensor& Tensor::copy_(const Tensor& source) {
  check_writable(*this, "copy_");
  check_fits(*this, source, "copy_");
  GradMode off(false);
  Tensor from = source.to(device()).to(dtype());
  write(kCopy, *this, Row::identity, 1, 0, 0, {apart(*this, from)});
  return *this;
}

Tensor& Tensor::fill_(double value) {
  check_writable(*this, "fill_");
  write(kFill, *this, Row::identity, 1, 1, value, {Tensor()});
  return *this;
}

Tensor& Tensor::add_(const Tensor& other, double alpha) {
  check_writable(*this, "add_");
  check_fits(*this, other, "add_");
  if (alpha == 1)
    write(kAdd, *this, Row::add_, 2, 0, 0, {*this, apart(*this, other)});
  else
    write(kAdd, *this, Row::add_scaled_, 3, 3, alpha, {*this, apart(*this, other), Tensor()});
  return *this;
}

Tensor& Tensor::mul_(const Tensor& other) {
  check_writable(*this, "mul_");
  check_fits(*this, other, "mul_");
  write(kMul, *this, Row::mul_, 2, 0, 0, {*this, apart(*this, other)});
  return *this;
}

Tensor& Tensor::mul_(double value) {
  check_writable(*this, "mul_");
  write(kMul, *this, Row::mul_, 2, 2, value, {*this, Tensor()});
  return *this;
}

}  // namespace etna
