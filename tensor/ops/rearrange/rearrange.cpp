#include <etna/tensor/ops/rearrange/rearrange.h>

#include <numeric>

#include <fmt/format.h>

#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

// Composed of views, cat() and copies.
namespace etna {

Tensor fliplr(const Tensor& x) {
  detail::require_defined("fliplr", x);
  if (x.dim() < 2) throw ShapeError(fmt::format("fliplr: {} has no dimension 1; use flip", str(x.shape())));
  return flip(x, 1);
}
Tensor flipud(const Tensor& x) {
  detail::require_defined("flipud", x);
  if (x.dim() < 1) throw ShapeError("flipud: a tensor without dimensions has no dimension 0");
  return flip(x, 0);
}

Tensor roll(const Tensor& x, Dims shifts, Dims dims) {
  detail::require_defined("roll", x);
  if (dims.empty() && shifts.rank() == 1) return roll(x.reshape({x.numel()}), shifts, 0).reshape(x.shape());
  if (shifts.rank() != dims.rank() || shifts.empty())
    throw ShapeError(fmt::format("roll: {} shifts for {} dimensions; pass one each", shifts.rank(), dims.rank()));
  Tensor y = x;
  for (int i = 0; i < dims.rank(); ++i) {
    const int d = wrap_dim(dims[i], x.dim(), "roll");
    const std::int64_t n = x.dim() == 0 ? 0 : x.shape()[d];
    if (n == 0) continue;
    const std::int64_t first = (n - shifts[i] % n) % n;  // the element of x that becomes the first of the result
    if (first != 0) y = cat({y.slice(d, first, n), y.slice(d, 0, first)}, d);
  }
  return y;
}

Tensor rot90(const Tensor& x, std::int64_t k, Dims dims) {
  detail::require_defined("rot90", x);
  if (dims.rank() != 2 || x.dim() < 2)
    throw ShapeError(
        fmt::format("rot90: {} does not turn in dimensions {}; two are needed", str(x.shape()), str(dims)));
  const int a = wrap_dim(dims[0], x.dim(), "rot90"), b = wrap_dim(dims[1], x.dim(), "rot90");
  if (a == b) throw ShapeError(fmt::format("rot90: dimension {} is named twice", a));
  switch ((k % 4 + 4) % 4) {
    case 1:
      return flip(x, b).transpose(a, b);
    case 2:
      return flip(x, {a, b});
    case 3:
      return flip(x, a).transpose(a, b);
    default:
      return x.clone();
  }
}

Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b) { return x.transpose(a, b); }
Tensor swapdims(const Tensor& x, std::int64_t a, std::int64_t b) { return x.transpose(a, b); }

Tensor movedim(const Tensor& x, Dims source, Dims destination) {
  detail::require_defined("movedim", x);
  if (source.rank() != destination.rank()) {
    throw ShapeError(fmt::format("movedim: got {} sources and {} destinations; pass equal numbers of both",
                                 source.rank(), destination.rank()));
  }
  if (x.dim() == 0) return x;
  Dims order = Dims::filled(x.dim(), -1), taken;
  for (int i = 0; i < source.rank(); ++i) {
    const int from = wrap_dim(source[i], x.dim(), "movedim"), to = wrap_dim(destination[i], x.dim(), "movedim");
    if (taken.contains(from) || order[to] != -1) {
      throw ShapeError(fmt::format("movedim: a dimension is named twice in {} or {}", str(source), str(destination)));
    }
    order[to] = from;
    taken.push_back(from);
  }
  int next = 0;
  for (std::int64_t& place : order) {
    while (taken.contains(next)) ++next;
    if (place == -1) place = next++;
  }
  return x.permute(order);
}
Tensor moveaxis(const Tensor& x, Dims source, Dims destination) { return movedim(x, source, destination); }

