#include <etna/nn/parallel/model_parallel.h>

#include <limits>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

namespace etna::distributed {
namespace {

/// @throws ShapeError naming what does not divide
std::int64_t share_of(const char* who, const char* what, std::int64_t count, const ProcessGroup& group) {
  if (count > 0 && count % group.size() == 0) return count / group.size();
  throw ShapeError(
      fmt::format("{}: {} {} do not divide into {} equal parts, one for each rank; wanted a multiple of {}", who, count,
                  what, group.size(), group.size()));
}

/// The group's rank 0's, since others may have drawn other numbers.
Tensor of_first(const Tensor& x, const ProcessGroup& group) {
  const NoGrad off;
  return x.defined() ? broadcast(x.detach().contiguous(), group) : Tensor();
}

/// This rank's equal part along a dimension, in memory of its own.
Tensor own_part(const char* who, const char* what, const Tensor& x, std::int64_t dim, const ProcessGroup& group) {
  if (!x.defined()) return {};
  const NoGrad off;
  const std::int64_t share = share_of(who, what, x.size(dim), group), begin = share * group.rank();
  return x.detach().slice(dim, begin, begin + share).contiguous().clone().requires_grad_();
}

Tensor own_copy(const Tensor& x) { return x.defined() ? x.detach().clone().requires_grad_() : Tensor(); }

/// Rows of queries, keys and values of this rank's heads.
Tensor heads_part(const Tensor& three, const ProcessGroup& group) {
  if (!three.defined()) return {};
  const NoGrad off;
  const std::int64_t third = three.size(0) / 3;
  TensorList own;
  for (std::int64_t k = 0; k < 3; ++k)
    own.push_back(own_part("ParallelSelfAttention", "rows", three.slice(0, k * third, (k + 1) * third), 0, group));
  return cat(own).detach().requires_grad_();
}

Tensor joined_columns(const Tensor& x, const ProcessGroup& group) {
  const std::int64_t part = x.size(-1);
  const Tensor all = all_gather(x.reshape({1, -1, part}).contiguous(), group);  // [size, rows, part]
  std::vector<std::int64_t> shape(x.shape().begin(), x.shape().end());
  shape.back() = part * group.size();
  return all.transpose(0, 1).reshape(Shape(shape));
}

Tensor own_columns(const Tensor& x, const ProcessGroup& group) {
  const std::int64_t share = share_of("scatter_to_parallel_region", "columns", x.size(-1), group);
  return x.slice(-1, share * group.rank(), share * (group.rank() + 1)).contiguous();
}

std::int64_t whole_rows(const Tensor& part, const ProcessGroup& group) { return part.size(0) * group.size(); }

/// Whether the values may be read on the host now.
bool can_check(const Tensor& x) { return x.device().is_cpu() && !capturing(); }

const nn::MultiheadAttention& attention_checked(const nn::MultiheadAttention& whole) {
  if (!whole.in_proj_weight.defined() || whole.bias_k.defined() || whole.options.add_zero_attn)
    throw Error(
        "ParallelSelfAttention: queries, keys and values need one projection of embed_dim features, without "
        "bias_k and add_zero_attn");
  return whole;
}

std::int64_t checked_heads(std::int64_t heads, const ProcessGroup& group) {
  return share_of("ParallelSelfAttention", "heads", heads, group);
}

}  // namespace

Tensor copy_to_parallel_region(const Tensor& x, const ProcessGroup& group) {
  if (!group.is_distributed()) return x;
  return autograd::custom(
      {x}, [](const TensorList& in) { return in; },
      [group](const TensorList& grad) { return TensorList{all_reduce(grad[0], group)}; }, "copy_to_parallel_region")[0];
}

Tensor reduce_from_parallel_region(const Tensor& x, const ProcessGroup& group) {
  if (!group.is_distributed()) return x;
  return autograd::custom(
      {x}, [group](const TensorList& in) { return TensorList{all_reduce(in[0], group)}; },
      [](const TensorList& grad) { return grad; }, "reduce_from_parallel_region")[0];
}

Tensor scatter_to_parallel_region(const Tensor& x, const ProcessGroup& group) {
  if (!group.is_distributed()) return x;
  return autograd::custom(
      {x}, [group](const TensorList& in) { return TensorList{own_columns(in[0], group)}; },
      [group](const TensorList& grad) { return TensorList{joined_columns(grad[0], group)}; },
      "scatter_to_parallel_region")[0];
}

Tensor gather_from_parallel_region(const Tensor& x, const ProcessGroup& group) {
  if (!group.is_distributed()) return x;
  return autograd::custom(
      {x}, [group](const TensorList& in) { return TensorList{joined_columns(in[0], group)}; },
      [group](const TensorList& grad) { return TensorList{own_columns(grad[0], group)}; },
      "gather_from_parallel_region")[0];
}

ColumnParallelLinear::ColumnParallelLinear(const nn::Linear& whole, ColumnParallelOptions given)
    : weight(own_part("ColumnParallelLinear", "output features", of_first(whole.weight, given.group), 0, given.group)),
      bias(own_part("ColumnParallelLinear", "output features", of_first(whole.bias, given.group), 0, given.group)),
      options(given) {
  register_parameter("weight", &ColumnParallelLinear::weight);
  register_parameter("bias", &ColumnParallelLinear::bias);
}

ColumnParallelLinear::ColumnParallelLinear(std::int64_t in, std::int64_t out, ColumnParallelOptions given)
    : ColumnParallelLinear(nn::Linear(in, out, given.bias), given) {}

Tensor ColumnParallelLinear::forward(const Tensor& x) const {
  const Tensor y = linear(copy_to_parallel_region(x, options.group), weight, bias);
  return options.gather_output ? gather_from_parallel_region(y, options.group) : y;
}

std::string ColumnParallelLinear::extra_repr() const {
  return fmt::format("in_features={}, out_features={} of {}, bias={}", weight.size(1), weight.size(0),
                     whole_rows(weight, options.group), bias.defined() ? "True" : "False");
}

RowParallelLinear::RowParallelLinear(const nn::Linear& whole, RowParallelOptions given)
    : weight(own_part("RowParallelLinear", "input features", of_first(whole.weight, given.group), 1, given.group)),
      bias(own_copy(of_first(whole.bias, given.group))),
      options(given) {
  register_parameter("weight", &RowParallelLinear::weight);
  register_parameter("bias", &RowParallelLinear::bias);
}

RowParallelLinear::RowParallelLinear(std::int64_t in, std::int64_t out, RowParallelOptions given)
    : RowParallelLinear(nn::Linear(in, out, given.bias), given) {}

Tensor RowParallelLinear::forward(const Tensor& x) const {
  const Tensor own = options.scatter_input ? scatter_to_parallel_region(x, options.group) : x;
  const Tensor y = reduce_from_parallel_region(linear(own, weight), options.group);
  return bias.defined() ? y + bias : y;
}

std::string RowParallelLinear::extra_repr() const {
  return fmt::format("in_features={} of {}, out_features={}, bias={}", weight.size(1),
                     weight.size(1) * options.group.size(), weight.size(0), bias.defined() ? "True" : "False");
}

VocabParallelEmbedding::VocabParallelEmbedding(const nn::Embedding& whole, ProcessGroup given)
    : weight(own_part("VocabParallelEmbedding", "rows", of_first(whole.weight, given), 0, given)), group(given) {
  if (whole.options.padding_idx)
    throw Error("VocabParallelEmbedding: it has no padding_idx; leave it out, or use nn::Embedding on all ranks");
  register_parameter("weight", &VocabParallelEmbedding::weight);
}

VocabParallelEmbedding::VocabParallelEmbedding(std::int64_t count, std::int64_t dim, ProcessGroup given)
    : VocabParallelEmbedding(nn::Embedding(count, dim), given) {}

Tensor VocabParallelEmbedding::forward(const Tensor& index) const {
  const std::int64_t rows = weight.size(0), begin = rows * group.rank(), count = whole_rows(weight, group);
  if (can_check(index) && index.numel() > 0) {
    const auto least = index.min().item<std::int64_t>(), most = index.max().item<std::int64_t>();
    if (least < 0 || most >= count)
      throw IndexError(
          fmt::format("VocabParallelEmbedding: index {} is outside [0, {})", least < 0 ? least : most, count));
  }
  const Tensor indices = clamp(index - static_cast<double>(begin), 0.0, static_cast<double>(rows - 1));
  const Tensor is_own = eq(indices + static_cast<double>(begin), index).unsqueeze(-1);
  return reduce_from_parallel_region(embedding(weight, indices).where(is_own, 0.0), group);
}

std::string VocabParallelEmbedding::extra_repr() const {
  return fmt::format("{} of {}, {}", weight.size(0), whole_rows(weight, group), weight.size(1));
}

ParallelSelfAttention::ParallelSelfAttention(const nn::MultiheadAttention& whole, ParallelAttentionOptions given)
    : num_heads(checked_heads(attention_checked(whole).num_heads, given.group)),
      options(given),
      in_proj_weight(heads_part(of_first(whole.in_proj_weight, given.group), given.group)),
      in_proj_bias(heads_part(of_first(whole.in_proj_bias, given.group), given.group)),
      out_proj(whole.out_proj, {.group = given.group}) {
  register_parameter("in_proj_weight", &ParallelSelfAttention::in_proj_weight);
  register_parameter("in_proj_bias", &ParallelSelfAttention::in_proj_bias);
  register_module("out_proj", out_proj);
}

ParallelSelfAttention::ParallelSelfAttention(std::int64_t embed_dim, std::int64_t heads, ParallelAttentionOptions given)
    : ParallelSelfAttention(nn::MultiheadAttention(embed_dim, heads, {.bias = given.bias}), given) {}

Tensor ParallelSelfAttention::forward(const Tensor& x) const {
  const Tensor qkv = linear(copy_to_parallel_region(x, options.group), in_proj_weight, in_proj_bias);
  return out_proj(self_attention(qkv, num_heads, num_heads, options.causal));
}

Tensor vocab_parallel_cross_entropy(const Tensor& logits, const Tensor& target,
                                    const VocabParallelLossOptions& options) {
  if (logits.dim() != 2 || target.shape() != Shape{logits.size(0)})
    throw ShapeError(
        fmt::format("vocab_parallel_cross_entropy: logits are {} and targets {}; wanted [N, C / ranks] and "
                    "[N]",
                    str(logits.shape()), str(target.shape())));
  if (is_floating(target.dtype()) || target.dtype() == boolean)
    throw DtypeError(
        fmt::format("vocab_parallel_cross_entropy: targets are {}; wanted i64 or i32", name(target.dtype())));
  const ProcessGroup& group = options.group;
  const std::int64_t classes = logits.size(1), begin = classes * group.rank(), all = classes * group.size();
  const Tensor counts = ne(target, static_cast<double>(options.ignore_index));
  const Tensor counted = target.where(counts, 0.0);
  if (can_check(target) && target.numel() > 0) {
    const auto least = counted.min().item<std::int64_t>(), most = counted.max().item<std::int64_t>();
    if (least < 0 || most >= all)
      throw IndexError(
          fmt::format("vocab_parallel_cross_entropy: target {} is outside [0, {})", least < 0 ? least : most, all));
  }
  const Tensor x = logits.dtype() == f64 ? logits : logits.to(f32);
  Tensor most;
  {
    const NoGrad off;
    most = all_reduce(amax(x.detach(), 1), group, Reduce::max);
  }
  const Tensor shifted = x - most.unsqueeze(1);
  const Tensor sum = reduce_from_parallel_region(exp(shifted).sum(1), group);
  const Tensor index = clamp(counted - static_cast<double>(begin), 0.0, static_cast<double>(classes - 1));
  const Tensor is_own = eq(index + static_cast<double>(begin), counted);
  const Tensor own = gather(shifted, 1, index.to(i64).unsqueeze(1)).squeeze(1).where(is_own, 0.0);
  const Tensor loss = log(sum) - reduce_from_parallel_region(own, group);
  // Where nothing can be thrown, a wrong target must be seen.
  const Tensor is_class = eq(clamp(counted, 0.0, static_cast<double>(all - 1)), counted);
  const Tensor seen = loss.where(is_class, std::numeric_limits<double>::quiet_NaN());
  return seen.where(counts, 0.0).sum() / counts.to(x.dtype()).sum();
}

}  // namespace etna::distributed
