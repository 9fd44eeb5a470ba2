#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <etna/tensor/internal/in_place.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>
#include <etna/tensor/ops/indexing/internal/in_place.h>
#include <etna/tensor/ops/indexing/internal/put.h>
#include <etna/tensor/ops/indexing/internal/rows.h>

// scatter, index_add and their family: each writes rows to places of x (tensor/ops/indexing/internal/put.h).
namespace etna {

Tensor& indexing::replace_in_place(const char* op, Tensor& x, const Tensor& source,
                                   const std::function<Tensor(const Tensor&)>& result) {
  if (in_place::wants_record(op, x, source)) return in_place::record(op, x, result);
  GradMode off(false);
  return x.copy_(result(x));
}

void indexing::write_in_place(Tensor& x, const std::function<void(const Tensor&)>& write) {
  if (x.is_contiguous()) return write(x);
  const Tensor copied = x.clone();
  write(copied);
  x.copy_(copied);
}

namespace {

using indexing::PutMode;

Tensor scatter_at_least_1d(const Tensor& x) { return x.dim() == 0 ? x.reshape({1}) : x; }

/// Rows of `width` elements for places of x.
struct ScatterRows {
  Tensor places, source;
  std::int64_t width = 1;
  PutMode mode = PutMode::replace;
  bool distinct = false;