Tensor repeat(const Tensor& x, Dims repeats) {
  detail::require_defined("repeat", x);
  const int extra = repeats.rank() - x.dim();
  if (extra < 0) {
    throw ShapeError(fmt::format("repeat: {} has fewer numbers than {} has dimensions; pass one each, or use tile",
                                 str(repeats), str(x.shape())));
  }
  // Repeats of 1 add no intermediate dimension, so that eight dimensions suffice; if needed, the others are repeated
  // one at a time.
  Tensor y = x;
  for (int i = 0; i < extra; ++i) y = y.unsqueeze(0);
  Shape wanted = y.shape();
  int repeated = 0;
  for (int d = 0; d < wanted.rank(); ++d) {
    if (repeats[d] < 0) throw ShapeError(fmt::format("repeat: {} has a negative number", str(repeats)));
    wanted[d] = checked_product(wanted[d], repeats[d], "repeat");
    repeated += repeats[d] != 1;
  }
  if (repeated == 0) return y.clone();
  if (wanted.rank() + repeated <= kMaxRank) {
    Shape spread;
    for (int d = 0; d < wanted.rank(); ++d) {
      if (repeats[d] != 1) spread.push_back(repeats[d]);
      spread.push_back(y.shape()[d]);
    }
    Shape narrow;
    for (int d = 0; d < wanted.rank(); ++d) {
      if (repeats[d] != 1) narrow.push_back(1);
      narrow.push_back(y.shape()[d]);
    }
    return y.reshape(narrow).expand(spread).reshape(wanted);
  }
  for (int d = 0; d < wanted.rank(); ++d) {
    if (repeats[d] == 1) continue;
    Shape front, back;
    for (int i = 0; i < d; ++i) front.push_back(y.shape()[i]);
    for (int i = d; i < y.dim(); ++i) back.push_back(y.shape()[i]);
    const std::int64_t outer = numel(front, "repeat"), inner = numel(back, "repeat");
    Shape whole = y.shape();
    whole[d] *= repeats[d];
    y = y.reshape({outer, 1, inner}).expand({outer, repeats[d], inner}).reshape(whole);
  }
  return y;
}

Tensor tile(const Tensor& x, Dims repeats) {
  detail::require_defined("tile", x);
  while (repeats.rank() < x.dim()) repeats.insert(0, 1);
  return repeat(x, repeats);
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::int64_t dim) {
  detail::require_defined("repeat_interleave", x);
  const int d = wrap_dim(dim, x.dim(), "repeat_interleave");
  if (repeats < 0) throw ShapeError(fmt::format("repeat_interleave: got {} repeats; wanted at least 0", repeats));
  const Tensor list = x.dim() == 0 ? x.reshape({1}) : x;
  Shape front, back, whole = list.shape();
  for (int i = 0; i <= d; ++i) front.push_back(list.shape()[i]);
  for (int i = d + 1; i < list.dim(); ++i) back.push_back(list.shape()[i]);
  const std::int64_t outer = numel(front, "repeat_interleave"), inner = numel(back, "repeat_interleave");
  whole[d] = checked_product(whole[d], repeats, "repeat_interleave");
  return list.reshape({outer, 1, inner}).expand({outer, repeats, inner}).reshape(whole);
}
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats) {
  detail::require_defined("repeat_interleave", x);
  return repeat_interleave(x.reshape({x.numel()}), repeats, 0);
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::int64_t dim) {
  detail::require_defined("repeat_interleave", x, repeats);
  capture_hooks::forbid("repeat_interleave", "the number of results depends on values of a tensor");
  const int d = wrap_dim(dim, x.dim(), "repeat_interleave");
  const Tensor list = x.dim() == 0 ? x.reshape({1}) : x;
  const std::int64_t n = list.shape()[d];
  const bool counts = repeats.dtype() == i64 || repeats.dtype() == i32;
  if (!counts || repeats.dim() > 1 || (repeats.numel() != n && repeats.numel() != 1)) {
    throw ShapeError(fmt::format("repeat_interleave: repeats are {} {}; they must be i64 or i32, one or {}",
                                 name(repeats.dtype()), str(repeats.shape()), n));
  }
  const std::vector<std::int64_t> each = repeats.to_vector<std::int64_t>();
  std::vector<std::int64_t> chosen;
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t count = each[each.size() == 1 ? 0 : static_cast<std::size_t>(i)];
    if (count < 0)
      throw ShapeError(fmt::format("repeat_interleave: element {} has a count of {}; wanted at least 0", i, count));
    total = checked_sum(total, count, "repeat_interleave");
    if (total > std::int64_t{0x7fffffff})
      throw ShapeError("repeat_interleave: the result has more than 2^31 elements, which kernels do not index");
    chosen.insert(chosen.end(), static_cast<std::size_t>(count), i);
  }
  return index_select(list, d, from_vector(chosen, Shape{total}, x.device()));
}
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats) {
  detail::require_defined("repeat_interleave", x, repeats);
  return repeat_interleave(x.reshape({x.numel()}), repeats, 0);
}

Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length) {
  detail::require_defined("narrow", x);
  if (x.dim() == 0) throw ShapeError("narrow: got a 0-d tensor; wanted at least one dimension");
  const int d = wrap_dim(dim, x.dim(), "narrow");
  const std::int64_t n = x.shape()[d];
  if (start < -n || start > n || length < 0 || length > n - (start < 0 ? start + n : start)) {
    throw ShapeError(
        fmt::format("narrow: {} elements from {} on exceed dimension {} of {}", length, start, d, str(x.shape())));
  }
  if (start < 0) start += n;
  return x.slice(d, start, start + length);
}

