#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/device.h>
#include <etna/dist/dist.h>
#include <etna/nn/nn.h>
#include <etna/nn/parallel/data_parallel.h>
#include <etna/nn/parallel/model_parallel.h>
#include <etna/optim/sgd.h>
#include <etna/tensor/capture.h>

#include "world.h"

// Models divided over ranks, against the same model in one process.
namespace etna {
namespace {

using distributed::ProcessGroup, distributed::rank, distributed::size;

TEST(ProcessGroups, AreOfOneColorInTheOrderOfKeys) {
  const ProcessGroup all = distributed::split(0, -rank());
  EXPECT_EQ(all.size(), size());
  EXPECT_EQ(all.rank(), size() - 1 - rank());
  EXPECT_EQ(all.world_rank(0), size() - 1);
  EXPECT_THROW(all.world_rank(size()), Error);
  const ProcessGroup alone = distributed::split(rank());
  EXPECT_EQ(alone.size(), 1);
  EXPECT_FALSE(alone.is_distributed());
  EXPECT_THROW(distributed::split(rank() == 0 ? -1 : 2), Error);
}

TEST(ProcessGroups, HaveCollectivesOfTheirOwn) {
  const int color = rank() % 2;
  const ProcessGroup group = distributed::split(color);
  ASSERT_EQ(group.size(), (size() + 1 - color) / 2);
  for (const std::int64_t rows : {3, 9000}) {  // small ones whole, large ones by parts
    const auto values_of = [&](int r) { return full({rows * 2}, r + 1.0); };
    Tensor sum = zeros({rows * 2});
    TensorList parts;
    for (int i = 0; i < group.size(); ++i) {
      sum.add_(values_of(group.world_rank(i)));
      parts.push_back(values_of(group.world_rank(i)));
    }
    const Tensor x = values_of(rank());
    EXPECT_TRUE(distributed::all_reduce(x, group).equal(sum));
    EXPECT_TRUE(distributed::all_gather(x, group).equal(cat(parts)));
    EXPECT_TRUE(distributed::broadcast(x, group, group.size() - 1).equal(parts.back()));
    Tensor y = x.clone();
    distributed::all_reduce_(y, group, distributed::Reduce::max);
    EXPECT_TRUE(y.equal(parts.back()));
    if (rows * 2 % group.size() == 0) {
      const std::int64_t own = rows * 2 / group.size();
      EXPECT_TRUE(distributed::reduce_scatter(x, group).equal(sum.slice(0, 0, own)));
      EXPECT_EQ(distributed::all_to_all(x, group).numel(), rows * 2);
    }
    // Those of all ranks go on beside them.
    EXPECT_EQ(distributed::all_reduce(scalar(1.0)).item<double>(), size());
  }
  distributed::require_same("number", "same", group);
}

TEST(ProcessGroups, HaveGradients) {
  const ProcessGroup group = distributed::split(rank() % 2);
  const Tensor x = full({4}, rank() + 1.0).requires_grad_();
  (distributed::all_reduce(x, group) * static_cast<double>(rank() + 1)).sum().backward();
  double expected = 0;
  for (int i = 0; i < group.size(); ++i) expected += group.world_rank(i) + 1;
  EXPECT_TRUE(x.grad().equal(full({4}, expected)));
}

/// Ranks that share a model, and those that have the same part of it.
struct ModelGrid {
  ProcessGroup model = distributed::split(rank() / 2), data = distributed::split(rank() % 2);
};

constexpr std::int64_t kVocabulary = 24, kWidth = 16, kHidden = 32, kHeads = 4;

/// A small transformer of one block.
struct WholeNet : nn::Module {
  explicit WholeNet(DType dtype = f64) {
    register_module("embedding", embedding);
    register_module("attention", attention);
    register_module("up", up);
    register_module("down", down);
    register_module("head", head);
    to(dtype);
  }
  Tensor loss(const Tensor& tokens, const Tensor& targets) const {
    Tensor x = embedding(tokens);
    x = x + attention(x, x, x, {.is_causal = true}, false).output;
    x = x + down(gelu(up(x)));
    return cross_entropy(head(x).flatten(0, 1), targets.flatten());
  }
  nn::Embedding embedding{kVocabulary, kWidth};
  nn::MultiheadAttention attention{kWidth, kHeads, {.batch_first = true}};
  nn::Linear up{kWidth, kHidden}, down{kHidden, kWidth}, head{kWidth, kVocabulary};
};

struct PartNet : nn::Module {
  PartNet(const WholeNet& whole, ProcessGroup group)
      : group(group),
        embedding(whole.embedding, group),
        attention(whole.attention, {.group = group}),
        up(whole.up, {.group = group}),
        down(whole.down, {.group = group}),
        head(whole.head, {.group = group}) {
    register_module("embedding", embedding);
    register_module("attention", attention);
    register_module("up", up);
    register_module("down", down);
    register_module("head", head);
  }
  Tensor loss(const Tensor& tokens, const Tensor& targets) const {
    Tensor x = embedding(tokens);
    x = x + attention(x);
    x = x + down(gelu(up(x)));
    return distributed::vocab_parallel_cross_entropy(head(x).flatten(0, 1), targets.flatten(), {.group = group});
  }
  ProcessGroup group;
  distributed::VocabParallelEmbedding embedding;
  distributed::ParallelSelfAttention attention;
  distributed::ColumnParallelLinear up;
  distributed::RowParallelLinear down;
  distributed::ColumnParallelLinear head;
};

std::pair<Tensor, Tensor> parallel_batch(std::uint64_t name, std::int64_t rows = 2) {
  manual_seed(name + 500);
  const Tensor tokens = randint(0, kVocabulary, {rows, 7}, {i64}), targets = randint(0, kVocabulary, {rows, 7}, {i64});
  targets[0][3] = -100.0;
  return {tokens, targets};
}

double largest_difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  return a.shape() == b.shape() ? (a - b).abs().max().item<double>() : 1e9;
}

/// Rows or columns of a gradient that the rank has.
Tensor part_of(const Tensor& whole, std::int64_t dim, const ProcessGroup& group) {
  const std::int64_t share = whole.size(dim) / group.size();
  return whole.slice(dim, share * group.rank(), share * (group.rank() + 1));
}

TEST(TensorParallel, LossAndGradientsAreThoseOfOneProcess) {
  const ModelGrid grid;
  if (size() % 2 != 0) GTEST_SKIP() << "an odd number of ranks";
  manual_seed(3);
  WholeNet whole;
  PartNet part(whole, grid.model);
  const auto [tokens, targets] = parallel_batch(1);
  const Tensor expected = whole.loss(tokens, targets), loss = part.loss(tokens, targets);
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-12);
  expected.backward();
  loss.backward();
  const ProcessGroup& g = grid.model;
  constexpr double kNear = 1e-12;
  EXPECT_LT(largest_difference(part.embedding.weight.grad(), part_of(whole.embedding.weight.grad(), 0, g)), kNear);
  EXPECT_LT(largest_difference(part.up.weight.grad(), part_of(whole.up.weight.grad(), 0, g)), kNear);
  EXPECT_LT(largest_difference(part.up.bias.grad(), part_of(whole.up.bias.grad(), 0, g)), kNear);
  EXPECT_LT(largest_difference(part.down.weight.grad(), part_of(whole.down.weight.grad(), 1, g)), kNear);
  EXPECT_LT(largest_difference(part.down.bias.grad(), whole.down.bias.grad()), kNear);
  EXPECT_LT(largest_difference(part.head.weight.grad(), part_of(whole.head.weight.grad(), 0, g)), kNear);
  EXPECT_LT(
      largest_difference(part.attention.out_proj.weight.grad(), part_of(whole.attention.out_proj.weight.grad(), 1, g)),
      kNear);
  for (std::int64_t k = 0; k < 3; ++k) {
    const std::int64_t own = kWidth / g.size();
    EXPECT_LT(
        largest_difference(part.attention.in_proj_weight.grad().slice(0, k * own, (k + 1) * own),
                           part_of(whole.attention.in_proj_weight.grad().slice(0, k * kWidth, (k + 1) * kWidth), 0, g)),
        kNear);
  }
}

