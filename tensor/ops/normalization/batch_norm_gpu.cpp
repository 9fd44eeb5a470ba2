#include <algorithm>
#include <cmath>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/normalization/internal/batch_norm.h>

namespace etna::normalization::batch {
namespace {

DType dtype_of(const Tensor& w) { return w.defined() ? w.dtype() : f32; }

bool any_f64(std::span<const Tensor> tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return x.defined() && x.dtype() == f64; });
}

/// True if four elements of a run can be loaded at once from all of these.
bool by_fours(std::int64_t run, std::initializer_list<const Tensor*> tensors) {
  bool fits = run % 4 == 0;
  for (const Tensor* x : tensors) fits = fits && (!x->defined() || x->address() % (4 * item_size(x->dtype())) == 0);
  return fits;
}

/// Sums over channels: the moments of x, or (with g) the sums for the gradient.
/// @param second deviation [C], or the sums [2, C]
void sums(const OpCall& call, const Tensor& x, const Tensor& g, const Tensor& mean, const Tensor& second) {
  const std::int64_t channels = x.shape()[1], run = x.shape()[2], count = x.shape()[0] * run;
  const bool backward = g.defined(), columns = run == 1;
  const std::int64_t threads = columns ? 8 : count <= 512 ? 32 : 256, slots = 256 / threads;
  const std::int64_t groups = (channels + slots - 1) / slots, width = by_fours(run, {&x, &g}) ? 4 : 1;
  // Enough workgroups for the device, each with at least 64 elements per thread.
  const std::int64_t units = gpu::capabilities(x.device()).compute_units;
  std::int64_t chunks =
      std::clamp<std::int64_t>(8 * units / groups, 1, std::max<std::int64_t>(1, count / (64 * threads)));
  if (chunks < 3) chunks = 1;  // fewer are not worth a barrier and a second dispatch
  std::int64_t chunk = (count + chunks - 1) / chunks;
  chunk = (chunk + 3) / 4 * 4;
  chunks = (count + chunk - 1) / chunk;
  const Tensor states = chunks > 1 ? empty({chunks, channels, 4}, {f32, x.device()}) : Tensor();
  const auto launch = [&](const Tensor& from, std::int64_t per_row, std::int64_t elements, std::int64_t length,
                          std::int64_t parts, bool from_states, bool to_states) {
    const std::int64_t rows = 256 / per_row, blocks = (channels + rows - 1) / rows;
    gpu::Kernel kernel(shaders::batch_norm_sums, call);
    kernel.spec(per_row, columns || from_states, backward, x.dtype(), dtype_of(g), from_states ? 1 : width)
        .spec(from_states, to_states)
        .read(from)
        .read(from_states ? Tensor() : g);
    backward ? kernel.read(mean) : kernel.write(to_states ? Tensor() : mean);
    kernel.write(to_states ? Tensor() : second)
        .write(to_states ? states : Tensor())
        .u32(channels, run, elements, length, blocks, parts)
        .dispatch(gpu::grid(blocks * parts));
  };
  launch(x, threads, count, chunk, chunks, false, chunks > 1);
  if (chunks > 1) launch(states, 32, chunks, chunks, 1, true, false);
}

/// Computes y, or dx. @param spread the deviation; for given statistics the variance
void elements(const OpCall& call, const Tensor& x, const Tensor& y, const Tensor& g, const Tensor& mean,
              const Tensor& spread, const Tensor& weight, const Tensor& bias, const Tensor& sums, double eps,
              bool training) {
  const std::int64_t channels = x.shape()[1], run = x.shape()[2], count = x.shape()[0] * run;
  const bool backward = g.defined(), columns = run == 1;
  const bool fours =
      columns ? by_fours(channels, {&x, &g, &y, &mean, &spread, &weight, &bias, &sums}) : by_fours(run, {&x, &g, &y});
  const bool second = backward ? sums.defined() : bias.defined();
  gpu::Kernel(shaders::batch_norm_apply, call)
      .spec(256, columns && fours, backward, x.dtype(), dtype_of(g), fours ? 4 : 1)
      .spec((weight.defined() ? 1 : 0) | (second ? 2 : 0) | (training ? 4 : 0), dtype_of(weight), dtype_of(bias),
            y.dtype())
      .read(x)
      .write(y)
      .read(g)
      .read(mean)
      .read(spread)
      .read(weight)
      .read(bias)
      .read(sums)
      .u32(x.numel(), channels, run)
      .f32(static_cast<float>(eps))
      .f32(1 / static_cast<float>(count))
      .dispatch(gpu::grid(x.numel(), 1024));
}

Tensor dense(const Tensor& w) { return w.defined() ? w.contiguous() : w; }

}  // namespace

bool forward_gpu(const OpCall& call, std::span<Tensor> out) {
  if (any_f64(call.in)) return false;
  const auto a = call.as<BatchNormAttrs>();
  Tensor &y = out[0], &mean = out[1], &spread = out[2];
  if (y.numel() == 0) {
    for (Tensor& each : out) each.fill_(0);
    return true;
  }
  const Tensor x = call.in[0].contiguous();
  if (a.training) {
    sums(call, x, {}, mean, spread);
  } else {
    mean.copy_(call.in[3]);
    spread.copy_(call.in[4]);
  }
  elements(call, x, y, {}, mean, spread, dense(call.in[1]), dense(call.in[2]), {}, a.eps, a.training);
  return true;
}

bool backward_gpu(const OpCall& call, std::span<Tensor> out) {
  if (any_f64(call.in) || any_f64(out)) return false;
  const auto a = call.as<BatchNormBackwardAttrs>();
  if (out[0].numel() == 0) {
    for (Tensor& each : out) each.zero_();
    return true;
  }
  const Tensor g = call.in[0].contiguous(), x = call.in[1].contiguous(), weight = dense(call.in[2]);
  const Tensor mean = call.in[3].contiguous(), spread = call.in[4].contiguous();
  Tensor totals;
  if (a.training || a.wants_weight || a.wants_bias) {
    totals = empty({2, x.shape()[1]}, {f32, x.device()});
    sums(call, x, g, mean, totals);
  }
  elements(call, x, out[0], g, mean, spread, weight, {}, a.training ? totals : Tensor(), a.eps, a.training);
  std::size_t next = 1;
  if (a.wants_weight)
    out[next++].copy_(totals[1] / (a.training ? hypot(spread, std::sqrt(a.eps)) : sqrt(spread + a.eps)));
  if (a.wants_bias) out[next].copy_(totals[0]);
  return true;
}

bool update_gpu(const OpCall& call, std::span<Tensor> out) {
  if (any_f64(call.in)) return false;
  const auto a = call.as<BatchNormUpdateAttrs>();
  const Tensor &mean = out[0], &variance = out[1], &batches = call.in[4];
  if (!mean.is_contiguous() || !variance.is_contiguous()) return false;
  gpu::Kernel kernel(shaders::batch_norm_update, call);
  kernel.spec(256, 0, 0, f32, f32, mean.dtype(), variance.dtype(),
              !batches.defined() ? 0
              : a.cumulative     ? 2
                                 : 1)
      .read_write(mean)
      .read_write(variance)
      .read(call.in[2].contiguous())
      .read(call.in[3].contiguous())
      .read_write(batches)
      .u32(mean.numel())
      .f32(static_cast<float>(a.momentum))
      .f32(static_cast<float>(a.unbiased))
      .dispatch(1);
  return true;
}

}  // namespace etna::normalization::batch
