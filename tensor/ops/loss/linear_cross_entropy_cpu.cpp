#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <etna/device/internal/cpu/math.h>
#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/device/internal/rounding.h>
#include <etna/tensor/ops/loss/internal/linear_cross_entropy.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// Bound by three gemms; the data between them must stay in the cache. A chunk of rows is divided into tiles of 128 rows
// and 512 classes. A tile and its share of the weight fit a core's L2. While a tile is in the cache, its logits become
// exponentials e relative to the largest logit so far, as in an online softmax, and e · weight is added to the rows'
// gradient, which is rescaled when a larger logit arrives. After all classes, one factor per row turns e into
// probabilities. It is applied to the rows of x, not to the tiles, so the second and last pass over the tiles is only
// the gemm eᵀ · (factor · x).
//
// The target is left out of the tile and of the sum: its coefficient p - 1 is the negated sum of the other
// probabilities, which avoids cancellation.
//
// Tasks, their order of additions and their outputs depend only on sizes, and so do the bits. Lost: one gemm on all
// threads for the logits of 64 whole rows, a pass for the softmax, one for the gradient, and two more gemms (three
// times as long: 8 MiB per pass, and a gemm as skinny as the chunk); strides that are powers of two (eᵀ · x at a third
// of the speed).
namespace etna::loss::chunked {
namespace {

constexpr std::int64_t kRows = 128, kColumns = 512;  ///< size of a tile
constexpr std::int64_t kGap = 16;                    ///< padding after a row, to avoid strides that are powers of two
constexpr std::int64_t kMostGroups = 32;             ///< most tasks per row of tiles
/// Bytes of a chunk: about an L3 cache. A chunk holds twice the bytes of the weight if that is more, since each chunk
/// reads the weight twice and reads and writes its gradient.
constexpr std::int64_t kChunkBytes = std::int64_t{24} << 20;
/// Fewest blocks of rows per chunk, since each block reuses a tile of the weight that is in the caches.
constexpr std::int64_t kFewestBlocks = 4;

struct Span {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  /// The i-th of `parts` equal parts of [0, n).
  static Span part(std::int64_t n, std::int64_t parts, std::int64_t i) { return {n * i / parts, n * (i + 1) / parts}; }
};

/// The online softmax state of a row: the sum of the exponentials except the target's, relative to exp(largest), and
/// for label smoothing the sum of all logits.
struct SoftmaxState {
  double others = 0, total = 0;
};

template <typename T>
constexpr T kLowest = -std::numeric_limits<T>::infinity();

/// The value to subtract before exp; a row of only -inf then gives zeros.
template <typename T>
T shift_of(T largest) {
  return largest == kLowest<T> ? T(0) : largest;
}

/// M is the type of the gemm operands: T, or the bits of bf16 on processors that multiply bf16. Then the exponentials
/// e, and x times its factors, are rounded to bf16. Sums, exponentials and the loss are f32 either way.
template <typename T, typename M>
class Loss {
  static constexpr bool kRounds = !std::is_same_v<T, M>;

 public:
  Loss(const OpCall& call, std::span<Tensor> out)
      : a_(call.as<LinearCrossEntropyAttrs>()),
        out_(a_, out),
        x_(call.in[0].to(dtype_of<T>()).contiguous()),
        multiplied_(kRounds ? call.in[0].contiguous() : x_),
        weight_(call.in[1].contiguous()),
        bias_(call.in[2].defined() ? call.in[2].to(dtype_of<T>()).contiguous() : Tensor()),
        rows_(x_.size(0)),
        width_(x_.size(1)),
        classes_(weight_.size(0)),
        targets_(loss::checked_targets(call.op.name, call.in[3], classes_, a_.loss.ignore_index)),
        stride_((std::min(classes_, kColumns) + kGap - 1) / kGap * kGap + kGap),
        tiles_(ceil_div(classes_, kColumns)),
        groups_(std::min(tiles_, kMostGroups)),
        smoothing_(a_.loss.label_smoothing) {
    const std::int64_t counted = rows_ - std::count(targets_.begin(), targets_.end(), a_.loss.ignore_index);
    counted_ = static_cast<double>(counted);
    const bool mean = a_.loss.reduction == Reduction::mean;
    divisor_ = !mean ? 1 : counted > 0 ? 1 / counted_ : 0;
    const auto of_sum = static_cast<std::int64_t>(sizeof(T)), of_tile = static_cast<std::int64_t>(sizeof(M));
    const std::int64_t bytes = kRows * (tiles_ * stride_ * of_tile + groups_ * width_ * of_sum);
    const std::int64_t most = std::max(kChunkBytes, 2 * classes_ * width_ * of_sum);
    blocks_ = std::min(std::max(most / bytes, kFewestBlocks), std::max<std::int64_t>(1, ceil_div(rows_, kRows)));
  }