TEST(TensorParallel, GradientsAreDerivatives) {
  const ModelGrid grid;
  if (size() % 2 != 0) GTEST_SKIP() << "an odd number of ranks";
  manual_seed(4);
  const WholeNet whole;
  PartNet part(whole, grid.model);
  const auto [tokens, targets] = parallel_batch(2);
  part.loss(tokens, targets).backward();
  const NoGrad off;
  constexpr double kStep = 1e-5;
  for (const auto& [name, x] : part.named_parameters()) {
    const bool everywhere = name == "down.bias" || name == "attention.out_proj.bias";
    Tensor flat = x.detach().view({-1});
    const Tensor grad = x.grad().flatten();
    for (int owner = 0; owner < (everywhere ? 1 : grid.model.size()); ++owner) {
      // One rank moves an element; all compute the loss.
      const bool moves = everywhere || owner == grid.model.rank();
      const std::int64_t at = flat.numel() / 3;
      const auto loss_at = [&](double by) {
        if (moves) flat[at] += by;
        const double loss = part.loss(tokens, targets).item<double>();
        if (moves) flat[at] -= by;
        return loss;
      };
      const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
      if (!moves) continue;
      EXPECT_NEAR(grad[at].item<double>(), slope, 1e-8) << name;
    }
  }
}

