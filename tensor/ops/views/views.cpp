#include <algorithm>

#include <fmt/format.h>

#include <etna/device/internal/peer_copies.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

// Views: the same storage with other sizes, strides and offset. Their gradients are views too. The exception is slices,
// whose gradient is copied into zeros (slice_backward).
namespace etna {
namespace {

struct ShapeAttrs {
  Shape shape;
};
struct PermuteAttrs {
  Dims order;
};
struct ViewsSliceAttrs {
  int dim;
  std::int64_t begin, end, step;
};
struct SplitAttrs {
  int dim;
  std::int64_t size;  ///< size of every chunk except the last
};
struct SliceBackwardAttrs {
  Shape shape;
  ViewsSliceAttrs slice;
};
struct DeviceAttrs {
  Device device;
};

Tensor with_layout(const Tensor& x, const Shape& shape, const Strides& strides, std::int64_t offset) {
  return detail::make_view(x.storage(), x.device(), x.dtype(), shape, strides, offset);
}

/// The strides that view x's elements as `shape`; empty if that needs a copy. Every new dimension must lie within a run
/// of old dimensions that are contiguous with each other.
std::optional<Strides> view_strides(const Tensor& x, const Shape& shape) {
  if (x.is_contiguous()) return contiguous_strides(shape);  // also correct for x without elements
  Strides strides = Dims::filled(shape.rank(), 1);
  int to = shape.rank() - 1;
  std::int64_t run = 1, base = x.dim() > 0 ? x.strides().back() : 1, taken = 1;
  for (int from = x.dim() - 1; from >= 0; --from) {
    run *= x.shape()[from];
    bool ends = from == 0 || (x.shape()[from - 1] != 1 && x.strides()[from - 1] != run * base);
    if (!ends) continue;
    while (to >= 0 && (taken < run || shape[to] == 1)) {
      strides[to] = taken * base;
      taken *= shape[to--];
    }
    if (taken != run) return std::nullopt;
    if (from > 0) base = x.strides()[from - 1], run = 1, taken = 1;
  }
  return to < 0 ? std::optional(strides) : std::nullopt;
}

TensorList reshape_direct(const OpCall& call) {
  const Tensor& x = call.in[0];
  auto shape = call.as<ShapeAttrs>().shape;
  auto strides = view_strides(x, shape);
  return {with_layout(x, shape, strides ? *strides : contiguous_strides(shape), x.offset())};
}
TensorList reshape_vjp(const VjpCall& call) { return {call.grad[0].reshape(call.in[0].shape())}; }
const OpDef kReshape = {.name = "reshape", .vjp = reshape_vjp, .direct = reshape_direct};

TensorList permute_direct(const OpCall& call) {
  const Tensor& x = call.in[0];
  auto order = call.as<PermuteAttrs>().order;
  Shape shape;
  Strides strides;
  for (std::int64_t d : order) {
    shape.push_back(x.shape()[static_cast<int>(d)]);
    strides.push_back(x.strides()[static_cast<int>(d)]);
  }
  return {with_layout(x, shape, strides, x.offset())};
}
TensorList permute_vjp(const VjpCall& call) {
  auto order = call.as<PermuteAttrs>().order;
  Dims inverse = order;
  for (int i = 0; i < order.rank(); ++i) inverse[static_cast<int>(order[i])] = i;
  return {call.grad[0].permute(inverse)};
}
const OpDef kPermute = {.name = "permute", .vjp = permute_vjp, .direct = permute_direct};

TensorList expand_direct(const OpCall& call) {
  const Tensor& x = call.in[0];
  auto shape = call.as<ShapeAttrs>().shape;
  Strides strides = Dims::filled(shape.rank(), 0);
  int shift = shape.rank() - x.dim();
  for (int i = 0; i < x.dim(); ++i) strides[i + shift] = x.shape()[i] == shape[i + shift] ? x.strides()[i] : 0;
  return {with_layout(x, shape, strides, x.offset())};
}
TensorList expand_vjp(const VjpCall& call) { return {sum_to(call.grad[0], call.in[0].shape())}; }
const OpDef kExpand = {.name = "expand", .vjp = expand_vjp, .direct = expand_direct};

Tensor slice_view(const Tensor& x, const ViewsSliceAttrs& s) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[s.dim] = s.end > s.begin ? (s.end - s.begin - 1) / s.step + 1 : 0;
  if (numel(shape) == 0) return with_layout(x, shape, contiguous_strides(shape), x.offset());
  if (shape[s.dim] > 1) strides[s.dim] *= s.step;  // a step beyond the end may be any number
  return with_layout(x, shape, strides, x.offset() + s.begin * x.strides()[s.dim]);
}
TensorList slice_direct(const OpCall& call) { return {slice_view(call.in[0], call.as<ViewsSliceAttrs>())}; }
Tensor slice_backward(const Tensor& g, const Shape& shape, const ViewsSliceAttrs& slice);
TensorList slice_vjp(const VjpCall& call) {
  if (call.grad[0].shape() == call.in[0].shape()) return {call.grad[0]};  // the slice was all of x
  return {slice_backward(call.grad[0], call.in[0].shape(), call.as<ViewsSliceAttrs>())};
}
const OpDef kViewsSlice = {.name = "slice", .vjp = slice_vjp, .direct = slice_direct};

/// Zeros of the full shape with g copied to the slice's position.
TensorList slice_backward_direct(const OpCall& call) {
  const Tensor& g = call.in[0];
  auto a = call.as<SliceBackwardAttrs>();
  Tensor whole = zeros(a.shape, {g.dtype(), g.device()});
  slice_view(whole, a.slice).copy_(g);
  return {whole};
}
TensorList slice_backward_vjp(const VjpCall& call) {
  auto s = call.as<SliceBackwardAttrs>().slice;
  return {call.grad[0].slice(s.dim, s.begin, s.end, s.step)};
}
const OpDef kSliceBackward = {.name = "slice_backward", .vjp = slice_backward_vjp, .direct = slice_backward_direct};
Tensor slice_backward(const Tensor& g, const Shape& shape, const ViewsSliceAttrs& slice) {
  return apply1(kSliceBackward, {g}, Attrs::of(SliceBackwardAttrs{shape, slice}));
}

TensorList split_direct(const OpCall& call) {
  const Tensor& x = call.in[0];
  auto s = call.as<SplitAttrs>();
  TensorList parts;
  std::int64_t whole = x.shape()[s.dim];
  for (std::int64_t begin = 0, n; begin < whole; begin += n) {
    n = std::min(s.size, whole - begin);
    parts.push_back(slice_view(x, {s.dim, begin, begin + n, 1}));
  }
  return parts;
}
TensorList split_vjp(const VjpCall& call) {
  TensorList grads(call.grad.begin(), call.grad.end());
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) grads[i] = zeros_like(call.out[i]);
  }
  return {cat(grads, call.as<SplitAttrs>().dim)};
}
const OpDef kSplit = {.name = "split", .vjp = split_vjp, .direct = split_direct};

