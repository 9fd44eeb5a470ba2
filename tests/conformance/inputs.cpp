#include <conformance/inputs.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace etna::conformance {
namespace {

/// SplitMix64 (Steele, Lea & Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

std::uint64_t seed_of(const Sample& sample, std::size_t at) {
  std::uint64_t h = 1469598103934665603ull;
  for (char c : sample.op + "/" + sample.name + "/" + std::to_string(at))
    h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

double away(double value, const Input& input) {
  constexpr double margin = 0.05;
  for (double point : input.avoided) {
    if (std::abs(value - point) < margin) value = value < point ? point - margin : point + margin;
  }
  return value;
}

std::vector<double> draw_values(const Input& input, DType dtype, std::uint64_t seed) {
  auto count = static_cast<std::size_t>(numel(input.shape));
  std::vector<double> values(count);
  Random random(seed);
  if (!input.explicit_values.empty()) {
    values = input.explicit_values;
  } else if (input.kind == Input::Kind::mask || dtype == boolean) {
    for (double& v : values) v = static_cast<double>(random.bits() >> 63);
  } else if (input.kind == Input::Kind::index || input.whole || !is_floating(dtype)) {
    double lo = std::ceil(dtype == u8 ? std::max(input.lo, 0.0) : input.lo), hi = std::floor(input.hi);
    for (double& v : values) v = lo + std::floor(random.uniform() * (hi - lo + 1));
  } else if (input.distinct) {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.bits() % i]);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = input.lo + (input.hi - input.lo) * (static_cast<double>(order[i]) + 0.5) / static_cast<double>(count);
    }
  } else {
    for (double& v : values) v = away(input.lo + (input.hi - input.lo) * random.uniform(), input);
  }
  for (double& v : values) v = rounded(v, dtype);
  return values;
}

/// The value between the elements of a sliced input; no op may read it.
double poison(DType dtype) {
  return is_floating(dtype) ? std::numeric_limits<double>::quiet_NaN() : dtype == boolean ? 1.0 : 101.0;
}

int first_wide(const Shape& shape) {
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] > 1) return d;
  }
  return -1;
}

Dims reversed(int rank) {
  Dims order;
  for (int d = rank - 1; d >= 0; --d) order.push_back(d);
  return order;
}

bool changes(const Input& input, Variant variant) {
  if (input.kind == Input::Kind::none || input.dense || variant == Variant::contiguous || numel(input.shape) == 0)
    return false;
  if (variant == Variant::offset) return true;
  if (variant == Variant::sliced) return input.shape.rank() > 0;
  if (variant == Variant::transposed)
    return std::count_if(input.shape.begin(), input.shape.end(), [](auto s) { return s > 1; }) > 1;
  return first_wide(input.shape) >= 0;
}

/// Calls f(row-major index) for every element, with the element's offset by `strides`.
template <typename F>
void each(const Shape& shape, const Strides& strides, const F& f) {
  std::int64_t count = numel(shape);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, at = 0;
    for (int d = shape.rank() - 1; d >= 0; --d) at += rest % shape[d] * strides[d], rest /= shape[d];
    f(static_cast<std::size_t>(i), at);
  }
}

Tensor view(const Tensor& base, const Shape& shape, Variant variant) {
  switch (variant) {
    case Variant::offset:
      return base.slice(0, 1, numel(shape) + 1).view(shape);
    case Variant::sliced:
      return base.slice(-1, 1, 2 * shape.back() + 1, 2);
    case Variant::transposed:
      return base.permute(reversed(shape.rank()));
    case Variant::expanded:
      return base.expand(shape);
    default:
      return base;
  }
}

/// Memory in which view() finds `values`; for `expanded` the values are updated to what the view shows.
Tensor lay_out(std::vector<double>& values, const Shape& shape, DType dtype, Variant variant) {
  Shape whole = shape;
  Strides strides = contiguous_strides(shape);
  std::int64_t offset = 0;
  if (variant == Variant::offset) {
    whole = {numel(shape) + 1};
    offset = 1;
  } else if (variant == Variant::sliced) {
    whole.back() = 2 * shape.back() + 1;
    strides = contiguous_strides(whole);
    strides.back() = 2;
    offset = 1;
  } else if (variant == Variant::transposed) {
    for (int d = 0; d < shape.rank(); ++d) whole[d] = shape[shape.rank() - 1 - d];
    Strides stored = contiguous_strides(whole);
    for (int d = 0; d < shape.rank(); ++d) strides[d] = stored[shape.rank() - 1 - d];
  } else if (variant == Variant::expanded) {
    int d = first_wide(shape);
    whole[d] = 1;
    strides = contiguous_strides(whole);
    strides[d] = 0;
  }
  std::vector<double> memory(static_cast<std::size_t>(numel(whole)), poison(dtype));
  each(shape, strides,
       [&](std::size_t i, std::int64_t at) { memory[static_cast<std::size_t>(at + offset)] = values[i]; });
  each(shape, strides,
       [&](std::size_t i, std::int64_t at) { values[i] = memory[static_cast<std::size_t>(at + offset)]; });
  return make(memory, whole, dtype);
}

}  // namespace

