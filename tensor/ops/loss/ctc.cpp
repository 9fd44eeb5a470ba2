#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/loss/internal/reduction.h>

// Connectionist temporal classification. A sequence passes through S labels with a blank before, between and after
// them: 2S + 1 states. Forward variables are log-probabilities. "Impossible" is a large negative number instead of
// -infinity, so that the difference of two of them is not NaN.
namespace etna {
namespace {

using namespace loss;

constexpr double kImpossible = -1e30;

void require_lengths(const char* op, const Tensor& lengths, const char* what, std::int64_t n) {
  require_classes(op, lengths);
  if (lengths.numel() != n || lengths.dim() > 1) {
    throw ShapeError(
        fmt::format("{}: {} are {}, wanted [{}], one for each sequence", op, what, str(lengths.shape()), n));
  }
}

/// 0, 1 ... generated on the device; works in a captured step.
Tensor ctc_counted(std::int64_t n, Device device) { return cumsum(ones({n}, {i64, device}), 0) - 1.0; }

/// -log p of each sequence. @param log_probs [T, N, C] @param targets [N, S]
Tensor sequence_losses(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                       const Tensor& target_lengths, std::int64_t blank) {
  const std::int64_t steps = log_probs.size(0), n = log_probs.size(1), labels = targets.size(1),
                     states = 2 * labels + 1;
  const Device device = log_probs.device();
  const TensorOptions numbers{log_probs.dtype(), device};
  // Labels after a target's length may have any value; replacing them by blanks makes them valid indices.
  const Tensor used = ctc_counted(labels, device).unsqueeze(0) < target_lengths.unsqueeze(1);
  const Tensor blanks = full({n, labels}, static_cast<double>(blank), {i64, device});
  const Tensor inner = where(used, targets, blanks);
  const Tensor end = full({n, 1}, static_cast<double>(blank), {i64, device});
  const Tensor path = cat({stack({blanks, inner}, 2).reshape({n, 2 * labels}), end}, 1);
  // A label may follow the label two states before it unless both are equal; a blank may not.
  const Tensor never = zeros({n, std::min<std::int64_t>(2, states)}, {boolean, device});
  Tensor skips = never;
  if (states > 2) skips = cat({never, ne(path.slice(1, 2, states), path.slice(1, 0, states - 2))}, 1);
  const Tensor may_skip = skips.slice(1, 0, states);

  const Tensor index = path.unsqueeze(0).expand({steps, n, states}).contiguous();
  const Tensor emitted = clamp(gather(log_probs, 2, index), kImpossible, {});
  const Tensor before = full({n, 2}, kImpossible, numbers);
  const Tensor begins = (ctc_counted(states, device) < 2.0).unsqueeze(0);
  Tensor forward = where(begins, emitted.select(0, 0), kImpossible);
  for (std::int64_t t = 1; t < steps; ++t) {
    const Tensor padded = cat({before, forward}, 1);
    const Tensor skipping = where(may_skip, padded.slice(1, 0, states), kImpossible);
    const Tensor sum = logsumexp(stack({forward, padded.slice(1, 1, states + 1), skipping}), {0});
    const Tensor runs = (input_lengths > static_cast<double>(t)).unsqueeze(1);
    forward = where(runs, sum + emitted.select(0, t), forward);
  }
  const Tensor last = (target_lengths * 2.0).unsqueeze(1);
  const Tensor on_blank = gather(forward, 1, last);
  const Tensor on_label = where(last > 0.0, gather(forward, 1, clamp(last - 1.0, 0.0, {})), kImpossible);
  const Tensor losses = -logsumexp(cat({on_blank, on_label}, 1), {1});
  // Without time steps only the empty target is possible, and certain.
  const Tensor certain = (target_lengths == 0.0).to(losses.dtype());
  return where(input_lengths == 0.0, (1.0 - certain) * -kImpossible, losses);
}

}  // namespace

Tensor ctc_loss(const Tensor& given, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
                std::int64_t blank, Reduction reduction, bool zero_infinity) {
  constexpr const char* op = "ctc_loss";
  require_classes(op, targets);
  Tensor x = widened(op, given);
  const bool one = x.dim() == 2;
  if ((x.dim() != 3 && !one) || targets.dim() != (one ? 1 : 2) || (!one && targets.size(0) != x.size(1))) {
    throw ShapeError(fmt::format("{}: got {} and targets {}, wanted [T, N, C] and [N, S], or [T, C] and [S]", op,
                                 str(given.shape()), str(targets.shape())));
  }
  if (one) x = x.unsqueeze(1);
  if (x.size(0) == 0)
    throw ShapeError(fmt::format("{}: got {}; wanted at least one time step", op, str(given.shape())));
  if (blank < 0 || blank >= x.size(2))
    throw IndexError(fmt::format("{}: blank is {}, it must lie in [0, {})", op, blank, x.size(2)));
  const std::int64_t n = x.size(1);
  require_lengths(op, input_lengths, "input_lengths", n);
  require_lengths(op, target_lengths, "target_lengths", n);
  const Tensor lengths = target_lengths.reshape({n}).to(i64);
  Tensor losses = sequence_losses(x, (one ? targets.unsqueeze(0) : targets).to(i64), input_lengths.reshape({n}).to(i64),
                                  lengths, blank);
  const Tensor impossible = losses > -kImpossible / 10;
  losses = masked_fill(losses, impossible, zero_infinity ? 0 : std::numeric_limits<double>::infinity());
  if (one) losses = losses.reshape({});
  if (reduction == Reduction::mean) losses = losses / clamp(lengths, 1.0, {}).to(x.dtype()).reshape(losses.shape());
  return reduced(losses, reduction, result_dtype(given));
}

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const std::vector<std::int64_t>& input_lengths,
                const std::vector<std::int64_t>& target_lengths, std::int64_t blank, Reduction reduction,
                bool zero_infinity) {
  constexpr const char* op = "ctc_loss";
  detail::require_defined(op, log_probs, targets);
  const bool one = log_probs.dim() == 2;
  if (log_probs.dim() != 3 && !one)
    throw ShapeError(fmt::format("{}: log_probs are {}, wanted [T, N, C] or [T, C]", op, str(log_probs.shape())));
  const auto n = static_cast<std::size_t>(one ? 1 : log_probs.size(1));
  const auto most = [](const std::vector<std::int64_t>& v) { return v.empty() ? 0 : *std::ranges::max_element(v); };
  const auto least = [](const std::vector<std::int64_t>& v) { return v.empty() ? 0 : *std::ranges::min_element(v); };
  const bool concatenated = !one && targets.dim() == 1;
  const std::int64_t total = std::accumulate(target_lengths.begin(), target_lengths.end(), std::int64_t{0});
  const std::int64_t room = targets.dim() == 0 ? 0 : concatenated ? total : targets.size(-1);
  if (input_lengths.size() != n || target_lengths.size() != n || most(input_lengths) > log_probs.size(0) ||
      least(input_lengths) < 0 || least(target_lengths) < 0 || most(target_lengths) > room ||
      (concatenated && targets.size(0) != total)) {
    throw ShapeError(
        fmt::format("{}: {} input lengths up to {} and {} target lengths up to {} (sum {}) do not fit {} "
                    "and targets {}",
                    op, input_lengths.size(), most(input_lengths), target_lengths.size(), most(target_lengths), total,
                    str(log_probs.shape()), str(targets.shape())));
  }
  const Device device = log_probs.device();
  // Numbers of the host reach a captured step as fills, one for each sequence.
  const auto on_device = [&](const std::vector<std::int64_t>& v) {
    std::vector<Tensor> all;
    for (std::int64_t x : v) all.push_back(full({1}, static_cast<double>(x), {i64, device}));
    return all.empty() ? zeros({0}, {i64, device}) : cat(all);
  };
  Tensor rows = targets;
  if (concatenated) {
    const std::int64_t widest = most(target_lengths);
    std::vector<Tensor> padded;
    std::int64_t begin = 0;
    for (std::int64_t length : target_lengths) {
      const Tensor labels = targets.slice(0, begin, begin + length).to(i64);
      padded.push_back(cat({labels, zeros({widest - length}, {i64, device})}));
      begin += length;
    }
    rows = padded.empty() ? zeros({0, 0}, {i64, device}) : stack(padded);
  }
  return ctc_loss(log_probs, rows, on_device(input_lengths), on_device(target_lengths), blank, reduction,
                  zero_infinity);
}

}  // namespace etna
