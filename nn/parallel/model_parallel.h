#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <etna/device/owned.h>
#include <etna/dist/dist.h>
#include <etna/nn/embedding.h>
#include <etna/nn/linear.h>
#include <etna/nn/module.h>
#include <etna/nn/multihead_attention.h>

/// Models that are divided over ranks: each layer, or the list of layers.
namespace etna::distributed {

// ---- Tensor parallelism (Shoeybi et al. 2019): the ranks of a group train one model, of which each has a part of
// every layer. All ranks of the group read the same batch and compute the same loss; gradients of parts are exact, and
// those of parameters that all ranks have are the same bits everywhere.
//     const auto group = distributed::split(distributed::rank() / 2);
//     distributed::ColumnParallelLinear up(512, 2048, {.group = group});
//     distributed::RowParallelLinear down(2048, 512, {.group = group});
//     Tensor y = down(gelu(up(x)));  // one all_reduce forward, one backward
// Parameters start as those of the whole layer on the group's rank 0.

// ---- Where a layer's parts begin and end: what is forward an identity is backward a sum, and the other way round.

/// x; backward sums the gradients of all ranks (Megatron's f).
Tensor copy_to_parallel_region(const Tensor& x, const ProcessGroup& group = {});
/// The sum over ranks; backward passes the gradient as it is (Megatron's g).
Tensor reduce_from_parallel_region(const Tensor& x, const ProcessGroup& group = {});
/// This rank's equal part of the last dimension; backward gathers. @throws ShapeError where it does not divide
Tensor scatter_to_parallel_region(const Tensor& x, const ProcessGroup& group = {});
/// The parts of all ranks along the last dimension; backward takes this rank's.
Tensor gather_from_parallel_region(const Tensor& x, const ProcessGroup& group = {});

struct ColumnParallelOptions {
  bool bias = true;
  bool gather_output = false;  ///< all ranks get the whole output
  ProcessGroup group = {};
};

/// A linear layer whose output features are divided: weight [out / size, in], bias [out / size].
class ColumnParallelLinear : public nn::UnaryModule {
 public:
  /// @throws ShapeError unless the group's size divides `out`
  ColumnParallelLinear(std::int64_t in, std::int64_t out, ColumnParallelOptions options = {});
  /// Parts of a layer that all ranks have. options.bias is not read.
  ColumnParallelLinear(const nn::Linear& whole, ColumnParallelOptions options = {});
  /// @param x [..., in], the same on all ranks @return [..., out / size], or [..., out] with gather_output
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  Tensor weight, bias;
  const ColumnParallelOptions options;
};

struct RowParallelOptions {
  bool bias = true;
  bool scatter_input = false;  ///< the input is whole, and each rank takes its part
  ProcessGroup group = {};
};

/// A linear layer whose input features are divided: weight [out, in / size]; the bias [out] is on all ranks, and added
/// once, to the sum.
class RowParallelLinear : public nn::UnaryModule {
 public:
  /// @throws ShapeError unless the group's size divides `in`
  RowParallelLinear(std::int64_t in, std::int64_t out, RowParallelOptions options = {});
  RowParallelLinear(const nn::Linear& whole, RowParallelOptions options = {});
  /// @param x [..., in / size], or [..., in] with scatter_input @return [..., out], the same on all ranks
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  Tensor weight, bias;
  const RowParallelOptions options;
};

/// An embedding whose rows are divided: weight [count / size, dim].
class VocabParallelEmbedding : public nn::UnaryModule {
 public:
  /// @throws ShapeError unless the group's size divides `count`
  VocabParallelEmbedding(std::int64_t count, std::int64_t dim, ProcessGroup group = {});
  VocabParallelEmbedding(const nn::Embedding& whole, ProcessGroup group = {});
  /// @param index [...] i64 or i32, the same on all ranks. On the CPU, an eager call checks it.
  /// @return [..., dim], the same on all ranks @throws IndexError
  Tensor forward(const Tensor& index) const override;
  std::string extra_repr() const override;

  Tensor weight;
  const ProcessGroup group;
};

struct ParallelAttentionOptions {
  bool bias = true, causal = true;
  ProcessGroup group = {};
};

/// Self-attention whose heads are divided: the projection of queries, keys and values is split by columns, that of the
/// output by rows.
class ParallelSelfAttention : public nn::UnaryModule {
 public:
  /// @throws ShapeError unless heads divide embed_dim, and the group's size the heads
  ParallelSelfAttention(std::int64_t embed_dim, std::int64_t num_heads, ParallelAttentionOptions options = {});
  /// Parts of a layer that all ranks have, without its dropout. options.bias is not read.
  ParallelSelfAttention(const nn::MultiheadAttention& whole, ParallelAttentionOptions options = {});
  /// @param x [B, T, embed_dim], the same on all ranks @return the same shape
  Tensor forward(const Tensor& x) const override;

  const std::int64_t num_heads;  ///< of this rank
  const ParallelAttentionOptions options;
  Tensor in_proj_weight, in_proj_bias;  ///< [3 · embed_dim / size, embed_dim]: queries, keys, values of its heads
  RowParallelLinear out_proj;
};

struct VocabParallelLossOptions {
  ProcessGroup group = {};
  std::int64_t ignore_index = -100;
};

/// cross_entropy() of logits whose classes are divided. Exchanges three numbers a row: the largest logit, the sum of
/// exponentials, and the target's logit. Logits are never gathered.
/// @param logits [N, C / size], this rank's classes @param target [N], i64 or i32 in [0, C), the same on all ranks
/// @return the mean over rows whose target is not ignore_index, f32, or f64 for f64 logits; the same on all ranks
/// @throws ShapeError; IndexError for a target outside [0, C), on the CPU in an eager call; else the loss is NaN
Tensor vocab_parallel_cross_entropy(const Tensor& logits, const Tensor& target,
                                    const VocabParallelLossOptions& options = {});

// ---- A pipeline of stages

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