TEST(TensorParallel, TrainsTogetherWithDataParallel) {
  // Models over pairs of ranks, batches over pairs.
  const ModelGrid grid;
  if (size() % 2 != 0) GTEST_SKIP() << "an odd number of ranks";
  for (const bool captured : {false, true}) {
    manual_seed(5);
    WholeNet whole(f32);
    PartNet part(whole, grid.model);
    distributed::DataParallel parallel(part, {.group = grid.data});
    optim::SGD expected_optimizer(whole.parameters(), {.lr = 0.5}), optimizer(part.parameters(), {.lr = 0.5});
    const auto step = [&](const Tensor& tokens, const Tensor& targets) {
      const Tensor loss = part.loss(tokens, targets);
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      return loss;
    };
    auto replayed = capture([&](const Tensor& a, const Tensor& b) { return step(a, b); }, {.device = kCPU});
    for (std::uint64_t k = 0; k < 6; ++k) {
      auto [tokens, targets] = parallel_batch(10 + k, 2 * grid.data.size());
      targets[0][3] = 1.0;  // equally many in each part
      const Tensor expected = whole.loss(tokens, targets);
      expected.backward();
      expected_optimizer.step();
      expected_optimizer.zero_grad();
      const Tensor own_tokens = part_of(tokens, 0, grid.data).contiguous(),
                   own_targets = part_of(targets, 0, grid.data).contiguous();
      const Tensor own = captured ? replayed(own_tokens, own_targets) : step(own_tokens, own_targets);
      const double loss = distributed::all_reduce(own.detach(), grid.data, distributed::Reduce::mean).item<double>();
      EXPECT_NEAR(loss, expected.item<double>(), 1e-6) << "step " << k << (captured ? ", captured" : "");
    }
  }
}

