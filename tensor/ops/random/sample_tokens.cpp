#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/random/internal/philox.h>
#include <etna/tensor/ops/random/random.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// Draws a token from each row of logits.
namespace etna {
namespace {

enum SampleTokensIn { kSampleLogits, kSampleNumbers, kSampleSeeds, kSampleDraws, kSampleCounts, kSampleBias };

void check_shape(const OpCall& call, const char* what, const Tensor& x, const Shape& shape, DType dtype) {
  if (!x.defined()) return;
  if (x.shape() != shape || x.dtype() != dtype) {
    throw ShapeError(fmt::format("{}: {} are {} {}; wanted {} {}", call.op.name, what, name(x.dtype()), str(x.shape()),
                                 name(dtype), str(shape)));
  }
}

std::vector<OutputSpec> sample_tokens_infer(const OpCall& call) {
  const Tensor& logits = call.in[kSampleLogits];
  if (!is_floating(logits.dtype()))
    throw DtypeError(fmt::format("{}: logits are {}; wanted a floating dtype", call.op.name, name(logits.dtype())));
  if (logits.dim() != 2 || logits.size(1) < 1)
    throw ShapeError(fmt::format("{}: logits are {}; wanted [B, V] with V above 0", call.op.name, str(logits.shape())));
  const std::int64_t batch = logits.size(0);
  check_shape(call, "the numbers", call.in[kSampleNumbers], {batch, kSamplingNumbers}, f32);
  check_shape(call, "the seeds", call.in[kSampleSeeds], {batch, 2}, i32);
  check_shape(call, "the draws", call.in[kSampleDraws], {batch}, i32);
  check_shape(call, "the counts", call.in[kSampleCounts], logits.shape(), i32);
  check_shape(call, "the biases", call.in[kSampleBias], logits.shape(), f32);
  if (!call.in[kSampleCounts].defined()) return {{Shape{batch}, i32}};
  if (!call.in[kSampleCounts].is_contiguous())
    throw ShapeError(fmt::format("{}: the counts are written in place and must be contiguous", call.op.name));
  return {{Shape{batch}, i32}, {logits.shape(), i32, kSampleCounts}};
}

/// The candidates of a row, and the filters that remove some.
class SampleTokensRow {
 public:
  explicit SampleTokensRow(std::int64_t size) : logits_(static_cast<std::size_t>(size)), weights_(logits_.size()) {}

  std::vector<float>& logits() { return logits_; }

  std::int32_t draw(const float* numbers, std::uint32_t bits) {
    const float most = largest();
    if (!(most > -std::numeric_limits<float>::infinity())) return 0;
    const auto n = static_cast<std::int64_t>(logits_.size());
    const auto best = static_cast<std::int32_t>(std::find(logits_.begin(), logits_.end(), most) - logits_.begin());
    if (!(numbers[kTemperature] > 0) || most == std::numeric_limits<float>::infinity()) return best;
    cpu::scale(logits_.data(), 1 / numbers[kTemperature], n);
    top_ = most / numbers[kTemperature];
    kept_.resize(logits_.size());
    std::iota(kept_.begin(), kept_.end(), 0);
    if (numbers[kTopK] >= 1 && numbers[kTopK] < static_cast<float>(n))
      keep_largest(static_cast<std::size_t>(numbers[kTopK]));
    weigh();
    if (numbers[kTopP] < 1) keep_mass(static_cast<double>(numbers[kTopP]), false);
    if (numbers[kMinP] > 0) {
      std::erase_if(kept_, [&](std::int32_t i) { return !(weight(i) >= numbers[kMinP]); });
    }
    if (numbers[kTypicalP] < 1) keep_mass(static_cast<double>(numbers[kTypicalP]), true);
    return pick(bits);
  }

 private:
  float largest() const {
    float most = -std::numeric_limits<float>::infinity();
    for (const float l : logits_)
      if (l > most) most = l;
    return most;
  }
  float weight(std::int32_t i) const { return weights_[static_cast<std::size_t>(i)]; }
  float logit(std::int32_t i) const { return logits_[static_cast<std::size_t>(i)]; }

  void keep_largest(std::size_t k) {
    std::vector<float> order(logits_);
    std::replace_if(
        order.begin(), order.end(), [](float l) { return std::isnan(l); }, -std::numeric_limits<float>::infinity());
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k - 1), order.end(), std::greater<>());
    const float limit = order[k - 1];
    std::erase_if(kept_, [&](std::int32_t i) { return !(logit(i) >= limit); });
  }
  /// Probabilities relative to the largest.
  void weigh() {
    if (kept_.size() == logits_.size()) {
      cpu::exp_sum(logits_.data(), top_, weights_.data(), static_cast<std::int64_t>(logits_.size()));
      std::erase_if(kept_, [&](std::int32_t i) { return !(weight(i) > 0); });
    } else {
      for (const std::int32_t i : kept_) weights_[static_cast<std::size_t>(i)] = std::exp(logit(i) - top_);
    }
  }
  double total() const {
    double sum = 0;
    for (const std::int32_t i : kept_) sum += static_cast<double>(weight(i));
    return sum;
  }
  /// Keeps the first candidates whose probabilities sum to `part` of the total, and those equal to the last of them.
  void keep_mass(double part, bool typical) {
    const double all = total();
    double entropy = 0;
    for (const std::int32_t i : kept_) {
      const double p = static_cast<double>(weight(i)) / all;
      if (p > 0) entropy -= p * std::log(p);
    }
    std::vector<std::pair<float, std::int32_t>> order;
    order.reserve(kept_.size());
    for (const std::int32_t i : kept_) {
      const double p = static_cast<double>(weight(i)) / all;
      order.emplace_back(typical ? static_cast<float>(std::abs(-std::log(p) - entropy)) : -weight(i), i);
    }
    // Few are kept, so sorting a growing front is cheaper than sorting all.
    double sum = 0;
    std::size_t sorted = 0, kept = 0;
    while (kept < order.size() && (kept == 0 || sum < part * all)) {
      if (kept == sorted) {
        const std::size_t next = std::min(order.size(), sorted == 0 ? 256 : 4 * sorted);
        std::partial_sort(order.begin() + static_cast<std::ptrdiff_t>(sorted),
                          order.begin() + static_cast<std::ptrdiff_t>(next), order.end());
        sorted = next;
      }
      sum += static_cast<double>(weight(order[kept++].second));
    }
    const float limit = order[kept - 1].first;
    std::erase_if(order, [&](const auto& candidate) { return !(candidate.first <= limit); });
    kept_.clear();
    for (const auto& candidate : order) kept_.push_back(candidate.second);
    std::sort(kept_.begin(), kept_.end());
  }
  std::int32_t pick(std::uint32_t bits) const {
    double at = (static_cast<double>(bits) + 0.5) * 0x1p-32 * total();
    for (const std::int32_t i : kept_)
      if ((at -= static_cast<double>(weight(i))) < 0) return i;
    return kept_.back();
  }

