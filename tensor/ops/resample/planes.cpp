#include <etna/tensor/ops/resample/internal/planes.h>

#include <fmt/format.h>

namespace etna::resample {
namespace {

/// The order of dimensions that moves the last leading dimension after the spatial ones, or back.
Dims moved(int leading, int spatial, bool back) {
  Dims order;
  for (int d = 0; d + 1 < leading; ++d) order.push_back(d);
  if (back) order.push_back(leading + spatial - 1);
  for (int d = 0; d < spatial; ++d) order.push_back((back ? leading - 1 : leading) + d);
  if (!back) order.push_back(leading - 1);
  return order;
}

}  // namespace

Planes::Planes(const char* op, const Tensor& x, int spatial) : op_(op), spatial_(spatial) {
  if (x.dim() < spatial) {
    throw ShapeError(fmt::format("{}: {} has {} dimensions, {} spatial ones are needed, as in [N, C{}]", op,
                                 str(x.shape()), x.dim(), spatial, spatial == 1 ? ", L" : ", ..., H, W"));
  }
  for (int d = 0; d < x.dim() - spatial; ++d) leading_.push_back(x.shape()[d]);
  channels_last_ = !leading_.empty() && leading_.back() > 1 && !x.is_contiguous() &&
                   x.permute(moved(leading_.rank(), spatial, false)).is_contiguous();
  folded_ = fold(x);
}

Tensor Planes::fold(const Tensor& x) const {
  Shape outer = leading_, whole;
  if (channels_last_) outer.erase(outer.rank() - 1);
  whole.push_back(numel(outer, op_));
  for (int d = 0; d < 3; ++d) whole.push_back(d < 3 - spatial_ ? 1 : x.shape()[x.dim() - 3 + d]);
  whole.push_back(channels_last_ ? leading_.back() : 1);
  return (channels_last_ ? x.permute(moved(leading_.rank(), spatial_, false)) : x).reshape(whole);
}

Sizes Planes::sizes() const {
  const Shape& s = folded_.shape();
  return {s[1], s[2], s[3]};
}

Tensor Planes::unfold(const Tensor& y) const {
  Shape whole = leading_;
  if (channels_last_) whole.erase(whole.rank() - 1);
  for (int d = 3 - spatial_; d < 3; ++d) whole.push_back(y.shape()[d + 1]);
  if (channels_last_) whole.push_back(leading_.back());
  Tensor unfolded = y.reshape(whole);
  return channels_last_ ? unfolded.permute(moved(leading_.rank(), spatial_, true)) : unfolded;
}

}  // namespace etna::resample
