#include <etna/tensor/ops/normalization/normalization.h>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/normalization/internal/batch_norm.h>
#include <etna/tensor/ops/resample/internal/resample.h>

namespace etna {
namespace {

/// x [N, C, ...] as [A, C, B] without a copy; with channels last as [A, C, 1].
struct Channels {
  Shape shape;
  Dims back;  ///< the order of dimensions that restores a view with channels last; empty otherwise
  Tensor folded;

  Channels(const char* op, const Tensor& x) : shape(x.shape()) {
    if (x.dim() < 2) throw ShapeError(fmt::format("{}: x is {}; it must be [N, C] or [N, C, ...]", op, str(x.shape())));
    Shape rest;
    for (int d = 2; d < x.dim(); ++d) rest.push_back(shape[d]);
    const std::int64_t n = shape[0], c = shape[1], length = numel(rest, op);
    if (x.dim() > 2 && c > 1 && !x.is_contiguous()) {
      Dims order = {0};
      for (int d = 2; d < x.dim(); ++d) order.push_back(d);
      order.push_back(1);
      const Tensor moved = x.permute(order);
      if (moved.is_contiguous()) {
        back = {0, x.dim() - 1};
        for (int d = 1; d + 1 < x.dim(); ++d) back.push_back(d);
        shape = moved.shape();
        folded = moved.reshape({checked_product(n, length, op), c, 1});
        return;
      }
    }
    folded = x.reshape({n, c, length});
  }
  Tensor unfold(const Tensor& y) const { return back.empty() ? y.reshape(shape) : y.reshape(shape).permute(back); }
};

void normalization_check_floating(const char* op, const Tensor& x) {
  if (!is_floating(x.dtype())) {
    throw DtypeError(
        fmt::format("{}: x is {}, it must be floating; convert it first, e.g. with .to(f32)", op, name(x.dtype())));
  }
}

void check_several(const char* op, const Tensor& x, std::int64_t count) {
  if (count == 1 && x.numel() > 0) {
    throw ShapeError(fmt::format("{}: {} has one value for each variance, which is then 0; more are needed to train",
                                 op, str(x.shape())));
  }
}

}  // namespace

Tensor batch_norm_tracked(const Tensor& x, const RunningStatistics& running, const Tensor& weight, const Tensor& bias,
                          bool training, double eps) {
  detail::require_defined("batch_norm", x);
  normalization_check_floating("batch_norm", x);
  const Channels channels("batch_norm", x);
  if (running.mean.defined() != running.var.defined())
    throw ShapeError("batch_norm: one of the running mean and variance is missing");
  if (!training) {
    if (!running.mean.defined())
      throw ShapeError("batch_norm: without training it needs a running mean and variance; pass them, or train");
    return channels.unfold(
        normalization::batch::normalize_by(channels.folded, running.mean, running.var, weight, bias, eps));
  }
  const std::int64_t count = channels.folded.shape()[0] * channels.folded.shape()[2];
  check_several("batch_norm", x, count);
  const normalization::batch::Normalized y = normalization::batch::normalize(channels.folded, weight, bias, eps);
  if (running.mean.defined() && count > 0)
    normalization::batch::update(running, y.mean, y.deviation, static_cast<double>(count));
  return channels.unfold(y.y);
}

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                  const Tensor& bias, bool training, double momentum, double eps) {
  RunningStatistics running{running_mean, running_var};
  running.momentum = momentum;
  return batch_norm_tracked(x, running, weight, bias, training, eps);
}

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                     const Tensor& bias, bool use_input_stats, double momentum, double eps) {
  detail::require_defined("instance_norm", x);
  normalization_check_floating("instance_norm", x);
  if (!use_input_stats) return batch_norm(x, running_mean, running_var, weight, bias, false, momentum, eps);
  const Channels channels("instance_norm", x.contiguous());
  const Shape& s = channels.folded.shape();
  const std::int64_t n = s[0], c = s[1], length = s[2];
  check_several("instance_norm", x, length);
  // One weight for each channel of each example; the gradient of expand() sums over examples.
  const auto repeated = [&](const Tensor& w) {
    return w.defined() && w.dim() == 1 && w.shape()[0] == c ? w.expand({n, c}).reshape({n * c}) : w;
  };
  const normalization::batch::Normalized y = normalization::batch::normalize(
      channels.folded.reshape({1, n * c, length}), repeated(weight), repeated(bias), eps);
  if (running_mean.defined() && running_var.defined() && x.numel() > 0) {
    RunningStatistics running{running_mean, running_var};
    running.momentum = momentum;
    normalization::batch::update(running, mean(y.mean.reshape({n, c}), {0}),
                                 sqrt(mean(square(y.deviation.reshape({n, c})), {0})), static_cast<double>(length));
  }
  return channels.unfold(y.y);
}

Tensor group_norm(const Tensor& x, std::int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps) {
  detail::require_defined("group_norm", x);
  normalization_check_floating("group_norm", x);
  const Tensor dense = x.contiguous();
  const Channels channels("group_norm", dense);
  const Shape& s = channels.folded.shape();
  const std::int64_t n = s[0], c = s[1], length = s[2];
  if (num_groups < 1 || c % num_groups != 0)
    throw ShapeError(
        fmt::format("group_norm: {} channels of {} do not form {} equal groups", c, str(x.shape()), num_groups));
  for (const Tensor& w : {weight, bias}) {
    if (w.defined() && w.shape() != Shape{c}) {
      throw ShapeError(
          fmt::format("group_norm: weight or bias is {}, x has {} channels; it must be [{}]", str(w.shape()), c, c));
    }
  }
  check_several("group_norm", x, c / num_groups * length);
  Tensor y = normalization::batch::normalize(channels.folded.reshape({1, n * num_groups, c / num_groups * length}), {},
                                             {}, eps)
                 .y;
  y = y.reshape({n, c, length});
  const auto along = [&](const Tensor& w) { return w.to(y.dtype()).reshape({1, c, 1}); };
  if (weight.defined() && bias.defined())
    y = add_scaled(along(bias), y, along(weight));
  else if (weight.defined())
    y = y * along(weight);
  else if (bias.defined())
    y = y + along(bias);
  return channels.unfold(y);
}

Tensor local_response_norm(const Tensor& x, std::int64_t size, double alpha, double beta, double k) {
  detail::require_defined("local_response_norm", x);
  normalization_check_floating("local_response_norm", x);
  if (x.dim() < 3 || size < 1 || size > 1 << 30) {
    throw ShapeError(fmt::format("local_response_norm: x is {}, size is {}; x must be [N, C, ...] and size positive",
                                 str(x.shape()), size));
  }
  Shape rest;
  for (int d = 2; d < x.dim(); ++d) rest.push_back(x.shape()[d]);
  const std::int64_t c = x.shape()[1];
  resample::ResampleAttrs map;
  map.divisor = resample::Divisor::none;
  map.factor = alpha / static_cast<double>(size);
  map.axes[0] = {static_cast<std::int32_t>(c), static_cast<std::int32_t>(c), static_cast<std::int32_t>(size), 1,
                 static_cast<std::int32_t>(size / 2)};
  const Tensor squares = square(x.contiguous()).reshape({x.shape()[0], c, 1, 1, numel(rest, "local_response_norm")});
  const Tensor divisor = resample::apply_map(squares, map).reshape(x.shape()) + k;
  return x / pow(divisor, beta);
}

}  // namespace etna
