#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <etna/device/owned.h>
#include <etna/dist/dist.h>
#include <etna/nn/module.h>

namespace etna::distributed {

class DataParallel;

struct PipelineOptions {
  std::int64_t micro_batches = 4;  ///< equal parts of a batch; the more, the shorter all ranks wait in relation
  ProcessGroup group = {};         ///< rank i has stage i
  /// Parameters that several stages have, a head that is the embedding for example: the same ones in the same order on
  /// each rank that gives any. They get the first such rank's values, and the sum of their gradients.
  std::vector<Tensor> tied = {};
  DataParallel* parallel = nullptr;  ///< of the ranks with the same stage; reduces once a step
};

/// Trains a model whose stages lie on the ranks of a group one behind the other (pipeline parallelism). A batch runs
/// through them in micro-batches, backward of one between forward of others (1F1B, Narayanan et al. 2019): stage i of S
/// keeps activations of at most S - i of them, and not of all.
///     nn::Sequential stage = ...;  // this rank's layers, pipeline_layers()
///     distributed::Pipeline pipeline(stage, [](const Tensor& y, const Tensor& t) { return cross_entropy(y, t); });
///     double loss = pipeline.step(x, t);  // on every rank
///     optimizer.step();
///     optimizer.zero_grad();
class Pipeline {
 public:
  /// Of the last stage's output, as a mean over a micro-batch's samples.
  using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;

  /// All ranks call it, also those of other groups. @param stage of this rank; outlives this. Its input and output are
  /// single tensors, floating but for the first input @throws Error for no micro-batches
  Pipeline(const nn::UnaryModule& stage, Loss loss, PipelineOptions options = {});
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Forward and backward of a batch: adds the gradient of its loss to those of the parameters.
  /// @param x [B, ...], read on the first rank @param target [B, ...], read on the last; may be undefined elsewhere
  /// @return the mean loss, the same on all ranks
  /// @throws ShapeError on all ranks where micro_batches does not divide B
  double step(const Tensor& x, const Tensor& target);

  /// The largest number of micro-batches whose activations this rank kept at once in the last step.
  std::int64_t most_live() const;

 private:
  struct State;
  Owned<State> state_;
};

/// Which of so many layers a rank of the group has, [first, last): as equal numbers as possible.
/// @throws Error where there are fewer layers than ranks
std::pair<std::int64_t, std::int64_t> pipeline_layers(std::int64_t layers, const ProcessGroup& group = {});

}  // namespace etna::distributed