  void run() {
    const std::int64_t held = std::min(rows_, blocks_ * kRows);
    if (a_.wants_weight || a_.wants_bias)
      tile_room_ = empty({blocks_ * tiles_ * kRows * stride_}, {multiplied_.dtype(), kCPU});
    if (a_.wants_x) {
      partial_ = room(groups_ * held * width_);
      if (smoothing_ != 0) sum_weight_rows();
    }
    largest_ = room(tiles_ * held);
    x_at_ = x_.host<T>();
    multiplied_at_ = raw(multiplied_);
    if (tile_room_.defined()) room_at_ = raw(tile_room_);
    if (partial_.defined()) partial_at_ = partial_.host<T>();
    largest_at_ = largest_.host<T>();
    logsumexp_.resize(static_cast<std::size_t>(held), T(0));
    at_target_.resize(static_cast<std::size_t>(held), T(0));
    states_.resize(static_cast<std::size_t>(groups_ * held));
    losses_.resize(static_cast<std::size_t>(rows_), 0);
    for (std::int64_t begin = 0; begin < rows_; begin += held) {
      chunk_ = {begin, std::min(rows_, begin + held)};
      const std::int64_t blocks = ceil_div(chunk_.size(), kRows);
      cpu::for_each_task(blocks * groups_, [&](std::int64_t task) { update_states(task % blocks, task / blocks); });
      cpu::parallel_for(chunk_.size(), 8, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) finish_row(i);
      });
      if (!a_.wants_weight && !a_.wants_bias) continue;
      const std::int64_t slices =
          std::clamp<std::int64_t>(kMostGroups / tiles_ / 2, 1, std::max<std::int64_t>(1, width_ / 64));
      cpu::for_each_task(tiles_ * slices, [&](std::int64_t task) {
        add_to_weight(task / slices, Span::part(width_, slices, task % slices), task % slices == 0);
      });
    }
    if (smoothing_ != 0) smooth_weight();
    double loss = 0;
    for (double value : losses_) loss += value;
    // If no row counts, the mean is 0 / 0, which is NaN.
    out_.loss.fill_(a_.loss.reduction == Reduction::mean ? loss / counted_ : loss);
    if (rows_ > 0) return;
    for (Tensor* t : {&out_.x, &out_.weight, &out_.bias}) {
      if (t->defined()) t->zero_();
    }
  }

 private:
  static M* raw(const Tensor& x) {
    if constexpr (kRounds)
      return &x.host<BFloat16>()->bits;
    else
      return x.host<M>();
  }
  static Tensor room(std::int64_t elements) { return empty({elements}, {dtype_of<T>(), kCPU}); }

  std::int64_t target(std::int64_t row) const { return targets_[static_cast<std::size_t>(row)]; }
  bool ignored(std::int64_t row) const { return target(row) == a_.loss.ignore_index; }
  Span columns(std::int64_t tile) const { return {tile * kColumns, std::min(classes_, (tile + 1) * kColumns)}; }
  /// Rows of a block, relative to the chunk.
  Span rows_of(std::int64_t block) const { return {block * kRows, std::min(chunk_.size(), (block + 1) * kRows)}; }
  M* tile(std::int64_t block, std::int64_t t) const { return room_at_ + (block * tiles_ + t) * kRows * stride_; }
  T* partial(std::int64_t group, std::int64_t i) const { return partial_at_ + (group * chunk_.size() + i) * width_; }
  T& largest(std::int64_t t, std::int64_t i) const { return largest_at_[t * chunk_.size() + i]; }
  SoftmaxState& state(std::int64_t group, std::int64_t i) {
    return states_[static_cast<std::size_t>(group * chunk_.size() + i)];
  }
  const T* x(std::int64_t i) const { return x_at_ + (chunk_.begin + i) * width_; }

