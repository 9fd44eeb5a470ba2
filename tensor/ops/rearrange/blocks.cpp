#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

// Slices of tensors, and tensors made of slices.
namespace etna {

Tensor diagflat(const Tensor& x, std::int64_t offset) {
  detail::require_defined("diagflat", x);
  return diag_embed(x.reshape({x.numel()}), offset);
}

Tensor block_diag(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) return zeros({1, 0});
  std::vector<Tensor> blocks;
  std::int64_t columns = 0;
  DType t = DType::boolean;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) throw UndefinedTensor("block_diag", i + 1);
    if (tensors[i].dim() > 2)
      throw ShapeError(
          fmt::format("block_diag: operand {} is {}; wanted at most two dimensions", i, str(tensors[i].shape())));
    blocks.push_back(atleast_2d(tensors[i]));
    columns = checked_sum(columns, blocks.back().size(1), "block_diag");
    t = i == 0 ? tensors[i].dtype() : promote(t, tensors[i].dtype());
  }
  std::int64_t before = 0;
  for (Tensor& block : blocks) {
    const std::int64_t own = block.size(1);
    block = pad(block.to(t), {before, columns - before - own});
    before += own;
  }
  return cat(blocks, 0);
}

Tensor broadcast_to(const Tensor& x, Shape shape) {
  detail::require_defined("broadcast_to", x);
  return x.expand(shape);
}

std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors) {
  Shape shape;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) throw UndefinedTensor("broadcast_tensors", i + 1);
    shape = broadcast(shape, tensors[i].shape(), "broadcast_tensors");
  }
  std::vector<Tensor> views;
  for (const Tensor& x : tensors) views.push_back(x.expand(shape));
  return views;
}

std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections, std::int64_t dim) {
  detail::require_defined("tensor_split", x);
  if (x.dim() == 0) throw ShapeError("tensor_split: got a 0-d tensor; wanted at least one dimension");
  const int d = wrap_dim(dim, x.dim(), "tensor_split");
  if (sections < 1) throw ShapeError(fmt::format("tensor_split: got {} sections; wanted at least one", sections));
  const std::int64_t n = x.size(d), each = n / sections, larger = n % sections;
  std::vector<Tensor> parts;
  for (std::int64_t i = 0, begin = 0; i < sections; ++i) {
    const std::int64_t end = begin + each + (i < larger ? 1 : 0);
    parts.push_back(x.slice(d, begin, end));
    begin = end;
  }
  return parts;
}

std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<std::int64_t>& indices, std::int64_t dim) {
  detail::require_defined("tensor_split", x);
  if (x.dim() == 0) throw ShapeError("tensor_split: got a 0-d tensor; wanted at least one dimension");
  const int d = wrap_dim(dim, x.dim(), "tensor_split");
  const std::int64_t n = x.size(d);
  const auto place = [n](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? std::max(i, -n) + n : i, 0, n); };
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (std::int64_t index : indices) {
    const std::int64_t end = place(index);
    parts.push_back(x.slice(d, begin, std::max(begin, end)));
    begin = end;
  }
  parts.push_back(x.slice(d, begin, n));
  return parts;
}

Tensor combinations(const Tensor& x, std::int64_t r, bool with_replacement) {
  detail::require_defined("combinations", x);
  if (x.dim() != 1) throw ShapeError(fmt::format("combinations: x is {}; wanted a list [n]", str(x.shape())));
  if (r < 0 || r > 16) throw ShapeError(fmt::format("combinations: r is {}, it must be in [0, 16]", r));
  if (r == 0) return empty({0}, {x.dtype(), x.device()});
  // Enumerates all r-tuples of positions; a stable sort moves the ordered ones to the front. Their number is known, so
  // nothing is read on the host.
  const std::int64_t n = x.size(0);
  std::int64_t tuples = 1, count = 1;
  for (std::int64_t k = 0; k < r; ++k) {
    tuples = checked_product(tuples, n, "combinations");
    // C(m, k + 1) from C(m, k), m = n or n + r - 1
    count = checked_product(count, std::max<std::int64_t>(0, (with_replacement ? n + r - 1 : n) - k), "combinations") /
            (k + 1);
  }
  if (tuples > std::int64_t{0x7fffffff})
    throw ShapeError(fmt::format("combinations: {} elements have {} tuples of {}, more than 2^31", n, tuples, r));
  if (count == 0 || n == 0) return x.slice(0, 0, 0).reshape({0, 1}).expand({0, r});
  Tensor rest = (cumsum(ones({tuples}, {i32, x.device()}), 0) - 1.0).to(i32);
  std::vector<Tensor> places(static_cast<std::size_t>(r));
  Tensor ordered;
  for (std::int64_t k = r - 1; k >= 0; --k) {
    Tensor& place = places[static_cast<std::size_t>(k)];
    place = remainder(rest, static_cast<double>(n));
    rest = floor_divide(rest, static_cast<double>(n));
    if (k == r - 1) continue;
    const Tensor& next = places[static_cast<std::size_t>(k + 1)];
    const Tensor fits = with_replacement ? le(place, next) : lt(place, next);
    ordered = ordered.defined() ? logical_and(ordered, fits) : fits;
  }
  Tensor index = stack(places, 1);
  if (ordered.defined()) index = index_select(index, 0, argsort(ordered.to(i32), 0, true).slice(0, 0, count));
  return index_select(x, 0, index.reshape({count * r})).reshape({count, r});
}

}  // namespace etna