TensorList to_direct(const OpCall& call) {
  capture_hooks::forbid("to", "a tensor moves to another device");
  Tensor x = call.in[0].contiguous();
  Device device = call.as<DeviceAttrs>().device;
  std::size_t bytes = byte_size(x.shape(), item_size(x.dtype()), "to");
  std::size_t offset = static_cast<std::size_t>(x.offset()) * item_size(x.dtype());
  Tensor y = empty(x.shape(), {x.dtype(), device});
  if (x.device().is_cpu()) {
    upload(x.storage()->host() + offset, *y.storage(), 0, bytes);
  } else if (device.is_cpu()) {
    download(*x.storage(), offset, y.storage()->host(), bytes);
  } else if (!copy_to_peer(*x.storage(), offset, *y.storage(), 0, bytes)) {
    std::vector<std::byte> staged(bytes);
    download(*x.storage(), offset, staged.data(), bytes);
    upload(staged.data(), *y.storage(), 0, bytes);
  }
  return {y};
}
TensorList to_vjp(const VjpCall& call) { return {call.grad[0].to(call.in[0].device())}; }
const OpDef kToDevice = {.name = "to", .vjp = to_vjp, .direct = to_direct};

/// Replaces a -1 and checks the number of elements.
Shape resolve(const Tensor& x, Shape shape, const char* op) {
  int unknown = -1;
  Shape named;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1 && unknown < 0)
      unknown = i;
    else if (shape[i] < 0)
      throw ShapeError(fmt::format("{}: {} has a negative size; one size may be -1", op, str(shape)));
    else
      named.push_back(shape[i]);
  }
  const std::int64_t known = numel(named, op);
  if (unknown >= 0 && known > 0 && x.numel() % known == 0) shape[unknown] = x.numel() / known;
  if ((unknown >= 0 && shape[unknown] == -1) || numel(shape, op) != x.numel()) {
    throw ShapeError(fmt::format("{}: {} with {} elements does not fit {}; one size may be -1, for the rest", op,
                                 str(x.shape()), x.numel(), str(shape)));
  }
  return shape;
}

}  // namespace

