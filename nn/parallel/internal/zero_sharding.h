#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include <etna/dist/sharding.h>
#include <etna/nn/parallel/internal/parameter_block.h>
#include <etna/tensor/tensor.h>

namespace etna::distributed {

/// ZeRO: parameters lie in buckets one behind the other, and each bucket has as many equal parts as there are ranks.
/// Every rank has the whole parameters, but steps those elements alone that lie in its part of a bucket. Of a bucket
/// that is a block (stage 3), it has its part alone while the block does not run.
class ZeroSharding : public Sharding {
 public:
  /// @param whole_gradients stage 1; otherwise reduce() and finish() bring this rank the gradients of its parts alone
  /// @param travel what f32 gradients are sent in
  ZeroSharding(bool whole_gradients, DType travel) : whole_gradients_(whole_gradients), travel_(travel) {}
  ~ZeroSharding() override;
  ZeroSharding(const ZeroSharding&) = delete;
  ZeroSharding& operator=(const ZeroSharding&) = delete;

  /// @param parameters of one dtype, on one device @param divided they are parameters of a block
  /// @return the block; null where it is none @throws Error for one with gaps or another order of its elements
  std::shared_ptr<ParameterBlock> add_bucket(const std::vector<Tensor>& parameters, bool divided);

  bool contains(const Tensor& parameter) const override { return index_.contains(parameter.impl()); }
  Shape shape(const Tensor& parameter) const override { return of(parameter).shape; }
  Range range(const Tensor& parameter, int rank) const override;
  Tensor part(const Tensor& parameter) const override { return of(parameter).part; }
  bool has_whole_gradients() const override { return whole_gradients_; }
  /// Gathers the parameters, but those of blocks.
  void stepped() override;
  /// Whether each rank has a part of it alone.
  bool divides(const Tensor& parameter) const {
    return contains(parameter) && buckets_[of(parameter).bucket].block != nullptr;
  }

  /// Drops the whole gradients of a bucket, and the parameters of a block, and begins to reduce them. One bucket at a
  /// time is on its way.
  void reduce(std::size_t bucket);
  /// Waits for the last one. @param used whether a parameter has a gradient on any rank
  void finish(const std::function<bool(const Tensor& parameter)>& used);

 private:
  struct Placed {
    Tensor parameter;
    Shape shape;
    std::int64_t size = 0;
    Tensor flat;  ///< its elements, 1-d; undefined in blocks
    Tensor part;
    std::size_t bucket = 0;
    std::int64_t offset = 0;
    bool added = false;  ///< to a gradient that was there
  };
  struct Bucket {
    std::vector<std::size_t> parameters;
    std::int64_t part = 0;  ///< elements
    DType dtype = f32;
    Device device;
    Tensor gradients;  ///< of this rank's part; undefined in stage 1
    std::shared_ptr<ParameterBlock> block = {};
  };
  /// What the buckets of one dtype and device share.
  struct Staging {
    Tensor all, reduced;
  };

  const Placed& of(const Tensor& parameter) const { return placed_[index_.at(parameter.impl())]; }
  Staging staging(const Bucket& bucket);
  void finish_running();

  const bool whole_gradients_;
  const DType travel_;
  std::vector<Placed> placed_;
  std::unordered_map<const TensorImpl*, std::size_t> index_;
  std::vector<Bucket> buckets_;
  std::map<std::pair<DType, Device>, Staging> staging_;
  const Bucket* running_ = nullptr;
};

}  // namespace etna::distributed