  Tensor table(const Tensor& x) const { return x.reshape({x.numel() / width, width}); }
  Tensor put(const Tensor& x) const {
    if (x.numel() == 0) return x.clone();
    return put_rows(table(x), places, source, mode, distinct).reshape(x.shape());
  }
  void put_in_place(Tensor& x, const Tensor& values) const {
    indexing::write_in_place(x, [&](const Tensor& to) {
      // The values may be a view of x, which writing would overwrite.
      const Tensor from = values.defined() && values.storage() == x.storage() ? source.clone() : source;
      if (to.numel() > 0) put_rows_(table(to), places, from, mode, distinct);
    });
  }
};

void check_dtype(const char* op, const Tensor& x, const Tensor& source) {
  if (source.dtype() == x.dtype()) return;
  throw DtypeError(fmt::format("{}: the source is {} and the tensor {}; both must be of one dtype, use .to({})", op,
                               name(source.dtype()), name(x.dtype()), name(x.dtype())));
}
void check_sums(const char* op, const Tensor& x) {
  if (x.dtype() == boolean) throw DtypeError(fmt::format("{}: bool elements are not combined; use i32", op));
}

Tensor scatter_number(const char* op, const Tensor& x, double value, std::int64_t rows, std::int64_t width) {
  return full({1, 1}, detail::number_held(op, x.dtype(), value), {x.dtype(), x.device()}).expand({rows, width});
}

/// @param source undefined if a number is written
ScatterRows scattered(const char* op, const Tensor& given, std::int64_t dim, const Tensor& index,
                      const Tensor& source) {
  const Tensor x = scatter_at_least_1d(given), at = scatter_at_least_1d(index);
  const int d = wrap_dim(dim, x.dim(), op);
  bool fits = at.dim() == x.dim();
  for (int i = 0; fits && i < x.dim(); ++i) fits = i == d || at.shape()[i] <= x.shape()[i];
  if (!fits) {
    throw ShapeError(fmt::format(
        "{}: an index {} does not match {}; it must have as many dimensions, none larger except dimension {}", op,
        str(index.shape()), str(given.shape()), d));
  }
  ScatterRows rows;
  rows.places = indexing::places_along(op, x.shape(), d, at).reshape({at.numel()});
  if (!source.defined()) return rows;
  check_dtype(op, x, source);
  Tensor from = scatter_at_least_1d(source);
  fits = from.dim() == at.dim();
  for (int i = 0; fits && i < at.dim(); ++i) {
    fits = from.shape()[i] >= at.shape()[i];
    if (fits && from.shape()[i] > at.shape()[i]) from = from.slice(i, 0, at.shape()[i]);
  }
  if (!fits) {
    throw ShapeError(
        fmt::format("{}: the source is {}, smaller than the index {}", op, str(source.shape()), str(index.shape())));
  }
  rows.source = from.reshape({at.numel(), 1});
  return rows;
}

ScatterRows scattered(const char* op, const Tensor& x, std::int64_t dim, const Tensor& index, double value) {
  ScatterRows rows = scattered(op, x, dim, index, Tensor());
  rows.source = scatter_number(op, x, value, rows.places.numel(), 1);
  rows.distinct = true;
  return rows;
}

/// Whole slices of one dimension: rows made of the dimensions after it.
ScatterRows indexed(const char* op, const Tensor& given, std::int64_t dim, const Tensor& index, const Tensor& source) {
  const Tensor x = scatter_at_least_1d(given);
  const int d = wrap_dim(dim, x.dim(), op);
  if (index.dim() > 1) {
    throw ShapeError(fmt::format("{}: the index is {}, it must be a list", op, str(index.shape())));
  }
  const std::int64_t count = index.numel(), size = x.shape()[d];
  const std::int64_t inner = numel(Shape(std::span(x.shape().begin() + d + 1, x.shape().end())), op);
  const std::int64_t outer = numel(Shape(std::span(x.shape().begin(), x.shape().begin() + d)), op);
  ScatterRows rows;
  rows.width = std::max<std::int64_t>(inner, 1);
  const bool wide = x.numel() > std::int64_t{0x7fffffff};
  rows.places = indexing::linear_index(index.reshape({1, count}).expand({outer, count}), {},
                                       {op, size, 1, false, wide, Strides{size, 0}})
                    .reshape({outer * count});
  if (!source.defined()) return rows;
  check_dtype(op, x, source);
  Shape wanted = x.shape();
  wanted[d] = count;
  if (scatter_at_least_1d(source).shape() != wanted) {
    throw ShapeError(fmt::format("{}: the source is {}; with an index of {} into dimension {} of {} it must be {}", op,
                                 str(source.shape()), count, d, str(given.shape()), str(wanted)));
  }
  rows.source = source.reshape({outer * count, inner});
  return rows;
}

ScatterRows indexed(const char* op, const Tensor& x, std::int64_t dim, const Tensor& index, double value) {
  ScatterRows rows = indexed(op, x, dim, index, Tensor());
  rows.source = scatter_number(op, x, value, rows.places.numel(), rows.width);
  rows.distinct = true;
  return rows;
}

ScatterRows scatter_added(ScatterRows rows, const char* op, const Tensor& x, double alpha = 1) {
  check_sums(op, x);
  rows.mode = PutMode::add;
  const bool whole = alpha == std::trunc(alpha) && std::abs(alpha) < 0x1p63;
  if (!is_floating(x.dtype()) && !whole) detail::number_held(op, x.dtype(), alpha);
  if (alpha != 1) rows.source = rows.source * alpha;
  return rows;
}

ScatterRows listed(const char* op, const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate) {
  check_dtype(op, x, source);
  if (source.numel() != index.numel()) {
    throw ShapeError(
        fmt::format("{}: {} elements of the source do not match {} indices", op, source.numel(), index.numel()));
  }
  const std::int64_t n = index.numel();
  ScatterRows rows;
  rows.places = indexing::places_along(op, {x.numel()}, 0, index.reshape({n}), true);
  rows.source = source.reshape({n, 1});
  return accumulate ? scatter_added(rows, op, x) : rows;
}

/// The neutral element of a mode: infinity, the largest or smallest value of a floating dtype, 0 or 1.
double identity(PutMode mode) {
  if (mode == PutMode::add) return 0;
  if (mode == PutMode::multiply) return 1;
  return (mode == PutMode::largest ? -1 : 1) * std::numeric_limits<double>::infinity();
}

Tensor scatter_reduced(const char* op, const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                       std::string_view reduce, bool include_self) {
  detail::require_defined(op, x, index, source);
  check_sums(op, x);
  PutMode mode = PutMode::add;
  const bool mean = reduce == "mean";
  if (reduce == "prod") {
    mode = PutMode::multiply;
  } else if (reduce == "amax") {
    mode = PutMode::largest;
  } else if (reduce == "amin") {
    mode = PutMode::smallest;
  } else if (reduce != "sum" && !mean) {
    throw Error(fmt::format("{}: unknown reduction '{}'; wanted sum, prod, mean, amax or amin", op, reduce));
  }
  if (mean && !is_floating(x.dtype())) {
    throw DtypeError(fmt::format("{}: a mean of {} is not defined; convert to f32 first", op, name(x.dtype())));
  }
  ScatterRows rows = scattered(op, x, dim, index, source);
  if (x.numel() == 0 || rows.places.numel() == 0) return x.clone();
  rows.mode = mode;
  Tensor table = rows.table(x);
  auto with_number = [&](const Tensor& to, double value) {
    return put_rows(to, rows.places, scatter_number(op, to, value, rows.places.numel(), 1), PutMode::replace, true);
  };
  const bool extreme = mode == PutMode::largest || mode == PutMode::smallest;
  if (!include_self && extreme && !is_floating(x.dtype())) {
    table = put_rows(table, rows.places, rows.source, PutMode::replace);  // integers have no infinity
  } else if (!include_self) {
    table = with_number(table, identity(mode));
  }
  Tensor y = put_rows(table, rows.places, rows.source, mode);
  if (mean) {
    const TensorOptions counting{x.dtype() == f64 ? f64 : f32, x.device()};
    Tensor counts = ones(table.shape(), counting);
    if (!include_self) counts = with_number(counts, 0);
    counts = put_rows(counts, rows.places, ones({rows.places.numel(), 1}, counting), PutMode::add);
    y = (y / counts).to(x.dtype());
  }
  return y.reshape(x.shape());
}

/// Writes the rows that `rows` makes for x into x itself.
/// @param source undefined if a number is written
template <typename Rows>
Tensor& put_in_place(const char* op, Tensor& x, const Tensor& source, Rows rows) {
  if (in_place::wants_record(op, x, source))
    return in_place::record(op, x, [&](const Tensor& old) { return rows(old).put(old); });
  GradMode off(false);
  rows(x).put_in_place(x, source);
  return x;
}

}  // namespace

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  detail::require_defined("scatter", x, index, source);
  return scattered("scatter", x, dim, index, source).put(x);
}
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, double value) {
  detail::require_defined("scatter", x, index);
  return scattered("scatter", x, dim, index, value).put(x);
}
Tensor scatter_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                      std::string_view reduce, bool include_self) {
  return scatter_reduced("scatter_reduce", x, dim, index, source, reduce, include_self);
}
Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source, double alpha) {
  detail::require_defined("index_add", x, index, source);
  return scatter_added(indexed("index_add", x, dim, index, source), "index_add", x, alpha).put(x);
}
Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  detail::require_defined("index_copy", x, index, source);
  return indexed("index_copy", x, dim, index, source).put(x);
}
Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, double value) {
  detail::require_defined("index_fill", x, index);
  return indexed("index_fill", x, dim, index, value).put(x);
}