Tensor Tensor::reshape(Shape wanted) const {
  detail::require_defined("reshape", *this);
  wanted = resolve(*this, wanted, "reshape");
  if (wanted == shape()) return *this;
  Tensor x = view_strides(*this, wanted) ? *this : clone();
  return apply1(kReshape, {x}, Attrs::of(ShapeAttrs{wanted}));
}

Tensor Tensor::view(Shape wanted) const {
  detail::require_defined("view", *this);
  wanted = resolve(*this, wanted, "view");
  if (!view_strides(*this, wanted)) {
    throw ShapeError(fmt::format("view: strides {} of {} do not allow {} without a copy; use reshape",
                                 etna::str(strides()), etna::str(shape()), etna::str(wanted)));
  }
  return apply1(kReshape, {*this}, Attrs::of(ShapeAttrs{wanted}));
}

Tensor Tensor::permute(Dims order) const {
  detail::require_defined("permute", *this);
  if (order.rank() != dim()) {
    throw ShapeError(fmt::format("permute: {} names {} dimensions, the tensor {} has {}", etna::str(order),
                                 order.rank(), etna::str(shape()), dim()));
  }
  Dims wrapped;
  for (std::int64_t d : order) {
    int w = wrap_dim(d, dim(), "permute");
    if (wrapped.contains(w))
      throw ShapeError(fmt::format("permute: dimension {} is named twice in {}", w, etna::str(order)));
    wrapped.push_back(w);
  }
  return apply1(kPermute, {*this}, Attrs::of(PermuteAttrs{wrapped}));
}

Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const {
  detail::require_defined("transpose", *this);
  Dims order;
  for (int i = 0; i < dim(); ++i) order.push_back(i);
  int x = wrap_dim(a, dim(), "transpose"), y = wrap_dim(b, dim(), "transpose");
  if (dim() == 0 || x == y) return *this;
  std::swap(order[x], order[y]);
  return permute(order);
}

Tensor Tensor::t() const {
  detail::require_defined("t", *this);
  if (dim() < 2) throw ShapeError(fmt::format("t: got {}; wanted at least two dimensions", etna::str(shape())));
  return transpose(-2, -1);
}

Tensor Tensor::slice(std::int64_t d, std::int64_t begin, std::int64_t end, std::int64_t step) const {
  detail::require_defined("slice", *this);
  if (dim() == 0) throw ShapeError("slice: got a 0-d tensor; wanted at least one dimension");
  int at = wrap_dim(d, dim(), "slice");
  std::int64_t n = shape()[at];
  if (step < 1) throw ShapeError(fmt::format("slice: the step is {}, it must be at least 1", step));
  if (begin < 0) begin += n;
  if (end < 0) end += n;
  begin = std::clamp<std::int64_t>(begin, 0, n);
  end = std::clamp<std::int64_t>(end, begin, n);
  return apply1(kViewsSlice, {*this}, Attrs::of(ViewsSliceAttrs{at, begin, end, step}));
}

Tensor Tensor::select(std::int64_t d, std::int64_t index) const {
  detail::require_defined("select", *this);
  if (dim() == 0) throw ShapeError("select: got a 0-d tensor; wanted at least one dimension");
  int at = wrap_dim(d, dim(), "select");
  std::int64_t n = shape()[at];
  if (index < -n || index >= n)
    throw ShapeError(fmt::format("select: index {} is outside dimension {} of {}, which takes {} to {}", index, at,
                                 etna::str(shape()), -n, n - 1));
  if (index < 0) index += n;
  return slice(at, index, index + 1).squeeze(at);
}