  const M* multiplied(std::int64_t i) const { return multiplied_at_ + (chunk_.begin + i) * width_; }

  /// Rows of the weight as T: in place, or converted into `buffer`.
  const T* weight(Span of, cpu::Scratch<T>& buffer) const {
    if (weight_.dtype() != dtype_of<T>()) buffer.resize(static_cast<std::size_t>(of.size() * width_));
    return rows::read<T>(weight_, of.begin * width_, 1, of.size() * width_, buffer.data());
  }
  const M* multiplied_weight(Span of, cpu::Scratch<T>& buffer) const {
    if constexpr (kRounds)
      return raw(weight_) + of.begin * width_;
    else
      return weight(of, buffer);
  }

  /// First pass: the logits of a block of rows for a group's classes, one tile at a time.
  void update_states(std::int64_t block, std::int64_t group) {
    const Span rows = rows_of(block), tiles = Span::part(tiles_, groups_, group);
    const auto size = static_cast<std::size_t>(kRows * stride_);
    cpu::Scratch<T> weight_buffer, logits_buffer(kRounds || !tile_room_.defined() ? size : 0);
    cpu::Scratch<M> rounded_buffer(kRounds && !tile_room_.defined() ? size : 0);
    for (std::int64_t i = rows.begin; i < rows.end; ++i) state(group, i) = {};
    for (std::int64_t t = tiles.begin; t < tiles.end; ++t) {
      const Span in = columns(t);
      const M* w = multiplied_weight(in, weight_buffer);
      T* logits = logits_buffer.data();
      M* e = tile_room_.defined() ? tile(block, t) : rounded_buffer.data();
      if constexpr (!kRounds) {
        if (tile_room_.defined()) logits = e;
        e = logits;
      }
      cpu::gemm_one_thread({false, true, rows.size(), in.size(), width_, width_, width_, stride_}, T(1),
                           multiplied(rows.begin), w, T(0), logits);
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        T* row = logits + (i - rows.begin) * stride_;
        softmax_update_tile(row, t, i, group, t == tiles.begin);
        if constexpr (kRounds) cpu::narrow_bf16(row, e + (i - rows.begin) * stride_, in.size());
      }
      if (!a_.wants_x) continue;
      cpu::gemm_one_thread({false, false, rows.size(), width_, in.size(), stride_, width_, width_}, T(1), e, w,
                           t == tiles.begin ? T(0) : T(1), partial(group, rows.begin));
    }
  }

  /// Turns the logits of one row in one tile into exponentials and updates the row's softmax state; the target's
  /// becomes 0.
  void softmax_update_tile(T* row, std::int64_t t, std::int64_t i, std::int64_t group, bool first) {
    const Span in = columns(t);
    T& now = largest(t, i);
    if (ignored(chunk_.begin + i)) {
      std::fill_n(row, in.size(), T(0));
      now = kLowest<T>;
      return;
    }
    if (bias_.defined()) cpu::add_scaled(row, bias_.host<T>() + in.begin, T(1), in.size());
    SoftmaxState& so_far = state(group, i);
    if (smoothing_ != 0) so_far.total += cpu::sum(row, in.size());
    const std::int64_t at = target(chunk_.begin + i) - in.begin;
    const bool here = at >= 0 && at < in.size();
    const T before = first ? kLowest<T> : largest(t - 1, i), top = cpu::largest(row, in.size());
    now = top > before || top != top ? top : before;
    if (!first && now != before) {
      const T shrink = m::exp(before - now);
      so_far.others *= static_cast<double>(shrink);
      if (a_.wants_x) cpu::scale(partial(group, i), shrink, width_);
    }
    if (here) at_target_[static_cast<std::size_t>(i)] = std::exchange(row[at], kLowest<T>);
    so_far.others += cpu::exp_sum(row, shift_of(now), row, in.size());
  }

  /// Between the passes: combines the groups' states of a row. Stores the coefficient of its target in at_target_.
  void finish_row(std::int64_t i) {
    const std::int64_t row = chunk_.begin + i;
    if (ignored(row)) {
      losses_[static_cast<std::size_t>(row)] = 0;
      if (a_.wants_x) write_row(cpu::Scratch<T>(static_cast<std::size_t>(width_), T(0)), row);
      return;
    }
    auto last_of = [&](std::int64_t group) {
      return static_cast<double>(largest(Span::part(tiles_, groups_, group).end - 1, i));
    };
    double top = last_of(0), others = 0, total = 0;
    for (std::int64_t g = 1; g < groups_; ++g) top = m::maximum(top, last_of(g));
    for (std::int64_t g = 0; g < groups_; ++g) {
      others += state(g, i).others * std::exp(last_of(g) - top);
      total += state(g, i).total;
    }
    // If the target is nearly certain, computes log p and 1 - p from the other classes.
    const auto logit = static_cast<double>(at_target_[static_cast<std::size_t>(i)]);
    const double own = std::exp(logit - top), sum = others + own, lse = top + std::log(sum);
    const double missed = others < own ? std::log1p(others / own) : lse - logit;
    const double mean = total / static_cast<double>(classes_);
    losses_[static_cast<std::size_t>(row)] =
        smoothing_ == 0 ? missed : (1 - smoothing_) * missed + smoothing_ * (lse - mean);
    logsumexp_[static_cast<std::size_t>(i)] = static_cast<T>(lse);
    const T coefficient = static_cast<T>((smoothing_ - others / sum) * divisor_);
    at_target_[static_cast<std::size_t>(i)] = coefficient;
    if (!a_.wants_x) return;
    cpu::Scratch<T> dx(static_cast<std::size_t>(width_), T(0)), buffer;
    for (std::int64_t g = 0; g < groups_; ++g)
      cpu::add_scaled(dx.data(), partial(g, i), static_cast<T>(std::exp(last_of(g) - lse) * divisor_), width_);
    cpu::add_scaled(dx.data(), weight({target(row), target(row) + 1}, buffer), coefficient, width_);
    if (smoothing_ != 0) {
      const double base = smoothing_ / static_cast<double>(classes_) * divisor_;
      for (std::size_t j = 0; j < dx.size(); ++j) dx[j] -= static_cast<T>(base * weight_sums_[j]);
    }
    write_row(dx, row);
  }
  void write_row(const cpu::Scratch<T>& dx, std::int64_t row) {
    rows::write(out_.x, row * width_, 1, width_, dx.data());
  }

  /// Second pass: adds the contributions of all rows of the chunk to a tile's classes, in columns [of.begin, of.end) of
  /// the weight.
  void add_to_weight(std::int64_t t, Span of, bool bias_too) {
    const Span in = columns(t);
    const std::int64_t stride = of.size() + kGap;
    cpu::Scratch<T> row(static_cast<std::size_t>(std::max(of.size(), in.size())));
    cpu::Scratch<M> scaled(a_.wants_weight ? static_cast<std::size_t>(kRows * stride) : 0);
    T* dbias = a_.wants_bias && bias_too ? out_.bias.host<T>() + in.begin : nullptr;
    if (dbias != nullptr && chunk_.begin == 0) std::fill_n(dbias, in.size(), T(0));
    for (std::int64_t block = 0; block < ceil_div(chunk_.size(), kRows); ++block) {
      const Span rows = rows_of(block);
      const M* e = tile(block, t);
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        const T factor = ignored(chunk_.begin + i) ? T(0)
                                                   : static_cast<T>(std::exp(static_cast<double>(largest(t, i)) -
                                                                             logsumexp_[static_cast<std::size_t>(i)]) *
                                                                    divisor_);
        if (dbias != nullptr)
          cpu::add_scaled(dbias, widened(e + (i - rows.begin) * stride_, in.size(), row), factor, in.size());
        if (!a_.wants_weight) continue;
        M* to = scaled.data() + (i - rows.begin) * stride;
        T* product = row.data();
        if constexpr (!kRounds) product = to;
        std::copy_n(x(i) + of.begin, of.size(), product);
        cpu::scale(product, factor, of.size());
        if constexpr (kRounds) cpu::narrow_bf16(product, to, of.size());
      }
      T* dweight = a_.wants_weight ? out_.weight.host<T>() + in.begin * width_ + of.begin : nullptr;
      if (dweight != nullptr) {
        cpu::gemm_one_thread({true, false, in.size(), of.size(), rows.size(), stride_, stride, width_}, T(1), e,
                             scaled.data(), chunk_.begin + block == 0 ? T(0) : T(1), dweight);
      }
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        const std::int64_t at = target(chunk_.begin + i) - in.begin;
        if (ignored(chunk_.begin + i) || at < 0 || at >= in.size()) continue;
        const T coefficient = at_target_[static_cast<std::size_t>(i)];
        if (dweight != nullptr) cpu::add_scaled(dweight + at * width_, x(i) + of.begin, coefficient, of.size());
        if (dbias != nullptr) dbias[at] += coefficient;
      }
    }
  }

  /// A tile's row as T: in place, or converted into `buffer`.
  static const T* widened(const M* row, [[maybe_unused]] std::int64_t n, [[maybe_unused]] cpu::Scratch<T>& buffer) {
    if constexpr (kRounds) {
      cpu::widen_bf16(row, buffer.data(), n);
      return buffer.data();
    } else {
      return row;
    }
  }

  /// Σ over classes of the weight's rows: label smoothing subtracts it from the gradient of each row of x.
  void sum_weight_rows() {
    const auto width = static_cast<std::size_t>(width_);
    cpu::Scratch<double> sums(static_cast<std::size_t>(tiles_) * width, 0);
    cpu::parallel_for(tiles_, 1, [&](std::int64_t first, std::int64_t last) {
      cpu::Scratch<T> buffer;
      for (std::int64_t t = first; t < last; ++t) {
        const T* w = weight(columns(t), buffer);
        double* to = sums.data() + static_cast<std::size_t>(t) * width;
        for (std::int64_t row = 0; row < columns(t).size(); ++row) {
          for (std::size_t j = 0; j < width; ++j)
            to[j] += static_cast<double>(w[static_cast<std::size_t>(row) * width + j]);
        }
      }
    });
    weight_sums_.assign(width, 0);
    for (std::size_t i = 0; i < sums.size(); ++i) weight_sums_[i % width] += sums[i];
  }

  /// Adds the term of label smoothing that is equal for all classes.
  void smooth_weight() {
    const double base = smoothing_ / static_cast<double>(classes_) * divisor_;
    std::vector<double> x_sums(static_cast<std::size_t>(width_));
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::size_t j = 0; j < x_sums.size() && !ignored(i); ++j)
        x_sums[j] += static_cast<double>(x_.host<T>()[static_cast<std::size_t>(i * width_) + j]);
    }
    std::vector<T> change(x_sums.size());
    for (std::size_t j = 0; j < change.size(); ++j) change[j] = static_cast<T>(base * x_sums[j]);
    cpu::parallel_for(classes_, std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, width_)),
                      [&](std::int64_t first, std::int64_t last) {
                        for (std::int64_t c = first; c < last; ++c) {
                          if (a_.wants_weight)
                            cpu::add_scaled(out_.weight.host<T>() + c * width_, change.data(), T(-1), width_);
                          if (a_.wants_bias) out_.bias.host<T>()[c] -= static_cast<T>(base * counted_);
                        }
                      });
  }

  LinearCrossEntropyAttrs a_;
  Outputs out_;
  Tensor x_, multiplied_, weight_, bias_;  ///< x as T, and x in the gemm's operand type
  std::int64_t rows_, width_, classes_;
  cpu::Scratch<std::int64_t> targets_;
  std::int64_t stride_;  ///< row stride of a tile
  std::int64_t tiles_, groups_, blocks_ = 1;
  double smoothing_, counted_ = 0, divisor_ = 1;
  Span chunk_;
  Tensor tile_room_;  ///< [blocks, tiles, rows, stride]
  Tensor partial_;    ///< [groups, rows, width]: e · weight
  Tensor largest_;    ///< [tiles, rows]: the largest logit that a tile's exponentials are relative to
  const T* x_at_ = nullptr;
  const M* multiplied_at_ = nullptr;
  M* room_at_ = nullptr;
  T *partial_at_ = nullptr, *largest_at_ = nullptr;
  cpu::Scratch<T> logsumexp_, at_target_;
  cpu::Scratch<SoftmaxState> states_;  ///< [groups, rows]
  cpu::Scratch<double> losses_, weight_sums_;
};

}  // namespace

void cpu(const OpCall& call, std::span<Tensor> out) {
  const DType t = call.in[0].dtype();
  if (t == f64)
    Loss<double, double>(call, out).run();
  else if (t == bf16 && cpu::multiplies_bf16())
    Loss<float, cpu::Bf16>(call, out).run();
  else
    Loss<float, float>(call, out).run();
}

}  // namespace etna::loss::chunked
