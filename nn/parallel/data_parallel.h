#pragma once

#include <cstdint>

#include <etna/device/owned.h>
#include <etna/dist/dist.h>
#include <etna/nn/module.h>
#include <etna/tensor/tensor.h>

namespace etna::distributed {

struct DataParallelOptions {
  std::int64_t bucket_bytes = std::int64_t{4} << 20;  ///< of gradients that are reduced together, about
  /// What gradients travel in: bf16 halves their bytes. Sums are f32, rounded once; f32 keeps the parameters' dtype.
  DType dtype = f32;
  /// Some parameters get no gradient in some steps. False: that is an error that names them.
  bool unused_parameters = false;
  /// Ranks that have the same model, or the same part of one that is divided over others (model_parallel.h).
  ProcessGroup group = {};
};

/// Trains one model on the batches of several ranks. While one lives, backward() leaves the mean over all ranks in each
/// parameter's grad(), the same bits everywhere; gradients are reduced in buckets while it computes the next. In a
/// group of one it does nothing.
///     distributed::DataParallel parallel(model);  // gives all ranks rank 0's parameters and buffers
///     loss(model(x), y).backward();               // x, y: this rank's part of the batch
///     optimizer.step();
/// Every rank calls backward() equally often. The mean of the ranks' gradients is that of the joined batch if their
/// losses are means over equally many samples.
class DataParallel {
 public:
  /// @param model on its device; outlives this @throws RanksDiffer for models of other names, shapes or dtypes
  explicit DataParallel(nn::Module& model, DataParallelOptions options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Whether the next backward() reduces. Without it, gradients add up on this rank: all but the last of the batches
  /// that one step accumulates.
  void set_reduce(bool on);
  bool reduces() const;
  /// Gives all ranks rank 0's buffers, running means of batch norms for example.
  void broadcast_buffers();

 private:
  struct State;
  Owned<State> state_;
};

}  // namespace etna::distributed
