#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/internal/in_place.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>
#include <etna/tensor/ops/indexing/internal/in_place.h>
#include <etna/tensor/ops/indexing/internal/put.h>
#include <etna/tensor/ops/indexing/internal/rows.h>
#include <etna/tensor/ops/indexing/internal/select_true.h>

// x[{...}]. Integers, slices, None and Ellipsis first make a view. A slice with a negative step is that view with a
// dimension reversed. Index tensors and masks then select rows of the view: places of a table (put.h).
namespace etna {
namespace {

/// The rest of an index after the view: index tensors, one per dimension of the view, and reversed dimensions.
struct Plan {
  const char* op;
  Tensor view;
  std::vector<Tensor> tensors;  ///< undefined for dimensions taken whole
  std::vector<bool> reversed;

  bool advanced() const {
    return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.defined(); });
  }
  bool reverses() const { return std::find(reversed.begin(), reversed.end(), true) != reversed.end(); }
};

Tensor reverse(const Tensor& x, int dim) {
  const std::int64_t n = x.shape()[dim];
  if (n == 0) return x;
  return index_select(x, dim, static_cast<double>(n - 1) - indexing::numbers(n, x.device()));
}

/// A slice with a negative step as the same elements in ascending order.
Tensor upwards(const Tensor& x, int dim, const Slice& s) {
  const std::int64_t n = x.shape()[dim];
  auto bound = [&](const Slice::Bound& b, std::int64_t otherwise) {
    if (!b) return otherwise;
    return std::clamp<std::int64_t>(*b < 0 ? *b + n : *b, -1, n - 1);
  };
  const std::int64_t start = bound(s.start, n - 1), stop = bound(s.stop, -1);
  if (start <= stop || s.step < -n) return x.slice(dim, std::max<std::int64_t>(start, 0), start > stop ? start + 1 : 0);
  const std::int64_t last = start - (start - stop - 1) / -s.step * -s.step;
  return x.slice(dim, last, start + 1, -s.step);
}

std::int64_t dims_taken(const Index& index) {
  if (index.kind() == Index::Kind::tensor) {
    const Tensor& places = index.tensor();
    return places.defined() && places.dtype() == boolean ? places.dim() : 1;
  }
  return index.kind() == Index::Kind::integer || index.kind() == Index::Kind::slice ? 1 : 0;
}

/// Coordinates of a mask's true elements, as index tensors of its dimensions.
void add_mask(Plan& plan, const Tensor& mask, int dim) {
  for (int d = 0; d < mask.dim(); ++d) {
    if (mask.shape()[d] == plan.view.shape()[dim + d]) continue;
    throw ShapeError(fmt::format("{}: a mask {} does not fit dimensions {} and on of {}", plan.op, str(mask.shape()),
                                 dim, str(plan.view.shape())));
  }
  const Tensor places = indexing::true_places(plan.op, mask);
  if (mask.dim() == 1) {
    plan.tensors.push_back(places);
  } else {
    const Tensor coordinates = indexing::unravel(places, mask.shape());
    for (int d = 0; d < mask.dim(); ++d) plan.tensors.push_back(coordinates.select(1, d));
  }
  plan.reversed.resize(plan.tensors.size());
}