std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim) {
  detail::require_defined("unbind", x);
  if (x.dim() == 0) throw ShapeError("unbind: got a 0-d tensor; wanted at least one dimension");
  const int d = wrap_dim(dim, x.dim(), "unbind");
  if (x.shape()[d] == 0) return {};
  std::vector<Tensor> parts = x.split(1, d);
  for (Tensor& part : parts) part = part.squeeze(d);
  return parts;
}

Tensor unflatten(const Tensor& x, std::int64_t dim, Dims sizes) {
  detail::require_defined("unflatten", x);
  if (x.dim() == 0 || sizes.empty())
    throw ShapeError(fmt::format("unflatten: {} does not split into {}", str(x.shape()), str(sizes)));
  const int d = wrap_dim(dim, x.dim(), "unflatten");
  Shape wanted;
  std::int64_t unknown = 0, known = 1;
  for (std::int64_t size : sizes) {
    if (size == -1)
      ++unknown;
    else if (size < 0)
      throw ShapeError(fmt::format("unflatten: {} has a negative size; one size may be -1", str(sizes)));
    else
      known = checked_product(known, size, "unflatten");
  }
  const std::int64_t n = x.shape()[d];
  if (unknown > 1 || (unknown == 0 ? known != n : known == 0 || n % known != 0)) {
    throw ShapeError(fmt::format("unflatten: dimension {} of {} has {} elements; the product of {} differs", d,
                                 str(x.shape()), n, str(sizes)));
  }
  for (int i = 0; i < x.dim(); ++i) {
    if (i != d)
      wanted.push_back(x.shape()[i]);
    else
      for (std::int64_t size : sizes) wanted.push_back(size == -1 ? n / known : size);
  }
  return x.reshape(wanted);
}

Tensor atleast_1d(const Tensor& x) {
  detail::require_defined("atleast_1d", x);
  return x.dim() == 0 ? x.reshape({1}) : x;
}
Tensor atleast_2d(const Tensor& x) {
  detail::require_defined("atleast_2d", x);
  return x.dim() < 2 ? x.reshape({1, x.numel()}) : x;
}
Tensor atleast_3d(const Tensor& x) {
  detail::require_defined("atleast_3d", x);
  return x.dim() < 2 ? x.reshape({1, x.numel(), 1}) : x.dim() == 2 ? x.unsqueeze(-1) : x;
}