Tensor Tensor::expand(Shape wanted) const {
  detail::require_defined("expand", *this);
  int shift = wanted.rank() - dim();
  if (shift < 0)
    throw ShapeError(fmt::format("expand: {} has fewer dimensions than {}", etna::str(wanted), etna::str(shape())));
  for (int i = 0; i < wanted.rank(); ++i) {
    std::int64_t have = i < shift ? 1 : shape()[i - shift];
    if (wanted[i] == -1 && i >= shift) wanted[i] = have;
    if (wanted[i] < 0 || (have != 1 && have != wanted[i])) {
      throw ShapeError(fmt::format("expand: {} does not expand to {}: dimension {} is {}", etna::str(shape()),
                                   etna::str(wanted), i, have));
    }
  }
  if (wanted == shape()) return *this;
  etna::numel(wanted, "expand");  // views need no memory, but their number of elements must fit
  return apply1(kExpand, {*this}, Attrs::of(ShapeAttrs{wanted}));
}

Tensor Tensor::squeeze() const {
  detail::require_defined("squeeze", *this);
  Shape kept;
  for (std::int64_t s : shape()) {
    if (s != 1) kept.push_back(s);
  }
  return reshape(kept);
}
Tensor Tensor::squeeze(std::int64_t d) const {
  detail::require_defined("squeeze", *this);
  int at = wrap_dim(d, dim(), "squeeze");
  if (dim() == 0 || shape()[at] != 1) return *this;
  Shape kept = shape();
  kept.erase(at);
  return reshape(kept);
}
Tensor Tensor::unsqueeze(std::int64_t d) const {
  detail::require_defined("unsqueeze", *this);
  int at = wrap_dim(d, dim() + 1, "unsqueeze");
  Shape wider = shape();
  wider.insert(at, 1);
  return reshape(wider);
}

Tensor Tensor::flatten(std::int64_t first, std::int64_t last) const {
  detail::require_defined("flatten", *this);
  if (dim() == 0) return reshape({1});
  int from = wrap_dim(first, dim(), "flatten"), to = wrap_dim(last, dim(), "flatten");
  if (from > to) throw ShapeError(fmt::format("flatten: first dimension {} is after the last, {}", from, to));
  Shape flat, merged;
  for (int i = 0; i < dim(); ++i) {
    if (i < from || i > to)
      flat.push_back(shape()[i]);
    else if (merged.push_back(shape()[i]); i == to)
      flat.push_back(etna::numel(merged, "flatten"));
  }
  return reshape(flat);
}

std::vector<Tensor> Tensor::split(std::int64_t part, std::int64_t d) const {
  detail::require_defined("split", *this);
  int at = wrap_dim(d, dim(), "split");
  if (dim() == 0 || part < 1)
    throw ShapeError(fmt::format("split: {} cannot be split into chunks of {}", etna::str(shape()), part));
  if (shape()[at] == 0) return {*this};
  return apply(kSplit, {*this}, Attrs::of(SplitAttrs{at, part}));
}

std::vector<Tensor> Tensor::split(const std::vector<std::int64_t>& sizes, std::int64_t d) const {
  detail::require_defined("split", *this);
  int at = wrap_dim(d, dim(), "split");
  std::int64_t begin = 0;
  std::vector<Tensor> parts;
  for (std::int64_t s : sizes) {
    if (s < 0 || dim() == 0 || s > shape()[at] - begin)
      throw ShapeError(fmt::format("split: the sizes do not fit dimension {} of {}", at, etna::str(shape())));
    parts.push_back(slice(at, begin, begin + s));
    begin += s;
  }
  if (begin != shape()[at])
    throw ShapeError(
        fmt::format("split: the sizes add up to {}; dimension {} of {} is larger", begin, at, etna::str(shape())));
  return parts;
}

std::vector<Tensor> Tensor::chunk(std::int64_t count, std::int64_t d) const {
  detail::require_defined("chunk", *this);
  int at = wrap_dim(d, dim(), "chunk");
  if (count < 1 || dim() == 0)
    throw ShapeError(fmt::format("chunk: {} cannot be divided into {} chunks", etna::str(shape()), count));
  return split(std::max<std::int64_t>(1, shape()[at] / count + (shape()[at] % count != 0)), at);
}

Tensor Tensor::to(Device d) const {
  detail::require_defined("to", *this);
  return d == device() ? *this : apply1(kToDevice, {*this}, Attrs::of(DeviceAttrs{d}));
}

std::span<const OpDef* const> ops_in_views() {
  static const OpDef* const list[] = {&kReshape,       &kPermute, &kExpand,  &kViewsSlice,
                                      &kSliceBackward, &kSplit,   &kToDevice};
  return list;
}

}  // namespace etna
