#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

// Methods of Tensor that are the free functions of ops.h.
namespace etna {

#define ETNA_METHOD_1(NAME) \
  Tensor Tensor::NAME() const { return etna::NAME(*this); }
#define ETNA_METHOD_1n(NAME) \
  Tensor Tensor::NAME(double number) const { return etna::NAME(*this, number); }
#define ETNA_METHOD_2n(NAME)
#define ETNA_METHOD_2(NAME)                                                           \
  Tensor Tensor::NAME(const Tensor& other) const { return etna::NAME(*this, other); } \
  Tensor Tensor::NAME(double other) const { return etna::NAME(*this, other); }
#define ETNA_METHOD_3(NAME)
#define ETNA_ELEMENTWISE(NAME, ARITY, ...) ETNA_METHOD_##ARITY(NAME)
#include <etna/tables/elementwise.def>
#undef ETNA_ELEMENTWISE
#undef ETNA_METHOD_1
#undef ETNA_METHOD_1n
#undef ETNA_METHOD_2n
#undef ETNA_METHOD_2
#undef ETNA_METHOD_3

Tensor Tensor::where(const Tensor& condition, const Tensor& other) const {
  return etna::where(condition, *this, other);
}
Tensor Tensor::where(const Tensor& condition, double other) const { return etna::where(condition, *this, other); }
Tensor Tensor::masked_fill(const Tensor& mask, double value) const { return etna::masked_fill(*this, mask, value); }
Tensor Tensor::clamp(std::optional<double> lo, std::optional<double> hi) const { return etna::clamp(*this, lo, hi); }
Tensor Tensor::clamp(const Tensor& lo, const Tensor& hi) const { return etna::clamp(*this, lo, hi); }
Tensor Tensor::std(Dims dims, bool keepdim, int correction) const {
  return etna::std(*this, dims, keepdim, correction);
}
Tensor Tensor::amax(Dims dims, bool keepdim) const { return etna::amax(*this, dims, keepdim); }
Tensor Tensor::amin(Dims dims, bool keepdim) const { return etna::amin(*this, dims, keepdim); }
Tensor Tensor::any(Dims dims, bool keepdim) const { return etna::any(*this, dims, keepdim); }
Tensor Tensor::all(Dims dims, bool keepdim) const { return etna::all(*this, dims, keepdim); }
Tensor Tensor::count_nonzero(Dims dims) const { return etna::count_nonzero(*this, dims); }
Tensor Tensor::norm(double p, Dims dims, bool keepdim) const { return etna::norm(*this, p, dims, keepdim); }
Tensor Tensor::nansum(Dims dims, bool keepdim) const { return etna::nansum(*this, dims, keepdim); }
Tensor Tensor::nanmean(Dims dims, bool keepdim) const { return etna::nanmean(*this, dims, keepdim); }
Tensor Tensor::nan_to_num(double nan, std::optional<double> posinf, std::optional<double> neginf) const {
  return etna::nan_to_num(*this, nan, posinf, neginf);
}
Tensor Tensor::lerp(const Tensor& end, const Tensor& weight) const { return etna::lerp(*this, end, weight); }
Tensor Tensor::lerp(const Tensor& end, double weight) const { return etna::lerp(*this, end, weight); }
Tensor Tensor::isclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return etna::isclose(*this, other, rtol, atol, equal_nan);
}
bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return etna::allclose(*this, other, rtol, atol, equal_nan);
}
bool Tensor::equal(const Tensor& other) const { return etna::equal(*this, other); }
Tensor Tensor::broadcast_to(Shape shape) const { return etna::broadcast_to(*this, shape); }
std::vector<Tensor> Tensor::tensor_split(std::int64_t sections, std::int64_t dim) const {
  return etna::tensor_split(*this, sections, dim);
}
std::vector<Tensor> Tensor::tensor_split(const std::vector<std::int64_t>& indices, std::int64_t dim) const {
  return etna::tensor_split(*this, indices, dim);
}
Tensor Tensor::diff(std::int64_t n, std::int64_t dim) const { return etna::diff(*this, n, dim); }
Tensor Tensor::dist(const Tensor& other, double p) const { return etna::dist(*this, other, p); }
Tensor Tensor::renorm(double p, std::int64_t dim, double maxnorm) const { return etna::renorm(*this, p, dim, maxnorm); }
Tensor Tensor::sum(Dims dims, bool keepdim) const { return etna::sum(*this, dims, keepdim); }
Tensor Tensor::mean(Dims dims, bool keepdim) const { return etna::mean(*this, dims, keepdim); }
Tensor Tensor::max(Dims dims, bool keepdim) const { return etna::max(*this, dims, keepdim); }
Tensor Tensor::min(Dims dims, bool keepdim) const { return etna::min(*this, dims, keepdim); }
Tensor Tensor::prod(Dims dims, bool keepdim) const { return etna::prod(*this, dims, keepdim); }
Tensor Tensor::logsumexp(Dims dims, bool keepdim) const { return etna::logsumexp(*this, dims, keepdim); }
Tensor Tensor::var(Dims dims, bool keepdim, int correction) const {
  return etna::var(*this, dims, keepdim, correction);
}
Tensor Tensor::argmax(std::optional<std::int64_t> dim, bool keepdim) const { return etna::argmax(*this, dim, keepdim); }
Tensor Tensor::argmin(std::optional<std::int64_t> dim, bool keepdim) const { return etna::argmin(*this, dim, keepdim); }
Tensor Tensor::softmax(std::int64_t dim) const { return etna::softmax(*this, dim); }
Tensor Tensor::log_softmax(std::int64_t dim) const { return etna::log_softmax(*this, dim); }
Tensor Tensor::cumsum(std::int64_t dim, bool reverse) const { return etna::cumsum(*this, dim, reverse); }
Tensor Tensor::tril(std::int64_t diagonal) const { return etna::tril(*this, diagonal); }
Tensor Tensor::triu(std::int64_t diagonal) const { return etna::triu(*this, diagonal); }
Tensor Tensor::matmul(const Tensor& other) const { return etna::matmul(*this, other); }
Tensor Tensor::index_select(std::int64_t dim, const Tensor& index) const {
  return etna::index_select(*this, dim, index);
}
Tensor Tensor::gather(std::int64_t dim, const Tensor& index) const { return etna::gather(*this, dim, index); }
Tensor Tensor::scatter_add(std::int64_t dim, const Tensor& index, const Tensor& source) const {
  return etna::scatter_add(*this, dim, index, source);
}

