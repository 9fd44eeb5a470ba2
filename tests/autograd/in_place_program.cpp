#include "in_place_program.h"

#include <etna/tensor/capture.h>

namespace etna {
namespace {

constexpr std::int64_t kElements = 12;  ///< of a base, and of a leaf

Tensor list_of(const Tensor& x) { return x.reshape({x.numel()}); }

/// What is no part of a step that is captured.
template <typename F>
Tensor on_the_host(const F& f) {
  const NotCaptured now;
  return f();
}

}  // namespace

InPlaceProgram::InPlaceProgram(std::uint32_t seed, TensorOptions options) : seed_(seed), options_(options) {
  random_.seed(seed);
  for (int i = 0; i < 3; ++i) {
    std::vector<double> values;
    for (int e = 0; e < kElements; ++e) values.push_back(number());
    wanted_leaves.push_back(from_vector(values, {3, 4}).requires_grad_());
    leaves.push_back(from_vector(values, {3, 4}).to(options.dtype).to(options.device).requires_grad_());
  }
}

void InPlaceProgram::start(bool reference) {
  reference_ = reference, stale_ = false, constants_used_ = 0;
  random_.seed(seed_);
  bases_.clear(), saved_.clear(), handles_.clear(), read_.clear();
  add_base(both({leaves[0], wanted_leaves[0]}, [](const Tensor& p) { return p * 1.5; }));
  add_base({zeros({3, 4}, options_), reference ? zeros({3, 4}, f64) : Tensor()});
  add_base(both(constant({2, 2, 3}, options_.dtype), [](const Tensor& c) { return c.clone(); }));
  for (int i = 0; i < 16; ++i) step();
  finish();
}

/// @param limit of integers; bool and floating numbers have none
InPlaceProgram::Both InPlaceProgram::constant(Shape shape, DType dtype, std::int64_t limit) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < numel(shape); ++i)
    values.push_back(limit > 0 ? pick(static_cast<std::size_t>(limit)) : dtype == boolean ? pick(2) : number());
  if (constants_used_ == constants_.size()) {
    const Tensor x = from_vector(values, shape);
    constants_.push_back({x.to(dtype).to(options_.device), x.to(is_floating(dtype) ? f64 : dtype)});
  }
  return constants_[constants_used_++];
}

void InPlaceProgram::add_base(const Both& x) {
  const Tensor places = on_the_host([&] { return arange(kElements).reshape(x.x.shape()); });
  handles_.push_back({x.x, bases_.size(), places});
  bases_.push_back(reference_ ? list_of(x.wanted) : Tensor());
  saved_.push_back(false);
}

InPlaceProgram::Handle InPlaceProgram::view_of(const Handle& h) {
  const int dims = h.x.dim();
  bool read_only = h.read_only;
  Function f = [](const Tensor& x) { return x.unsqueeze(0); };
  const std::uint32_t kind = pick(8);
  if (kind == 7) {
    Shape shape = h.x.shape();
    shape.insert(0, 2);
    f = [shape](const Tensor& x) { return x.expand(shape); };
    read_only = true;
  } else if (dims == 0) {
  } else if (kind <= 1) {
    const int d = pick_dim(h);
    const auto size = h.x.size(d);
    const std::int64_t begin = pick(static_cast<std::size_t>(size)), step = 1 + pick(2);
    const std::int64_t end = begin + 1 + pick(static_cast<std::size_t>(size - begin));
    f = [=](const Tensor& x) { return x.slice(d, begin, end, step); };
  } else if (kind == 2) {
    const int d = pick_dim(h);
    const std::int64_t at = pick(static_cast<std::size_t>(h.x.size(d)));
    f = [=](const Tensor& x) { return x.select(d, at); };
  } else if (kind == 3 && dims >= 2) {
    const int a = pick_dim(h), b = pick_dim(h);
    f = [=](const Tensor& x) { return x.transpose(a, b); };
  } else if (kind == 4 && dims >= 2) {
    const std::int64_t offset = pick(2) == 0 && h.x.size(1) > 1 ? 1 : 0;
    f = [=](const Tensor& x) { return x.diagonal(offset); };
  } else if (kind == 5 && h.x.is_contiguous()) {
    f = [](const Tensor& x) { return x.view({-1}); };
  } else if (kind == 6) {
    const int d = pick_dim(h);
    const std::uint32_t part = pick(2);
    f = [=](const Tensor& x) {
      const auto parts = x.chunk(2, d);
      return parts[std::min<std::size_t>(part, parts.size() - 1)];
    };
  }
  const Tensor places = on_the_host([&] { return f(h.places); });
  if (places.dim() > 4) return h;
  return {f(h.x), h.base, places, read_only};
}