Plan make_plan(const char* op, const Tensor& x, const std::vector<Index>& indices) {
  std::int64_t taken = 0, ellipses = 0;
  for (const Index& i : indices) {
    taken += dims_taken(i);
    ellipses += i.kind() == Index::Kind::ellipsis ? 1 : 0;
  }
  if (taken > x.dim() || ellipses > 1) {
    throw ShapeError(taken > x.dim()
                         ? fmt::format("{}: {} indices for {} of {} dimensions", op, taken, str(x.shape()), x.dim())
                         : fmt::format("{}: more than one Ellipsis", op));
  }
  Plan plan{op, x, {}, {}};
  auto whole = [&](bool backwards = false) {
    plan.tensors.emplace_back();
    plan.reversed.push_back(backwards);
  };
  for (const Index& i : indices) {
    const int d = static_cast<int>(plan.tensors.size());
    if (i.kind() == Index::Kind::integer) {
      const std::int64_t n = plan.view.shape()[d], at = i.integer();
      if (at < -n || at >= n) {
        throw IndexError(fmt::format("{}: index {} is outside [{}, {}), dimension {} of {}", op, at, -n, n, d,
                                     str(plan.view.shape())));
      }
      plan.view = plan.view.select(d, at);
    } else if (i.kind() == Index::Kind::slice) {
      const Slice& s = i.slice();
      if (s.step == 0) throw ShapeError(fmt::format("{}: the step of a slice is 0; it must not be 0", op));
      const std::int64_t n = plan.view.shape()[d];
      if (!s.start && !s.stop && s.step == 1) {
        whole();
        continue;
      }
      plan.view =
          s.step > 0 ? plan.view.slice(d, s.start.value_or(0), s.stop.value_or(n), s.step) : upwards(plan.view, d, s);
      whole(s.step < 0 && plan.view.shape()[d] > 1);
    } else if (i.kind() == Index::Kind::none) {
      plan.view = plan.view.unsqueeze(d);
      whole();
    } else if (i.kind() == Index::Kind::ellipsis) {
      for (std::int64_t k = taken; k < x.dim(); ++k) whole();
    } else if (i.kind() == Index::Kind::flag) {
      plan.view = plan.view.unsqueeze(d);
      plan.tensors.push_back(zeros({i.integer()}, {i64, x.device()}));
      plan.reversed.push_back(false);
    } else {
      const Tensor& tensor = i.tensor();
      detail::require_defined(op, tensor);
      const Tensor there = tensor.to(x.device());
      if (tensor.dtype() == boolean) {
        if (tensor.dim() == 0) plan.view = plan.view.unsqueeze(d);
        add_mask(plan, tensor.dim() == 0 ? there.reshape({1}) : there, d);
      } else {
        indexing::check_index_dtype(op, tensor);
        plan.tensors.push_back(there);
        plan.reversed.push_back(false);
      }
    }
  }
  while (static_cast<int>(plan.tensors.size()) < plan.view.dim()) whole();
  return plan;
}

/// The layout of the indexed view as a table: dimensions up to the last indexed one choose a row.
struct Table {
  Tensor places;       ///< [dimensions of the index tensors, other dimensions before the last indexed one]
  Shape natural;       ///< shape of the selected rows: places, then the dimensions after the last indexed one
  Dims order;          ///< order of natural's dimensions in the result
  std::int64_t width;  ///< elements per row
  Dims slices;         ///< dimension of the result for each whole dimension of the view; -1 for indexed ones
};

Table make_table(const Plan& plan) {
  const Shape& shape = plan.view.shape();
  const int rank = shape.rank();
  Shape common;
  int first = rank, last = 0, scattered = 0, count = 0, first_list = rank, last_list = 0;
  for (int d = 0; d < rank; ++d) {
    const Tensor& t = plan.tensors[static_cast<std::size_t>(d)];
    if (!t.defined()) continue;
    common = broadcast(common, t.shape(), plan.op);
    first = std::min(first, d), last = d;
    if (t.dim() > 0) first_list = std::min(first_list, d), last_list = d, ++count;
  }
  // A 0-d index tensor is an integer on the device: it does not count.
  scattered = count > 0 && last_list - first_list + 1 != count ? 1 : 0;
  Table table;
  table.width = numel(Shape(std::span(shape.begin() + last + 1, shape.end())), plan.op);
  Shape rows(std::span(shape.begin(), shape.begin() + last + 1));
  const Strides row_strides = contiguous_strides(rows);
  Shape full = common;
  Strides strides = Dims::filled(common.rank(), 0);
  std::vector<int> view_dims(static_cast<std::size_t>(common.rank()), -1);  // of natural's dimensions
  for (int d = 0; d < rank; ++d) {
    if (plan.tensors[static_cast<std::size_t>(d)].defined()) continue;
    view_dims.push_back(d);
    if (d > last) continue;
    full.push_back(shape[d]);
    strides.push_back(row_strides[d]);
  }
  table.natural = full;
  for (int d = last + 1; d < rank; ++d) table.natural.push_back(shape[d]);
  const bool wide = numel(shape, plan.op) > std::int64_t{0x7fffffff};
  const int others = full.rank() - common.rank();
  for (int d = 0; d < rank; ++d) {
    Tensor t = plan.tensors[static_cast<std::size_t>(d)];
    if (!t.defined()) continue;
    Shape aligned = Dims::filled(common.rank() - t.dim(), 1);
    for (std::int64_t s : t.shape()) aligned.push_back(s);
    for (int k = 0; k < others; ++k) aligned.push_back(1);
    const Strides once = table.places.defined() ? Dims::filled(full.rank(), 0) : strides;
    table.places = indexing::linear_index(t.reshape(aligned).expand(full), table.places,
                                          {plan.op, shape[d], row_strides[d], true, wide, once});
  }
  // Position of the common dimensions in the result.
  const int lists = common.rank();
  int before = 0;
  if (scattered == 0) {
    for (int d = 0; d < first_list && count > 0; ++d)
      before += plan.tensors[static_cast<std::size_t>(d)].defined() ? 0 : 1;
  }
  for (int k = 0; k < before; ++k) table.order.push_back(lists + k);
  for (int k = 0; k < lists; ++k) table.order.push_back(k);
  for (int k = lists + before; k < table.natural.rank(); ++k) table.order.push_back(k);
  table.slices = Dims::filled(rank, -1);
  for (int k = 0; k < table.order.rank(); ++k) {
    const int d = view_dims[static_cast<std::size_t>(table.order[k])];
    if (d >= 0) table.slices[d] = k;
  }
  return table;
}