const char* name(Variant variant) {
  constexpr const char* names[] = {"contiguous", "offset", "sliced", "transposed", "expanded"};
  return names[static_cast<int>(variant)];
}

bool applies(const Sample& sample, Variant variant) {
  if (variant == Variant::contiguous) return true;
  return std::any_of(sample.inputs.begin(), sample.inputs.end(),
                     [&](const Input& input) { return changes(input, variant); });
}

DType dtype_of(const Input& input, DType dtype) { return input.fixed ? input.dtype : dtype; }

double rounded(double value, DType dtype) {
  return visit(dtype, [&](auto zero) -> double {
    using T = decltype(zero);
    if constexpr (sizeof(T) == 2)
      return static_cast<double>(static_cast<float>(T(static_cast<float>(value))));
    else if constexpr (std::is_same_v<T, bool>)
      return value != 0;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<double>(static_cast<T>(static_cast<std::int64_t>(value)));
    else
      return static_cast<double>(static_cast<T>(value));
  });
}

Tensor make(const std::vector<double>& values, const Shape& shape, DType dtype) {
  return visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    Tensor x = empty(shape, {dtype, kCPU});
    T* p = x.mutable_data<T>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (sizeof(T) == 2)
        p[i] = T(static_cast<float>(values[i]));
      else if constexpr (std::is_same_v<T, bool>)
        p[i] = values[i] != 0;
      else if constexpr (std::is_integral_v<T>)
        p[i] = static_cast<T>(static_cast<std::int64_t>(values[i]));
      else
        p[i] = static_cast<T>(values[i]);
    }
    return x;
  });
}

std::vector<double> read(const Tensor& x) {
  std::vector<double> values(static_cast<std::size_t>(x.numel()));
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* p = x.data<T>();
    each(x.shape(), x.strides(), [&](std::size_t i, std::int64_t at) {
      if constexpr (sizeof(T) == 2)
        values[i] = static_cast<double>(static_cast<float>(p[at]));
      else
        values[i] = static_cast<double>(p[at]);
    });
  });
  return values;
}

std::uint64_t hash(const Tensor& x, std::uint64_t seed) {
  const auto* bytes = static_cast<const unsigned char*>(x.raw_data());
  std::size_t size = item_size(x.dtype());
  each(x.shape(), x.strides(), [&](std::size_t, std::int64_t at) {
    for (std::size_t b = 0; b < size; ++b)
      seed = (seed ^ bytes[static_cast<std::size_t>(at) * size + b]) * 1099511628211ull;
  });
  return seed;
}

Tensor Drawn::on(Device device, bool grad) const {
  if (!base.defined()) return {};
  Tensor x = detail::alias(view(base.to(device), input->shape, variant));
  if (grad && differentiable()) x.requires_grad_();
  return x;
}

Tensor Drawn::exact(bool grad) const {
  if (!base.defined()) return {};
  Tensor x = make(values, input->shape, is_floating(base.dtype()) || !input->fixed ? f64 : base.dtype());
  if (grad && differentiable()) x.requires_grad_();
  return x;
}

std::vector<Drawn> draw(const Sample& sample, DType dtype, Variant variant) {
  std::vector<Drawn> all;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const Input& input = sample.inputs[i];
    Drawn drawn{&input, changes(input, variant) ? variant : Variant::contiguous, {}, {}};
    if (input.kind != Input::Kind::none) {
      DType t = dtype_of(input, dtype);
      drawn.values = draw_values(input, t, seed_of(sample, i));
      drawn.base = lay_out(drawn.values, input.shape, t, drawn.variant);
    }
    all.push_back(std::move(drawn));
  }
  return all;
}

std::vector<double> draw_gradient(const Sample& sample, std::size_t output, std::int64_t count, DType dtype) {
  Random random(seed_of(sample, 1000 + output));
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& v : values) {
    double magnitude = 0.5 + random.uniform();
    v = rounded((random.bits() & 1) != 0 ? magnitude : -magnitude, dtype);
  }
  return values;
}

}  // namespace etna::conformance
