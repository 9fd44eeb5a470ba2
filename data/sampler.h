#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace etna::data {

/// The order in which a loader visits a dataset. A pure function of the epoch: that is what makes a run resumable, and
/// the same on every machine.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Indices per epoch.
  virtual std::int64_t size() const = 0;
  /// The indices of one epoch; `size()` of them.
  virtual std::vector<std::int64_t> indices(std::uint64_t epoch) const = 0;
};

/// 0, 1 ... n-1.
class SequentialSampler : public Sampler {
 public:
  /// Here and below: @throws Error for a number out of range
  explicit SequentialSampler(std::int64_t n);
  std::int64_t size() const override { return n_; }
  std::vector<std::int64_t> indices(std::uint64_t epoch) const override;

 private:
  std::int64_t n_;
};

/// A shuffle of 0 ... n-1, another one each epoch.
class RandomSampler : public Sampler {
 public:
  /// @param replacement draw each index independently @param num_samples indices per epoch; 0: n. Without replacement,
  /// one shuffle after the other
  explicit RandomSampler(std::int64_t n, std::uint64_t seed = 0, bool replacement = false,
                         std::int64_t num_samples = 0);
  std::int64_t size() const override { return num_samples_; }
  std::vector<std::int64_t> indices(std::uint64_t epoch) const override;

 private:
  std::int64_t n_, num_samples_;
  std::uint64_t seed_;
  bool replacement_;
};

/// A shuffle of some indices.
class SubsetRandomSampler : public Sampler {
 public:
  explicit SubsetRandomSampler(std::vector<std::int64_t> indices, std::uint64_t seed = 0)
      : indices_(std::move(indices)), seed_(seed) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  std::vector<std::int64_t> indices(std::uint64_t epoch) const override;

 private:
  std::vector<std::int64_t> indices_;
  std::uint64_t seed_;
};

/// Index i with a probability proportional to weights[i], for classes of unequal size.
class WeightedRandomSampler : public Sampler {
 public:
  /// @param num_samples indices per epoch; without replacement at most as many as there are weights above 0
  WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples, bool replacement = true,
                        std::uint64_t seed = 0);
  std::int64_t size() const override { return num_samples_; }
  std::vector<std::int64_t> indices(std::uint64_t epoch) const override;

 private:
  std::vector<double> weights_;
  std::int64_t num_samples_;
  bool replacement_;
  std::uint64_t seed_;
};

struct DistributedSamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< the same in every process
  bool drop_last = false;  ///< leave out what does not divide by the number of processes; else some indices repeat
};

/// The share of one process of several: every `replicas`-th index from `rank` on, of a shuffle that all processes make
/// alike. All shares have the same size.
class DistributedSampler : public Sampler {
 public:
  DistributedSampler(std::int64_t n, std::int64_t replicas, std::int64_t rank, DistributedSamplerOptions options = {});
  std::int64_t size() const override { return share_; }
  std::vector<std::int64_t> indices(std::uint64_t epoch) const override;

 private:
  std::int64_t n_, replicas_, rank_, share_;
  DistributedSamplerOptions options_;
};

/// The batches of an epoch. Derive from it where batches depend on what is in them (similar lengths, one class each).
class BatchSampler {
 public:
  /// Consecutive indices of `sampler`. @param drop_last leave out a last batch that is smaller
  BatchSampler(std::shared_ptr<const Sampler> sampler, std::int64_t batch_size, bool drop_last = false);
  virtual ~BatchSampler() = default;
  /// Batches per epoch.
  virtual std::int64_t size() const;
  virtual std::vector<std::vector<std::int64_t>> batches(std::uint64_t epoch) const;

 protected:
  BatchSampler() = default;

 private:
  std::shared_ptr<const Sampler> sampler_;
  std::int64_t batch_size_ = 1;
  bool drop_last_ = false;
};

}  // namespace etna::data