/// Combines index tensors of adjacent dimensions into a list of places in those dimensions merged.
Tensor select_adjacent(const Plan& plan, int first, int last) {
  const Tensor& x = plan.view;
  Shape common, merged(std::span(x.shape().begin() + first, x.shape().begin() + last + 1)), result;
  for (int d = first; d <= last; ++d)
    common = broadcast(common, plan.tensors[static_cast<std::size_t>(d)].shape(), plan.op);
  const Strides strides = contiguous_strides(merged);
  const bool wide = x.numel() > std::int64_t{0x7fffffff};
  Tensor places;
  for (int d = first; d <= last; ++d) {
    places =
        indexing::linear_index(plan.tensors[static_cast<std::size_t>(d)].expand(common), places,
                               {plan.op, x.shape()[d], strides[d - first], true, wide, Dims::filled(common.rank(), 0)});
  }
  for (int d = 0; d < first; ++d) result.push_back(x.shape()[d]);
  Shape flat = result;
  flat.push_back(numel(merged, plan.op));
  for (std::int64_t s : common) result.push_back(s);
  for (int d = last + 1; d < x.dim(); ++d) {
    result.push_back(x.shape()[d]);
    flat.push_back(x.shape()[d]);
  }
  return index_select(x.reshape(flat), first, places.reshape({places.numel()})).reshape(result);
}

Tensor read(const Plan& plan) {
  Plan p = plan;
  for (int d = 0; d < p.view.dim(); ++d) {
    if (p.reversed[static_cast<std::size_t>(d)]) p.view = reverse(p.view, d);
  }
  if (!p.advanced()) return p.view;
  int first = p.view.dim(), last = 0, count = 0;
  for (int d = 0; d < p.view.dim(); ++d) {
    if (p.tensors[static_cast<std::size_t>(d)].defined()) first = std::min(first, d), last = d, ++count;
  }
  if (last - first + 1 == count) return select_adjacent(p, first, last);
  const Table table = make_table(p);
  const std::int64_t width = std::max<std::int64_t>(table.width, 1), count_rows = table.places.numel();
  if (numel(table.natural, p.op) == 0) {
    Shape shape;
    for (std::int64_t d : table.order) shape.push_back(table.natural[static_cast<int>(d)]);
    return p.view.reshape({p.view.numel()}).slice(0, 0, 0).reshape(shape);
  }
  const Tensor rows = p.view.reshape({p.view.numel() / width, width});
  return index_select(rows, 0, table.places.reshape({count_rows})).reshape(table.natural).permute(table.order);
}