ValuesIndices Tensor::sort(std::int64_t dim, bool descending, bool stable) const {
  return etna::sort(*this, dim, descending, stable);
}
Tensor Tensor::argsort(std::int64_t dim, bool descending, bool stable) const {
  return etna::argsort(*this, dim, descending, stable);
}
ValuesIndices Tensor::topk(std::int64_t k, std::int64_t dim, bool largest, bool sorted) const {
  return etna::topk(*this, k, dim, largest, sorted);
}
ValuesIndices Tensor::kthvalue(std::int64_t k, std::int64_t dim, bool keepdim) const {
  return etna::kthvalue(*this, k, dim, keepdim);
}
Tensor Tensor::median() const { return etna::median(*this); }
ValuesIndices Tensor::median(std::int64_t dim, bool keepdim) const { return etna::median(*this, dim, keepdim); }
Tensor Tensor::quantile(double q, std::optional<std::int64_t> dim, bool keepdim) const {
  return etna::quantile(*this, q, dim, keepdim);
}
ValuesIndices Tensor::cummax(std::int64_t dim) const { return etna::cummax(*this, dim); }
ValuesIndices Tensor::cummin(std::int64_t dim) const { return etna::cummin(*this, dim); }
Tensor Tensor::cumprod(std::int64_t dim) const { return etna::cumprod(*this, dim); }
Tensor Tensor::nonzero() const { return etna::nonzero(*this); }
Tensor Tensor::masked_select(const Tensor& mask) const { return etna::masked_select(*this, mask); }
Tensor Tensor::masked_scatter(const Tensor& mask, const Tensor& source) const {
  return etna::masked_scatter(*this, mask, source);
}
Tensor Tensor::scatter(std::int64_t dim, const Tensor& index, const Tensor& source) const {
  return etna::scatter(*this, dim, index, source);
}
Tensor Tensor::scatter(std::int64_t dim, const Tensor& index, double value) const {
  return etna::scatter(*this, dim, index, value);
}
Tensor Tensor::index_add(std::int64_t dim, const Tensor& index, const Tensor& source, double alpha) const {
  return etna::index_add(*this, dim, index, source, alpha);
}
Tensor Tensor::index_copy(std::int64_t dim, const Tensor& index, const Tensor& source) const {
  return etna::index_copy(*this, dim, index, source);
}
Tensor Tensor::index_fill(std::int64_t dim, const Tensor& index, double value) const {
  return etna::index_fill(*this, dim, index, value);
}
Tensor Tensor::take(const Tensor& index) const { return etna::take(*this, index); }
Tensor Tensor::take_along_dim(const Tensor& index, std::optional<std::int64_t> dim) const {
  return etna::take_along_dim(*this, index, dim);
}
Tensor Tensor::flip(Dims dims) const { return etna::flip(*this, dims); }
Tensor Tensor::roll(Dims shifts, Dims dims) const { return etna::roll(*this, shifts, dims); }
Tensor Tensor::repeat(Dims repeats) const { return etna::repeat(*this, repeats); }
Tensor Tensor::tile(Dims repeats) const { return etna::tile(*this, repeats); }
Tensor Tensor::repeat_interleave(std::int64_t repeats) const { return etna::repeat_interleave(*this, repeats); }
Tensor Tensor::repeat_interleave(std::int64_t repeats, std::int64_t dim) const {
  return etna::repeat_interleave(*this, repeats, dim);
}
Tensor Tensor::diagonal(std::int64_t offset, std::int64_t dim1, std::int64_t dim2) const {
  return etna::diagonal(*this, offset, dim1, dim2);
}
Tensor Tensor::diag(std::int64_t diagonal) const { return etna::diag(*this, diagonal); }
Tensor Tensor::narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const {
  return etna::narrow(*this, dim, start, length);
}
std::vector<Tensor> Tensor::unbind(std::int64_t dim) const { return etna::unbind(*this, dim); }
Tensor Tensor::unflatten(std::int64_t dim, Dims sizes) const { return etna::unflatten(*this, dim, sizes); }
Tensor Tensor::movedim(Dims source, Dims destination) const { return etna::movedim(*this, source, destination); }
Tensor Tensor::swapaxes(std::int64_t a, std::int64_t b) const { return etna::swapaxes(*this, a, b); }
Tensor Tensor::mm(const Tensor& other) const { return etna::mm(*this, other); }
Tensor Tensor::bmm(const Tensor& other) const { return etna::bmm(*this, other); }
Tensor Tensor::mv(const Tensor& other) const { return etna::mv(*this, other); }
Tensor Tensor::dot(const Tensor& other) const { return etna::dot(*this, other); }
Tensor Tensor::outer(const Tensor& other) const { return etna::outer(*this, other); }

}  // namespace etna