TEST(TensorParallel, RunsOnAGpu) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "no Vulkan device is asked for (ETNA_TEST_VULKAN)";
  const ModelGrid grid;
  if (size() % 2 != 0) GTEST_SKIP() << "an odd number of ranks";
  const Device device = select_device("vulkan:0");
  manual_seed(6);
  WholeNet whole(f32);
  PartNet part(whole, grid.model);
  part.to(device);
  const auto [tokens, targets] = parallel_batch(3);
  const Tensor expected = whole.loss(tokens, targets), loss = part.loss(tokens.to(device), targets.to(device));
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5);
  expected.backward();
  loss.backward();
  EXPECT_LT(largest_difference(part.up.weight.grad().to(kCPU), part_of(whole.up.weight.grad(), 0, grid.model)), 1e-5);
  EXPECT_LT(
      largest_difference(part.embedding.weight.grad().to(kCPU), part_of(whole.embedding.weight.grad(), 0, grid.model)),
      1e-5);
}

TEST(TensorParallel, LayersStartAsTheFirstRanksAndGatherWhatIsDivided) {
  manual_seed(static_cast<std::uint64_t>(rank()) + 20);  // rank 0's values hold
  const distributed::ColumnParallelLinear up(6, 4 * size(), {.gather_output = true});
  const distributed::RowParallelLinear down(4 * size(), 5, {.scatter_input = true});
  manual_seed(20);
  const nn::Linear whole_up(6, 4 * size()), whole_down(4 * size(), 5);
  const Tensor x = tensor_of(0, {2, 3, 6}).requires_grad_(), y = x.detach().clone().requires_grad_();
  const Tensor h = up(x), expected = whole_up(y);
  EXPECT_LT(largest_difference(h, expected), 1e-6);
  const Tensor out = down(h), whole_out = whole_down(expected);
  EXPECT_LT(largest_difference(out, whole_out), 1e-6);
  out.square().sum().backward();
  whole_out.square().sum().backward();
  EXPECT_LT(largest_difference(x.grad(), y.grad()), 1e-5);
}

TEST(TensorParallel, LossSurvivesLargeLogitsAndSeesWrongTargets) {
  const std::int64_t own = 3, all = own * size();
  const Tensor logits = full({2, own}, rank() == 0 ? 1e4 : -1e4).requires_grad_();
  const Tensor loss = distributed::vocab_parallel_cross_entropy(logits, from_vector(std::vector<std::int64_t>{0, 1}));
  EXPECT_NEAR(loss.item<double>(), std::log(3.0), 1e-6);
  loss.backward();
  EXPECT_TRUE(logits.grad().isfinite().all().item<bool>());
  for (const std::int64_t wrong : {std::int64_t{-1}, all})
    EXPECT_THROW(distributed::vocab_parallel_cross_entropy(logits, from_vector(std::vector<std::int64_t>{0, wrong})),
                 IndexError);
  EXPECT_THROW(distributed::vocab_parallel_cross_entropy(logits, zeros({3}, {i64})), ShapeError);
  EXPECT_THROW(distributed::vocab_parallel_cross_entropy(logits, zeros({2})), DtypeError);
  const Tensor nothing = full({2}, -100.0, {i64});
  EXPECT_TRUE(std::isnan(distributed::vocab_parallel_cross_entropy(logits, nothing).item<double>()));
  EXPECT_TRUE(std::isnan(cross_entropy(zeros({2, 3}), nothing).item<double>())) << "as that of one process";
}

TEST(TensorParallel, SizesThatDoNotDivideAreErrors) {
  EXPECT_THROW(distributed::ColumnParallelLinear(4, size() + 1), ShapeError);
  EXPECT_THROW(distributed::RowParallelLinear(size() + 1, 4), ShapeError);
  EXPECT_THROW(distributed::VocabParallelEmbedding(size() + 1, 4), ShapeError);
  EXPECT_THROW(distributed::ParallelSelfAttention(size() + 1, size() + 1), ShapeError);
  const distributed::VocabParallelEmbedding embedding(2 * size(), 4);
  EXPECT_THROW(embedding(full({1}, static_cast<double>(2 * size()), {i64})), IndexError);
  EXPECT_THROW(embedding(full({1}, -1.0, {i64})), IndexError);
}

}  // namespace
}  // namespace etna