  std::vector<float> logits_, weights_;
  std::vector<std::int32_t> kept_;
  float top_ = 0;
};

float penalized(float logit, std::int32_t count, const float* numbers) {
  if (count == 0) return logit;
  logit = logit > 0 ? logit / numbers[kRepetitionPenalty] : logit * numbers[kRepetitionPenalty];
  const std::int32_t drawn = count & (kInPrompt - 1);
  if (drawn == 0) return logit;
  return logit - numbers[kPresencePenalty] - numbers[kFrequencyPenalty] * static_cast<float>(drawn);
}

std::uint32_t word_of(const std::int32_t* seed, std::int32_t draw) {
  const std::uint64_t bits =
      static_cast<std::uint32_t>(seed[0]) | static_cast<std::uint64_t>(static_cast<std::uint32_t>(seed[1])) << 32;
  return random::block({bits, static_cast<std::uint32_t>(draw)}, 0)[0];
}

void sample_tokens_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor logits = call.in[kSampleLogits].contiguous(), numbers = call.in[kSampleNumbers].contiguous(),
               seeds = call.in[kSampleSeeds].contiguous(), draws = call.in[kSampleDraws].contiguous();
  const Tensor bias = call.in[kSampleBias].defined() ? call.in[kSampleBias].contiguous() : Tensor();
  const std::int64_t size = logits.size(1);
  cpu::parallel_for(logits.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    SampleTokensRow row(size);
    for (std::int64_t b = begin; b < end; ++b) {
      float* values = row.logits().data();
      const float* of = numbers.host<float>() + b * kSamplingNumbers;
      const float* from = rows::read(logits, b * size, 1, size, values);
      if (from != values) std::copy_n(from, size, values);
      if (bias.defined()) cpu::add_scaled(values, bias.host<float>() + b * size, 1, size);
      std::int32_t* counts = out.size() > 1 ? out[1].host<std::int32_t>() + b * size : nullptr;
      for (std::int64_t i = 0; counts != nullptr && i < size; ++i) values[i] = penalized(values[i], counts[i], of);
      const std::int32_t token =
          row.draw(of, word_of(seeds.host<std::int32_t>() + 2 * b, draws.host<std::int32_t>()[b]));
      out[0].host<std::int32_t>()[b] = token;
      if (counts != nullptr) ++counts[token];
    }
  });
}

bool sample_tokens_gpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor& logits = call.in[kSampleLogits];
  if (logits.dtype() == f64) return false;
  if (logits.size(0) == 0) return true;
  const auto dense = [&](SampleTokensIn i) { return call.in[i].defined() ? call.in[i].contiguous() : Tensor(); };
  const Tensor rows = logits.contiguous();
  const Tensor values = empty(logits.shape(), {f32, logits.device()});
  gpu::Kernel(shaders::sample_tokens, call)
      .spec(rows.dtype(), out.size() > 1, call.in[kSampleBias].defined())
      .read(rows)
      .read(dense(kSampleNumbers))
      .read(dense(kSampleSeeds))
      .read(dense(kSampleDraws))
      .read_write(out.size() > 1 ? out[1] : Tensor())
      .read(dense(kSampleBias))
      .write(values)
      .write(out[0])
      .u32(logits.size(1))
      .dispatch(gpu::u32(logits.size(0)));
  return true;
}

TensorList sample_tokens_vjp(const VjpCall& call) {
  throw Error(fmt::format("{} is not differentiable: tokens are integers", call.op.name));
}

const OpDef kSampleTokens = {.name = "sample_tokens",
                             .infer = sample_tokens_infer,
                             .cpu = sample_tokens_cpu,
                             .gpu = sample_tokens_gpu,
                             .vjp = sample_tokens_vjp};

}  // namespace

Tensor sample_tokens(const Tensor& logits, const SamplingInputs& inputs) {
  detail::require_defined("sample_tokens", logits, inputs.numbers, inputs.seeds, inputs.draws);
  return apply(kSampleTokens, {logits, inputs.numbers, inputs.seeds, inputs.draws, inputs.counts, inputs.bias})[0];
}

std::span<const OpDef* const> ops_in_sample_tokens() {
  static const OpDef* const list[] = {&kSampleTokens};
  return list;
}

}  // namespace etna
