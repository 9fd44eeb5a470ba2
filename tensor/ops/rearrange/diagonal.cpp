#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/rearrange/rearrange.h>

// diagonal: a view. diag_embed: zeros into whose diagonal x is copied. Each is the other's gradient.
namespace etna {
namespace {

struct DiagonalAttrs {
  Shape whole;
  int dim1 = 0, dim2 = 1;
  std::int64_t offset = 0;
};

/// The diagonal of x, as its last dimension.
Tensor view_of(const Tensor& x, const DiagonalAttrs& a) {
  const std::int64_t below = a.offset < 0 ? -a.offset : 0, right = a.offset > 0 ? a.offset : 0;
  const std::int64_t rows = x.shape()[a.dim1] - below, columns = x.shape()[a.dim2] - right;
  const std::int64_t length = std::max<std::int64_t>(0, std::min(rows, columns));
  Shape shape;
  Strides strides;
  for (int d = 0; d < x.dim(); ++d) {
    if (d == a.dim1 || d == a.dim2) continue;
    shape.push_back(x.shape()[d]);
    strides.push_back(x.strides()[d]);
  }
  shape.push_back(length);
  if (numel(shape) == 0) {
    return detail::make_view(x.storage(), x.device(), x.dtype(), shape, contiguous_strides(shape), x.offset());
  }
  strides.push_back(x.strides()[a.dim1] + x.strides()[a.dim2]);
  return detail::make_view(x.storage(), x.device(), x.dtype(), shape, strides,
                           x.offset() + below * x.strides()[a.dim1] + right * x.strides()[a.dim2]);
}

TensorList diagonal_direct(const OpCall& call) { return {view_of(call.in[0], call.as<DiagonalAttrs>())}; }

TensorList diag_embed_direct(const OpCall& call) {
  const auto a = call.as<DiagonalAttrs>();
  Tensor whole = zeros(a.whole, {call.in[0].dtype(), call.in[0].device()});
  view_of(whole, a).copy_(call.in[0]);
  return {whole};
}

TensorList diagonal_vjp(const VjpCall& call);
TensorList diag_embed_vjp(const VjpCall& call);

const OpDef kDiagonal = {.name = "diagonal", .vjp = diagonal_vjp, .direct = diagonal_direct};
const OpDef kDiagEmbed = {.name = "diag_embed", .vjp = diag_embed_vjp, .direct = diag_embed_direct};

TensorList diagonal_vjp(const VjpCall& call) { return {apply1(kDiagEmbed, {call.grad[0]}, call.attrs)}; }
TensorList diag_embed_vjp(const VjpCall& call) { return {apply1(kDiagonal, {call.grad[0]}, call.attrs)}; }

void check_two(const char* op, int rank, std::int64_t dim1, std::int64_t dim2, DiagonalAttrs& a) {
  if (rank < 2) throw ShapeError(fmt::format("{}: a tensor of {} dimensions has no diagonal", op, rank));
  a.dim1 = wrap_dim(dim1, rank, op), a.dim2 = wrap_dim(dim2, rank, op);
  if (a.dim1 == a.dim2) throw ShapeError(fmt::format("{}: dimension {} is named twice", op, a.dim1));
  if (a.offset > std::int64_t{1} << 40 || a.offset < -(std::int64_t{1} << 40))
    throw ShapeError(fmt::format("{}: offset {} is out of range", op, a.offset));
}

}  // namespace

Tensor diagonal(const Tensor& x, std::int64_t offset, std::int64_t dim1, std::int64_t dim2) {
  detail::require_defined("diagonal", x);
  DiagonalAttrs a{x.shape(), 0, 1, offset};
  check_two("diagonal", x.dim(), dim1, dim2, a);
  return apply1(kDiagonal, {x}, Attrs::of(a));
}

Tensor diag_embed(const Tensor& x, std::int64_t offset, std::int64_t dim1, std::int64_t dim2) {
  detail::require_defined("diag_embed", x);
  if (x.dim() == 0) throw ShapeError("diag_embed: got a 0-d tensor; wanted at least one dimension");
  DiagonalAttrs a{{}, 0, 1, offset};
  check_two("diag_embed", x.dim() + 1, dim1, dim2, a);
  const std::int64_t size = checked_sum(x.shape().back(), offset < 0 ? -offset : offset, "diag_embed");
  int next = 0;
  for (int d = 0; d <= x.dim(); ++d) a.whole.push_back(d == a.dim1 || d == a.dim2 ? size : x.shape()[next++]);
  return apply1(kDiagEmbed, {x}, Attrs::of(a));
}

Tensor diag(const Tensor& x, std::int64_t offset) {
  detail::require_defined("diag", x);
  if (x.dim() == 1) return diag_embed(x, offset);
  if (x.dim() != 2) throw ShapeError(fmt::format("diag: {} is neither a list nor a matrix", str(x.shape())));
  return diagonal(x, offset).clone();
}

std::span<const OpDef* const> ops_in_diagonal() {
  static const OpDef* const list[] = {&kDiagonal, &kDiagEmbed};
  return list;
}

}  // namespace etna
