#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <etna/device/owned.h>
#include <etna/dist/dist.h>
#include <etna/dist/sharding.h>
#include <etna/nn/module.h>
#include <etna/tensor/tensor.h>

namespace etna::distributed {

struct DataParallelOptions {
  /// Of gradients that are reduced together, about; 0: 4 MiB on the CPU, 25 MiB on a GPU.
  std::int64_t bucket_bytes = 0;
  /// What gradients travel in: bf16 halves their bytes. Sums are f32, rounded once; f32 keeps the parameters' dtype.
  DType dtype = f32;
  /// Some parameters get no gradient in some steps. False: that is an error that names them.
  bool unused_parameters = false;
  /// What the ranks divide among them instead of each holding all of it (Rajbhandari et al. 2020): 0 nothing, 1 the
  /// optimizer's state, 2 gradients too, 3 the parameters of blocks too (fully sharded data parallel, Zhao et al.
  /// 2023). Give the optimizer sharding().
  int zero_stage = 0;
  /// Stage 3: submodules that are called one after the other by operator(). Their parameters are gathered while they
  /// run, forward and backward; what is in no block, or in several, stays whole. Empty: the modules whose names end in
  /// a number, "blocks.0" ...
  std::vector<nn::Module*> blocks = {};
  bool prefetch = true;  ///< stage 3: gathers the next block while one runs, which takes the memory of one more
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
  /// @param model on its device; outlives this. In stage 3 its blocks' parameters have shape [0] between calls from now
  /// on, also when this has ended: make optimizers before. @throws RanksDiffer for models of other names, shapes or
  /// dtypes, Error in stage 3 for a model without blocks
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
  /// For Optimizer::shard(). Null in stage 0, and in a group of one. In stage 2 a parameter's grad() is undefined after
  /// backward(): each rank has the mean gradient of its own parts.
  std::shared_ptr<Sharding> sharding() const;
  /// Whether a step can be captured: distributed::can_capture(), and not in stage 3.
  bool can_capture(Device device) const;

  /// The model's state, whole. In stage 3 all ranks call it; rank 0 gets divided parameters in host memory, the others
  /// get none of them.
  nn::StateDict state_dict() const;
  /// Copies values; in stage 3 this rank's parts of whole ones. If anything is wrong, nothing is copied.
  /// @throws Error, ShapeError for names and shapes that are not the model's
  void load_state_dict(const nn::StateDict& state);

 private:
  struct State;
  Owned<State> state_;
};

}  // namespace etna::distributed
