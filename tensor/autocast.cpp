#include <etna/tensor/autocast.h>

#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <etna/tensor/op.h>

namespace etna {
namespace {

/// The cast of a parameter, valid until someone writes to the parameter.
struct Cast {
  Tensor parameter, cast;
  std::uint32_t version = 0;
  bool recorded = false;  ///< made with grad mode on, so that gradients pass through it
};
using Casts = std::unordered_map<const TensorImpl*, Cast>;

thread_local DType current = f32;
thread_local int guards = 0;
thread_local Casts* casts = nullptr;

Casts& kept_casts() {
  if (casts == nullptr) casts = new Casts;
  return *casts;
}

void forget() { delete std::exchange(casts, nullptr); }

bool low(DType t) { return t == f16 || t == bf16; }

}  // namespace

Autocast::Autocast(DType dtype) : before_(current) {
  if (dtype != f32 && !low(dtype)) {
    throw DtypeError(
        fmt::format("autocast: products in {} are no mixed precision; f16, bf16 or f32 (off)", name(dtype)));
  }
  current = dtype;
  ++guards;
}

Autocast::~Autocast() {
  current = before_;
  if (--guards == 0) forget();
}

DType autocast_dtype() { return current; }

namespace detail {

Tensor lowered(const Tensor& x) {
  if (current == f32 || !x.defined() || x.dtype() != f32) return x;
  if (!x.requires_grad() || !x.is_leaf()) return x.to(current);
  Cast& kept = kept_casts()[x.impl()];
  bool good = kept.cast.defined() && kept.cast.dtype() == current && kept.version == x.storage()->version &&
              !x.storage()->exposed && kept.cast.device() == x.device() && kept.recorded == grad_enabled();
  if (!good) kept = {x, x.to(current), x.storage()->version, grad_enabled()};
  return kept.cast;
}

Tensor raised(const Tensor& x) { return current != f32 && x.defined() && low(x.dtype()) ? x.to(f32) : x; }

void bring_to_one_dtype(std::vector<Tensor>& inputs, std::uint32_t biases) {
  for (const Tensor& x : inputs) {
    if (x.defined() && !is_floating(x.dtype())) return;
  }
  auto keeps = [&](std::size_t i) { return !inputs[i].defined() || (current != f32 && (biases >> i & 1u) != 0); };
  DType t = bf16;
  for (std::size_t i = 0, seen = 0; i < inputs.size(); ++i) {
    if (keeps(i)) continue;
    inputs[i] = lowered(inputs[i]);
    t = seen++ == 0 ? inputs[i].dtype() : promote(t, inputs[i].dtype());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // A bias may be wider than the matrix product, not narrower.
    if (inputs[i].defined() && (!keeps(i) || promote(t, inputs[i].dtype()) == t)) inputs[i] = inputs[i].to(t);
  }
}

FreshCasts::FreshCasts() : before_(std::exchange(casts, nullptr)) {}
FreshCasts::~FreshCasts() {
  forget();
  casts = static_cast<Casts*>(before_);
}

}  // namespace detail
}  // namespace etna