Tensor take(const Tensor& x, const Tensor& index) {
  detail::require_defined("take", x, index);
  const Tensor places = indexing::places_along("take", {x.numel()}, 0, index.reshape({index.numel()}), true);
  return index_select(x.reshape({x.numel()}), 0, places).reshape(index.shape());
}
Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate) {
  detail::require_defined("put", x, index, source);
  return listed("put", x, index, source, accumulate).put(x);
}

Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<std::int64_t> dim) {
  detail::require_defined("take_along_dim", x, index);
  if (!dim) return gather(x.reshape({x.numel()}), 0, index.reshape({index.numel()}));
  if (x.dim() != index.dim() || x.dim() == 0) {
    throw ShapeError(fmt::format("take_along_dim: {} and its index {} must have the same number of dimensions",
                                 str(x.shape()), str(index.shape())));
  }
  const int d = wrap_dim(*dim, x.dim(), "take_along_dim");
  Shape of_x = x.shape(), of_index = index.shape();
  of_x[d] = of_index[d] = 1;
  Shape lines = broadcast(of_x, of_index, "take_along_dim");
  of_x = of_index = lines;
  of_x[d] = x.shape()[d];
  of_index[d] = index.shape()[d];
  return gather(x.expand(of_x), d, index.expand(of_index));
}

Tensor& scatter_(Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  detail::require_defined("scatter_", x, index, source);
  return put_in_place("scatter_", x, source,
                      [&](const Tensor& to) { return scattered("scatter_", to, dim, index, source); });
}
Tensor& scatter_(Tensor& x, std::int64_t dim, const Tensor& index, double value) {
  detail::require_defined("scatter_", x, index);
  return put_in_place("scatter_", x, {},
                      [&](const Tensor& to) { return scattered("scatter_", to, dim, index, value); });
}
Tensor& scatter_add_(Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  const char* op = "scatter_add_";
  detail::require_defined(op, x, index, source);
  return put_in_place(op, x, source,
                      [&](const Tensor& to) { return scatter_added(scattered(op, to, dim, index, source), op, to); });
}
Tensor& scatter_reduce_(Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                        bool include_self) {
  const char* op = "scatter_reduce_";
  detail::require_defined(op, x, index, source);
  return indexing::replace_in_place(op, x, source, [&](const Tensor& to) {
    return scatter_reduced(op, to, dim, index, source, reduce, include_self);
  });
}
Tensor& index_add_(Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source, double alpha) {
  const char* op = "index_add_";
  detail::require_defined(op, x, index, source);
  return put_in_place(op, x, source, [&](const Tensor& to) {
    return scatter_added(indexed(op, to, dim, index, source), op, to, alpha);
  });
}
Tensor& index_copy_(Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  detail::require_defined("index_copy_", x, index, source);
  return put_in_place("index_copy_", x, source,
                      [&](const Tensor& to) { return indexed("index_copy_", to, dim, index, source); });
}
Tensor& index_fill_(Tensor& x, std::int64_t dim, const Tensor& index, double value) {
  detail::require_defined("index_fill_", x, index);
  return put_in_place("index_fill_", x, {},
                      [&](const Tensor& to) { return indexed("index_fill_", to, dim, index, value); });
}
Tensor& put_(Tensor& x, const Tensor& index, const Tensor& source, bool accumulate) {
  detail::require_defined("put_", x, index, source);
  return put_in_place("put_", x, source,
                      [&](const Tensor& to) { return listed("put_", to, index, source, accumulate); });
}
Tensor& masked_scatter_(Tensor& x, const Tensor& mask, const Tensor& source) {
  detail::require_defined("masked_scatter_", x, mask, source);
  return indexing::replace_in_place("masked_scatter_", x, source,
                                    [&](const Tensor& to) { return masked_scatter(to, mask, source); });
}

}  // namespace etna