Tensor InPlaceProgram::wanted_of(const Handle& h) const {
  return index_select(bases_[h.base], 0, list_of(h.places)).reshape(h.places.shape());
}

/// What is written to a region of this shape.
InPlaceProgram::Both InPlaceProgram::source(const Shape& shape, bool saved) {
  const std::int64_t n = numel(shape);
  const auto fit = [&](const Tensor& x) { return list_of(x).slice(0, x.numel() - n, x.numel()).reshape(shape); };
  const std::uint32_t kind = pick(5), leaf = pick(3);
  const double factor = number();
  if (kind == 0) return constant(shape, options_.dtype);
  if (kind == 1) return both({leaves[leaf], wanted_leaves[leaf]}, [&](const Tensor& p) { return p.mean() * factor; });
  if (kind >= 3) {
    const Handle h = handles_[pick(handles_.size())];
    if (h.x.numel() >= n) {
      const Tensor x = fit(h.x);
      return {saved ? x.clone() : x, reference_ ? fit(wanted_of(h)) : Tensor()};
    }
  }
  return both({leaves[leaf], wanted_leaves[leaf]}, [&](const Tensor& p) { return fit(p) * factor; });
}

void InPlaceProgram::step() {
  const Handle h = handles_[pick(handles_.size())];
  const std::uint32_t kind = pick(8);
  if (kind <= 1) {
    if (handles_.size() < 9) handles_.push_back(view_of(h));
  } else if (kind <= 2) {
    read(h);
  } else if (const Handle to = pick(2) == 0 ? h : view_of(h); !to.read_only) {
    const std::uint32_t version = to.x.storage()->version;
    write(to);
    if (saved_[to.base] && to.x.storage()->version != version) stale_ = true;
  }
}

void InPlaceProgram::read(const Handle& h) {
  const Both x{h.x, reference_ ? wanted_of(h) : Tensor()};
  const std::uint32_t kind = pick(9);
  if (kind == 0 && h.x.requires_grad()) {
    read_.push_back(both(x, [](const Tensor& v) { return v * v; }));
    saved_[h.base] = true;
  } else if (kind % 2 == 0) {
    read_.push_back(both(x, [](const Tensor& v) { return exp(v * 0.125); }));
  } else {
    read_.push_back(both(x, [](const Tensor& v) { return tanh(v.clone()); }));
  }
}

/// The reference of a write: f of what the handle's elements were.
void InPlaceProgram::replace(const Handle& h, const Function& f) {
  if (!reference_) return;
  Tensor& base = bases_[h.base];
  const Tensor after = f(wanted_of(h)).expand(h.places.shape());
  base = scatter(base, 0, list_of(h.places), list_of(after));
}

void InPlaceProgram::write(const Handle& h) {
  Tensor x = h.x;
  const std::uint32_t kind = pick(20);
  const double c = number();
  if (kind >= 11) return indexed_write(h, kind);
  if (kind == 10) return unrecorded_write(h);
  const bool scaled = kind == 5;
  const Both s = kind <= 6 ? source(x.shape(), kind <= 1) : Both();
  switch (kind) {
    case 0:
      x.mul_(s.x);
      return replace(h, [&](const Tensor& v) { return v * s.wanted; });
    case 1:
      x.div_(square(s.x) + 1.0);
      return replace(h, [&](const Tensor& v) { return v / (square(s.wanted) + 1.0); });
    case 2:
      x.copy_(s.x);
      return replace(h, [&](const Tensor&) { return s.wanted; });
    case 3:
      x -= s.x;
      return replace(h, [&](const Tensor& v) { return v - s.wanted; });
    case 4:
    case 5:
      x.add_(s.x, scaled ? c : 1);
      return replace(h, [&](const Tensor& v) { return v + s.wanted * (scaled ? c : 1.0); });
    case 6: {
      if (x.dim() == 0) return;
      Tensor row = x[0];
      row += s.x.dim() == 0 ? s.x : s.x[0];
      return replace(h, [&](const Tensor& v) {
        return cat({(v.slice(0, 0, 1) + (s.wanted.dim() == 0 ? s.wanted : s.wanted.slice(0, 0, 1))),
                    v.slice(0, 1, v.size(0))});
      });
    }
    case 7:
      x.fill_(c);
      return replace(h, [&](const Tensor& v) { return zeros_like(v) + c; });
    case 8:
      x *= c;
      return replace(h, [&](const Tensor& v) { return v * c; });
    default:
      x.add_(c).div_(1.25);
      return replace(h, [&](const Tensor& v) { return (v + c) / 1.25; });
  }
}