/// Values of the result's shape, with reversed dimensions flipped back, as rows for the table.
Tensor advanced_as_rows(const Plan& plan, const Table& table, const Tensor& values) {
  Shape shape;
  for (std::int64_t d : table.order) shape.push_back(table.natural[static_cast<int>(d)]);
  if (broadcast(shape, values.shape(), plan.op) != shape) {
    throw ShapeError(
        fmt::format("{}: values {} do not broadcast to the indexed {}", plan.op, str(values.shape()), str(shape)));
  }
  Tensor from = values.expand(shape);
  for (int d = 0; d < plan.view.dim(); ++d) {
    if (plan.reversed[static_cast<std::size_t>(d)]) from = reverse(from, static_cast<int>(table.slices[d]));
  }
  Dims inverse = table.order;
  for (int i = 0; i < table.order.rank(); ++i) inverse[static_cast<int>(table.order[i])] = i;
  return from.permute(inverse).reshape({table.places.numel(), table.width});
}

/// Values for a view without index tensors, with reversed dimensions flipped back.
Tensor unflipped(const Plan& plan, const Tensor& values) {
  if (!plan.reverses()) return values;
  // copy_() reports the mismatch.
  if (broadcast(plan.view.shape(), values.shape(), plan.op) != plan.view.shape()) return values;
  Tensor from = values.expand(plan.view.shape());
  for (int d = 0; d < plan.view.dim(); ++d) {
    if (plan.reversed[static_cast<std::size_t>(d)]) from = reverse(from, d);
  }
  return from;
}

/// The mask, if it is the only index and one value is written to all its elements: then the host need not read
/// anything.
const Tensor* lone_mask(const Tensor& x, const std::vector<Index>& indices, std::int64_t values) {
  if (indices.size() != 1 || values != 1) return nullptr;
  if (indices[0].kind() != Index::Kind::tensor) return nullptr;
  const Tensor* mask = &indices[0].tensor();
  if (!mask->defined() || mask->dtype() != boolean || mask->dim() == 0) return nullptr;
  const Shape& shape = mask->shape();
  const bool fits = shape.rank() <= x.dim() && std::equal(shape.begin(), shape.end(), x.shape().begin());
  return fits ? mask : nullptr;
}
Tensor spread(const Tensor& mask, const Tensor& x) {
  Shape shape = mask.shape();
  while (shape.rank() < x.dim()) shape.push_back(1);
  return mask.to(x.device()).reshape(shape);
}

/// A copy of x with `values`, of x's dtype, at `indices`.
Tensor advanced_put(const char* op, const Tensor& x, const std::vector<Index>& indices, const Tensor& values,
                    bool accumulate) {
  if (const Tensor* mask = accumulate ? nullptr : lone_mask(x, indices, values.numel()))
    return where(spread(*mask, x), values.reshape({}), x);
  if (x.numel() == 0) return x.clone();
  const indexing::PutMode mode = accumulate ? indexing::PutMode::add : indexing::PutMode::replace;
  const Plan whole = make_plan(op, x, indices);
  if (whole.view.impl() == x.impl() && whole.advanced()) {
    const Table table = make_table(whole);
    const Tensor rows = advanced_as_rows(whole, table, values);
    if (rows.numel() == 0) return x.clone();
    return put_rows(x.reshape({x.numel() / table.width, table.width}), table.places.reshape({rows.size(0)}), rows, mode)
        .reshape(x.shape());
  }
  // For a view: finds the places of its elements in x by indexing the numbers of x's elements.
  const Tensor numbers = indexing::numbers(x.numel(), x.device()).reshape(x.shape());
  const Tensor places = read(make_plan(op, numbers, indices));
  if (broadcast(places.shape(), values.shape(), op) != places.shape()) {
    throw ShapeError(
        fmt::format("{}: values {} do not broadcast to the indexed {}", op, str(values.shape()), str(places.shape())));
  }
  const Tensor source = values.expand(places.shape()).reshape({places.numel(), 1});
  return put_rows(x.reshape({x.numel(), 1}), places.reshape({places.numel()}), source, mode).reshape(x.shape());
}

}  // namespace

Tensor index(const Tensor& x, const std::vector<Index>& indices) {
  detail::require_defined("index", x);
  return read(make_plan("index", x, indices));
}

