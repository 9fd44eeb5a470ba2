#include <etna/data/sampler.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <etna/data/dataset.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

std::int64_t checked_size(const char* sampler, std::int64_t n) {
  if (n < 0) throw Error(fmt::format("{}: {} samples; the number must not be negative", sampler, n));
  return n;
}

/// Sums of weights, in a binary indexed tree: a weight is changed, and the index at a given sum found, in log n steps.
class WeightTree {
 public:
  explicit WeightTree(const std::vector<double>& weights) : sums_(weights.size() + 1) {
    for (std::size_t i = 1; i < sums_.size(); ++i) {
      sums_[i] += weights[i - 1];
      if (const std::size_t parent = i + (i & -i); parent < sums_.size()) sums_[parent] += sums_[i];
    }
  }
  double total() const {
    double sum = 0;
    for (std::size_t i = sums_.size() - 1; i > 0; i -= i & -i) sum += sums_[i];
    return sum;
  }
  void add(std::size_t index, double change) {
    for (std::size_t i = index + 1; i < sums_.size(); i += i & -i) sums_[i] += change;
  }
  /// The first index at which the running sum exceeds `sum`; may be the number of weights, by rounding.
  std::size_t find(double sum) const {
    std::size_t at = 0;
    for (std::size_t step = std::bit_floor(sums_.size()); step > 0; step /= 2) {
      if (at + step < sums_.size() && sums_[at + step] <= sum) {
        at += step;
        sum -= sums_[at];
      }
    }
    return at;
  }

 private:
  std::vector<double> sums_;
};

}  // namespace

SequentialSampler::SequentialSampler(std::int64_t n) : n_(checked_size("SequentialSampler", n)) {}

std::vector<std::int64_t> SequentialSampler::indices(std::uint64_t) const {
  std::vector<std::int64_t> all(static_cast<std::size_t>(n_));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

RandomSampler::RandomSampler(std::int64_t n, std::uint64_t seed, bool replacement, std::int64_t num_samples)
    : n_(checked_size("RandomSampler", n)),
      num_samples_(num_samples == 0 ? n : checked_size("RandomSampler", num_samples)),
      seed_(seed),
      replacement_(replacement) {
  if (n == 0 && num_samples > 0) throw Error(fmt::format("RandomSampler: {} samples out of none", num_samples));
}

std::vector<std::int64_t> RandomSampler::indices(std::uint64_t epoch) const {
  Random random(seed_, epoch);
  const auto count = static_cast<std::size_t>(num_samples_);
  std::vector<std::int64_t> all;
  all.reserve(count);
  while (all.size() < count) {
    if (replacement_) {
      all.push_back(random.below(n_));
    } else {
      const std::vector<std::int64_t> order = random.permutation(n_);
      all.insert(all.end(), order.begin(), order.begin() + std::min<std::int64_t>(n_, num_samples_ - std::ssize(all)));
    }
  }
  return all;
}

std::vector<std::int64_t> SubsetRandomSampler::indices(std::uint64_t epoch) const {
  std::vector<std::int64_t> order = indices_;
  Random(seed_, epoch).shuffle(order);
  return order;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples, bool replacement,
                                             std::uint64_t seed)
    : weights_(std::move(weights)),
      num_samples_(checked_size("WeightedRandomSampler", num_samples)),
      replacement_(replacement),
      seed_(seed) {
  double total = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!(weights_[i] >= 0) || !std::isfinite(weights_[i]))
      throw Error(
          fmt::format("WeightedRandomSampler: weight {} is {}; weights are finite and not negative", i, weights_[i]));
    total += weights_[i];
  }
  const auto positive = std::count_if(weights_.begin(), weights_.end(), [](double w) { return w > 0; });
  if (num_samples > (replacement ? (positive > 0 ? num_samples : 0) : positive) || !std::isfinite(total)) {
    throw Error(fmt::format("WeightedRandomSampler: {} samples {} replacement, of {} weights above 0 with sum {}",
                            num_samples, replacement ? "with" : "without", positive, total));
  }
}

std::vector<std::int64_t> WeightedRandomSampler::indices(std::uint64_t epoch) const {
  Random random(seed_, epoch);
  WeightTree tree(weights_);
  std::vector<double> left = weights_;
  std::vector<std::int64_t> all;
  all.reserve(static_cast<std::size_t>(num_samples_));
  while (std::ssize(all) < num_samples_) {
    std::size_t at = std::min(tree.find(random.uniform() * tree.total()), left.size() - 1);
    // Rounding of the sums may end on an index that is taken, or beyond the last one: then the next that is left.
    while (left[at] == 0) at = (at + 1) % left.size();
    all.push_back(static_cast<std::int64_t>(at));
    if (!replacement_) tree.add(at, -std::exchange(left[at], 0));
  }
  return all;
}

DistributedSampler::DistributedSampler(std::int64_t n, std::int64_t replicas, std::int64_t rank,
                                       DistributedSamplerOptions options)
    : n_(checked_size("DistributedSampler", n)), replicas_(replicas), rank_(rank), options_(options) {
  if (replicas < 1 || rank < 0 || rank >= replicas)
    throw Error(
        fmt::format("DistributedSampler: rank {} of {} processes; it must be in [0, processes)", rank, replicas));
  share_ = n / replicas + (n % replicas != 0 && !options.drop_last ? 1 : 0);
}

std::vector<std::int64_t> DistributedSampler::indices(std::uint64_t epoch) const {
  const std::vector<std::int64_t> order =
      options_.shuffle ? Random(options_.seed, epoch).permutation(n_) : SequentialSampler(n_).indices(epoch);
  std::vector<std::int64_t> mine(static_cast<std::size_t>(share_));
  for (std::int64_t i = 0; i < share_; ++i)
    mine[static_cast<std::size_t>(i)] = order[static_cast<std::size_t>((i * replicas_ + rank_) % n_)];
  return mine;
}

BatchSampler::BatchSampler(std::shared_ptr<const Sampler> sampler, std::int64_t batch_size, bool drop_last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
  if (!sampler_) throw Error("BatchSampler: the sampler is null");
  if (batch_size < 1) throw Error(fmt::format("BatchSampler: batch_size is {}, it must be at least 1", batch_size));
}

std::int64_t BatchSampler::size() const {
  const std::int64_t n = sampler_->size();
  return n / batch_size_ + (n % batch_size_ != 0 && !drop_last_ ? 1 : 0);
}

std::vector<std::vector<std::int64_t>> BatchSampler::batches(std::uint64_t epoch) const {
  const std::vector<std::int64_t> order = sampler_->indices(epoch);
  std::vector<std::vector<std::int64_t>> all;
  for (std::size_t at = 0; at < order.size();) {
    const std::size_t count = std::min(order.size() - at, static_cast<std::size_t>(batch_size_));
    if (drop_last_ && count < static_cast<std::size_t>(batch_size_)) break;
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(at);
    all.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(count));
    at += count;
  }
  return all;
}

}  // namespace etna::data