void InPlaceProgram::indexed_write(const Handle& h, std::uint32_t kind) {
  if (h.x.dim() == 0) return;
  Tensor x = h.x;
  const Shape& shape = x.shape();
  const double c = number();
  if (kind <= 13) {
    const Both mask = constant(shape, boolean);
    if (kind == 13) {
      const Both s = source(Shape{x.numel()}, false);
      if (s.x.dim() == 0) return;
      masked_scatter_(x, mask.x, s.x);
      return replace(h, [&](const Tensor& v) { return masked_scatter(v, mask.wanted, s.wanted); });
    }
    if (kind == 11) {
      x[mask.x] = c;
      return replace(h, [&](const Tensor& v) { return masked_fill(v, mask.wanted, c); });
    }
    const Both s = source({}, false);
    x.index_put_({mask.x}, s.x);
    return replace(h, [&](const Tensor& v) { return where(mask.wanted, s.wanted, v); });
  }
  const int d = pick_dim(h);
  Shape rows = shape;
  rows[d] = 2;
  const Both index = constant({2}, i64, shape[d]);
  if (kind <= 15) {
    Index at, wanted_at;
    for (int i = 0; i < d; ++i) at.emplace_back(Slice()), wanted_at.emplace_back(Slice());
    at.emplace_back(index.x), wanted_at.emplace_back(index.wanted);
    const Both s = source(numel(rows) <= kElements ? rows : Shape{}, false);
    x.index_put_(at, s.x, kind == 15);
    return replace(h, [&](const Tensor& v) { return index_put(v, wanted_at, s.wanted, kind == 15); });
  }
  if (kind == 16) {
    index_fill_(x, d, index.x, c);
    return replace(h, [&](const Tensor& v) { return index_fill(v, d, index.wanted, c); });
  }
  if (numel(rows) > kElements) return;
  const Both s = both(source(rows, false), [&](const Tensor& t) { return t.expand(rows); });
  if (kind == 17) {
    index_add_(x, d, index.x, s.x, c);
    return replace(h, [&](const Tensor& v) { return index_add(v, d, index.wanted, s.wanted, c); });
  }
  const Both places = constant(rows, i64, shape[d]);
  if (kind == 18) {
    scatter_(x, d, places.x, s.x);
    return replace(h, [&](const Tensor& v) { return scatter(v, d, places.wanted, s.wanted); });
  }
  scatter_add_(x, d, places.x, s.x);
  replace(h, [&](const Tensor& v) { return scatter_add(v, d, places.wanted, s.wanted); });
}

/// Values change, gradients flow as if they had not.
void InPlaceProgram::unrecorded_write(const Handle& h) {
  const Both c = constant(h.x.shape(), options_.dtype);
  if (pick(2) == 0) {
    h.x.detach().add_(c.x);
  } else {
    const NoGrad off;
    Tensor(h.x).add_(c.x);
  }
  replace(h, [&](const Tensor& v) { return v + c.wanted; });
}

/// All that was read, all views and all bases count, each element with a factor of its own.
void InPlaceProgram::finish() {
  const auto add = [&](const Both& x) {
    const Both factors = constant(x.x.shape(), options_.dtype);
    const Tensor term = sum(x.x * factors.x);
    got_.loss = got_.loss.defined() ? got_.loss + term : term;
    got_.values.push_back(x.x.detach().clone());
    if (!reference_) return;
    const Tensor wanted = sum(x.wanted * factors.wanted);
    wanted_.loss = wanted_.loss.defined() ? wanted_.loss + wanted : wanted;
    wanted_.values.push_back(x.wanted.detach());
  };
  got_ = wanted_ = {};
  for (const Handle& h : handles_) add({h.x, reference_ ? wanted_of(h) : Tensor()});
  for (const Both& x : read_) add(x);
}

}  // namespace etna