namespace {

std::vector<Tensor> each(const std::vector<Tensor>& tensors, const char* op, Tensor (*f)(const Tensor&)) {
  if (tensors.empty()) throw ShapeError(fmt::format("{}: got no tensors; wanted at least one", op));
  std::vector<Tensor> all;
  for (const Tensor& x : tensors) all.push_back(f(x));
  return all;
}

/// A list as a column.
Tensor column(const Tensor& x) { return x.dim() < 2 ? x.reshape({x.numel(), 1}) : x; }

}  // namespace

Tensor hstack(const std::vector<Tensor>& tensors) {
  const std::vector<Tensor> all = each(tensors, "hstack", atleast_1d);
  return cat(all, all[0].dim() == 1 ? 0 : 1);
}
Tensor vstack(const std::vector<Tensor>& tensors) { return cat(each(tensors, "vstack", atleast_2d), 0); }
Tensor dstack(const std::vector<Tensor>& tensors) { return cat(each(tensors, "dstack", atleast_3d), 2); }
Tensor column_stack(const std::vector<Tensor>& tensors) { return cat(each(tensors, "column_stack", column), 1); }

std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, std::string_view indexing) {
  if (indexing != "ij" && indexing != "xy")
    throw ShapeError(fmt::format("meshgrid: indexing is \"{}\"; it must be \"ij\" or \"xy\"", indexing));
  Shape whole;
  for (const Tensor& x : tensors) {
    detail::require_defined("meshgrid", x);
    if (x.dim() > 1) throw ShapeError(fmt::format("meshgrid: {} is not a list", str(x.shape())));
    whole.push_back(x.numel());
  }
  std::vector<Tensor> grids;
  for (int i = 0; i < whole.rank(); ++i) {
    Shape along = Dims::filled(whole.rank(), 1);
    along[i] = whole[i];
    Tensor grid = tensors[static_cast<std::size_t>(i)].reshape(along).expand(whole);
    if (indexing == "xy" && whole.rank() > 1) grid = grid.transpose(0, 1);
    grids.push_back(grid);
  }
  return grids;
}

Tensor cartesian_prod(const std::vector<Tensor>& tensors) {
  for (const Tensor& x : tensors) {
    detail::require_defined("cartesian_prod", x);
    if (x.dim() != 1) throw ShapeError(fmt::format("cartesian_prod: {} is not a list", str(x.shape())));
  }
  if (tensors.empty()) throw ShapeError("cartesian_prod: there are no lists");
  if (tensors.size() == 1) return tensors[0];
  std::vector<Tensor> grids = meshgrid(tensors);
  for (Tensor& grid : grids) grid = grid.reshape({grid.numel()});
  return stack(grids, 1);
}

Tensor one_hot(const Tensor& index, std::int64_t num_classes) {
  detail::require_defined("one_hot", index);
  if (index.dtype() != i64 && index.dtype() != i32)
    throw DtypeError(fmt::format("one_hot: the index is {}, it must be i64 or i32", name(index.dtype())));
  if (num_classes < -1) throw ShapeError(fmt::format("one_hot: {} classes; pass at least 1, or -1", num_classes));
  if (num_classes == -1) {
    capture_hooks::forbid("one_hot", "the number of classes depends on values of a tensor; pass num_classes");
    if (index.numel() == 0)
      throw ShapeError("one_hot: an empty index does not determine the number of classes; pass num_classes");
    num_classes = max(index).item<std::int64_t>() + 1;
  }
  if (num_classes < 1 && index.numel() > 0)
    throw ShapeError(fmt::format("one_hot: {} classes for {} indices", num_classes, index.numel()));
  if (index.device().is_cpu() && index.numel() > 0) {
    const auto low = min(index).item<std::int64_t>(), high = max(index).item<std::int64_t>();
    if (low < 0 || high >= num_classes) {
      throw IndexError(fmt::format("one_hot: index {} is outside [0, {}); num_classes is {}", low < 0 ? low : high,
                                   num_classes, num_classes));
    }
  }
  Shape shape = index.shape();
  shape.push_back(num_classes);
  const TensorOptions options = {i64, index.device()};
  const Tensor place = index.unsqueeze(-1);
  return scatter_add(zeros(shape, options), -1, place, ones(place.shape(), options));
}

}  // namespace etna
