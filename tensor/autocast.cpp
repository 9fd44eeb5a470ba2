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

struct Autocasting {
  DType dtype = f32;
  int guards = 0;
  Casts* casts = nullptr;
};
constinit thread_local Autocasting autocasting;

Casts& kept_casts() {
  if (autocasting.casts == nullptr) autocasting.casts = new Casts;
  return *autocasting.casts;
}

void forget() { delete std::exchange(autocasting.casts, nullptr); }

bool low(DType t) { return t == f16 || t == bf16; }

}  // namespace

Autocast::Autocast(DType dtype) : before_(autocasting.dtype) {
  if (dtype != f32 && !low(dtype)) {
    throw DtypeError(
        fmt::format("autocast: products in {} are no mixed precision; f16, bf16 or f32 (off)", name(dtype)));
  }
  autocasting.dtype = dtype;
  ++autocasting.guards;
}

Autocast::~Autocast() {
  autocasting.dtype = before_;
  if (--autocasting.guards == 0) forget();
}

DType autocast_dtype() { return autocasting.dtype; }

namespace detail {

Tensor lowered(const Tensor& x) {
  if (autocasting.dtype == f32 || !x.defined() || x.dtype() != f32) return x;
  if (!x.requires_grad() || !x.is_leaf()) return x.to(autocasting.dtype);
  Cast& kept = kept_casts()[x.impl()];
  bool good = kept.cast.defined() && kept.cast.dtype() == autocasting.dtype && kept.version == x.storage()->version &&
              !x.storage()->exposed && kept.cast.device() == x.device() && kept.recorded == grad_enabled();
  if (!good) kept = {x, x.to(autocasting.dtype), x.storage()->version, grad_enabled()};
  return kept.cast;
}

Tensor raised(const Tensor& x) { return autocasting.dtype != f32 && x.defined() && low(x.dtype()) ? x.to(f32) : x; }

void bring_to_one_dtype(std::vector<Tensor>& inputs, std::uint32_t biases) {
  for (const Tensor& x : inputs) {
    if (x.defined() && !is_floating(x.dtype())) return;
  }
  auto keeps = [&](std::size_t i) {
    return !inputs[i].defined() || (autocasting.dtype != f32 && (biases >> i & 1u) != 0);
  };
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

FreshCasts::FreshCasts() : before_(std::exchange(autocasting.casts, nullptr)) {}
FreshCasts::~FreshCasts() {
  forget();
  autocasting.casts = static_cast<Casts*>(before_);
}

}  // namespace detail
}  // namespace etna