Tensor& index_put_(Tensor& x, const std::vector<Index>& indices, const Tensor& given, bool accumulate) {
  const char* op = "index_put_";
  detail::require_defined(op, x, given);
  const Tensor* mask = accumulate ? nullptr : lone_mask(x, indices, given.numel());
  if (in_place::wants_record(op, x, given)) {
    return in_place::record(op, x, [&](const Tensor& old) {
      return advanced_put(op, old, indices, given.to(old.device()).to(old.dtype()), accumulate);
    });
  }
  GradMode off(false);
  Tensor values = given.to(x.device()).to(x.dtype());
  if (values.storage() == x.storage()) values = values.clone();
  if (mask != nullptr) return x.copy_(where(spread(*mask, x), values.reshape({}), x));
  const Plan plan = make_plan(op, x, indices);
  Tensor view = plan.view;
  if (!plan.advanced()) {
    values = unflipped(plan, values);
    accumulate ? view.add_(values) : view.copy_(values);
    return x;
  }
  const Table table = make_table(plan);
  const Tensor rows = advanced_as_rows(plan, table, values);
  if (rows.numel() == 0) return x;
  const indexing::PutMode mode = accumulate ? indexing::PutMode::add : indexing::PutMode::replace;
  indexing::write_in_place(view, [&](const Tensor& to) {
    put_rows_(to.reshape({to.numel() / table.width, table.width}), table.places.reshape({rows.size(0)}), rows, mode);
  });
  return x;
}

Tensor& index_put_(Tensor& x, const std::vector<Index>& indices, double value) {
  detail::require_defined("index_put_", x);
  value = detail::number_held("index_put_", x.dtype(), value);
  return index_put_(x, indices, full({}, value, {x.dtype(), x.device()}));
}

Tensor index_put(const Tensor& x, const std::vector<Index>& indices, const Tensor& values, bool accumulate) {
  detail::require_defined("index_put", x, values);
  if (values.dtype() != x.dtype()) {
    throw DtypeError(fmt::format("index_put: values of {} go into a tensor of {}; both must be of one dtype",
                                 name(values.dtype()), name(x.dtype())));
  }
  return advanced_put("index_put", x, indices, values, accumulate);
}

IndexedTensor::IndexedTensor(Tensor x, std::vector<Index> indices) : x_(std::move(x)), indices_(std::move(indices)) {}
IndexedTensor::IndexedTensor(const IndexedTensor& other) = default;
IndexedTensor::~IndexedTensor() = default;

Tensor IndexedTensor::get() const { return etna::index(x_, indices_); }

const IndexedTensor& IndexedTensor::operator=(const Tensor& values) const {
  etna::index_put_(target(), indices_, values);
  return *this;
}
const IndexedTensor& IndexedTensor::operator=(double value) const {
  etna::index_put_(target(), indices_, value);
  return *this;
}
const IndexedTensor& IndexedTensor::operator=(const IndexedTensor& other) const { return *this = other.get(); }

IndexedTensor Tensor::operator[](std::initializer_list<Index> indices) const { return {*this, indices}; }
IndexedTensor Tensor::operator[](const Tensor& at) const { return {*this, {Index(at)}}; }
Tensor Tensor::index(const std::vector<Index>& indices) const { return etna::index(*this, indices); }
Tensor& Tensor::index_put_(const std::vector<Index>& indices, const Tensor& values, bool accumulate) {
  return etna::index_put_(*this, indices, values, accumulate);
}
Tensor& Tensor::index_put_(const std::vector<Index>& indices, double value) {
  return etna::index_put_(*this, indices, value);
}

#define ETNA_INDEXED(SYMBOL)                                                          \
  const IndexedTensor& IndexedTensor::operator SYMBOL##=(const Tensor& other) const { \
    return *this = get() SYMBOL other;                                                \
  }                                                                                   \
  const IndexedTensor& IndexedTensor::operator SYMBOL##=(double other) const { return *this = get() SYMBOL other; }
ETNA_INDEXED(+)
ETNA_INDEXED(-)
ETNA_INDEXED(*)
ETNA_INDEXED(/)
#undef ETNA_INDEXED

}  // namespace etna
