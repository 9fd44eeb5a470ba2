#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>
#include <etna/tensor/ops/indexing/internal/in_place.h>

// scatter_reduce() with one index for a whole slice.
namespace etna {
namespace {

Tensor index_reduce_reduced(const char* op, const Tensor& x, std::int64_t dim, const Tensor& index,
                            const Tensor& source, std::string_view reduce, bool include_self) {
  detail::require_defined(op, x, index, source);
  if (reduce != "prod" && reduce != "mean" && reduce != "amax" && reduce != "amin")
    throw Error(fmt::format("{}: unknown reduction '{}'; wanted prod, mean, amax or amin", op, reduce));
  const int d = wrap_dim(dim, x.dim(), op);
  Shape wanted = x.shape();
  if (x.dim() > 0) wanted[d] = index.numel();
  const bool list = x.dim() == 0 && source.numel() == index.numel();
  if (index.dim() > 1 || (source.shape() != wanted && !list)) {
    throw ShapeError(fmt::format("{}: x {} with the index {} wants a source {}, it is {}", op, str(x.shape()),
                                 str(index.shape()), str(wanted), str(source.shape())));
  }
  if (x.dim() == 0) {
    const Tensor from = source.reshape({index.numel()});
    return scatter_reduce(x.reshape({1}), 0, index.reshape({index.numel()}), from, reduce, include_self).reshape({});
  }
  Shape lines = Dims::filled(x.dim(), 1);
  lines[d] = index.numel();
  return scatter_reduce(x, d, index.reshape(lines).expand(wanted), source, reduce, include_self);
}

}  // namespace

Tensor index_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                    std::string_view reduce, bool include_self) {
  return index_reduce_reduced("index_reduce", x, dim, index, source, reduce, include_self);
}
Tensor& index_reduce_(Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                      bool include_self) {
  detail::require_defined("index_reduce_", x, index, source);
  return indexing::replace_in_place("index_reduce_", x, source, [&](const Tensor& to) {
    return index_reduce_reduced("index_reduce_", to, dim, index, source, reduce, include_self);
  });
}

}  // namespace etna
