#include <etna/nn/parallel/model_parallel.h>

#include <algorithm>
#include <deque>
#include <string>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/dist/internal/group.h>
#include <etna/nn/parallel/data_parallel.h>
#include <etna/tensor/ops.h>

namespace etna::distributed {
namespace {

constexpr std::int64_t kMostDims = 8;
std::string shape_words(const Tensor& x) { return x.defined() ? str(x.shape()) : "undefined"; }

struct MicroBatch {
  Tensor in, out;  ///< of the stage; of the last one, out is the loss
};

}  // namespace

struct Pipeline::State {
  const nn::UnaryModule& stage;
  Loss loss;
  PipelineOptions options;
  ProcessGroup before, after;  ///< with the stage before and behind this one
  ProcessGroup tied;
  std::deque<MicroBatch> live;
  std::int64_t most_live = 0;
  Shape batch_shape;
  Device device;
  Tensor pattern;  ///< of the shape and dtype that comes from the stage before
  bool sends_shapes = true;
  double total = 0;

  State(const nn::UnaryModule& s, Loss l, PipelineOptions o) : stage(s), loss(std::move(l)), options(std::move(o)) {}

  int rank() const { return options.group.rank(); }
  int stages() const { return options.group.size(); }
  bool is_first() const { return rank() == 0; }
  bool is_last() const { return rank() == stages() - 1; }
  int neighbour(int by) const { return options.group.world_rank(rank() + by); }

  void begin(const Tensor& x, const Tensor& target);
  Tensor input_of(const Tensor& x, std::int64_t number);
  static Tensor exchange(const Tensor& x, const ProcessGroup& pair);
  void forward(const Tensor& in, const Tensor& target, std::int64_t number);
  void describe_output(std::int64_t number) const;
  Tensor backward(const Tensor& grad, bool is_last_of_step);
  void reduce_tied() const;
};

/// All ranks learn whether the batch can be divided, and whether shapes are as in the last step.
void Pipeline::State::begin(const Tensor& x, const Tensor& target) {
  const auto divides = [&](const Tensor& batch) {
    return batch.defined() && batch.dim() > 0 && batch.size(0) > 0 && batch.size(0) % options.micro_batches == 0;
  };
  const bool wrong = (is_first() && !divides(x)) || (is_last() && !divides(target));
  const bool other = is_first() && x.defined() && x.shape() != batch_shape;
  const Tensor said = all_reduce(from_vector(std::vector<std::int64_t>{wrong ? rank() + 1 : 0, other ? 1 : 0}),
                                 options.group, Reduce::max);
  const std::vector<std::int64_t> values = said.to_vector<std::int64_t>();
  if (values[0] > 0)
    throw ShapeError(fmt::format("Pipeline: the {} of rank {}{} does not divide into {} micro-batches of equal size",
                                 values[0] == 1 ? "batch" : "target", values[0] - 1,
                                 !wrong                      ? ""
                                 : is_first() && !divides(x) ? ", " + shape_words(x) + ","
                                                             : ", " + shape_words(target) + ",",
                                 options.micro_batches));
  sends_shapes = values[1] != 0;
  if (is_first()) batch_shape = x.shape();
}

/// A micro-batch of the first stage, or what the stage before sends.
Tensor Pipeline::State::input_of(const Tensor& x, std::int64_t number) {
  if (is_first()) {
    const std::int64_t rows = x.size(0) / options.micro_batches;
    return x.slice(0, number * rows, (number + 1) * rows);
  }
  const NoGrad off;
  if (sends_shapes && number == 0) {
    Tensor described = zeros({kMostDims + 2}, {i64, kCPU});
    receive_(described, neighbour(-1));
    const std::vector<std::int64_t> values = described.to_vector<std::int64_t>();
    const std::vector<std::int64_t> sizes(values.begin() + 2, values.begin() + 2 + values[1]);
    pattern = zeros(Shape(sizes), {static_cast<DType>(values[0]), device});
  }
  Tensor in = empty(pattern.shape(), {pattern.dtype(), pattern.device()});
  receive_(in, neighbour(-1));
  return in.requires_grad_();
}

/// The other rank's tensor of the same shape, while it gets this one.
Tensor Pipeline::State::exchange(const Tensor& x, const ProcessGroup& pair) {
  const NoGrad off;
  return all_gather(x.contiguous().unsqueeze(0), pair)[1 - pair.rank()].contiguous();
}

void Pipeline::State::forward(const Tensor& in, const Tensor& target, std::int64_t number) {
  Tensor out = stage(in);
  if (!is_last() && (!is_floating(out.dtype()) || out.dim() > kMostDims))
    throw DtypeError(fmt::format("Pipeline: stage {} returns {} {}; wanted a floating tensor of at most {} dimensions",
                                 rank(), name(out.dtype()), str(out.shape()), kMostDims));
  if (is_last()) {
    const std::int64_t rows = target.size(0) / options.micro_batches;
    out = loss(out, target.slice(0, number * rows, (number + 1) * rows));
    if (out.numel() != 1)
      throw ShapeError(fmt::format("Pipeline: the loss is {}; wanted one number", str(out.shape())));
  }
  live.push_back({in, out});
  most_live = std::max<std::int64_t>(most_live, std::ssize(live));
}

void Pipeline::State::describe_output(std::int64_t number) const {
  if (!sends_shapes || number != 0) return;
  const Tensor& out = live.back().out;
  std::vector<std::int64_t> values{static_cast<std::int64_t>(out.dtype()), out.dim()};
  values.insert(values.end(), out.shape().begin(), out.shape().end());
  values.resize(kMostDims + 2);
  send(from_vector(values), neighbour(1));
}

/// Of the oldest micro-batch, which ends its life here. @param grad of its output; of a loss, it is 1
/// @return the gradient of its input; undefined on the first rank
Tensor Pipeline::State::backward(const Tensor& grad, bool is_last_of_step) {
  const MicroBatch oldest = std::move(live.front());
  live.pop_front();
  if (options.parallel != nullptr) options.parallel->set_reduce(is_last_of_step);
  if (is_last()) {
    total += oldest.out.item<double>();
    (oldest.out / static_cast<double>(options.micro_batches)).backward();
  } else if (oldest.out.requires_grad()) {
    oldest.out.backward(grad);
  }
  if (is_first()) return {};
  const Tensor of_input = oldest.in.grad();
  return of_input.defined() ? of_input : zeros_like(oldest.in.detach());
}

void Pipeline::State::reduce_tied() const {
  const NoGrad off;
  if (!tied.is_distributed()) return;
  for (Tensor x : options.tied) {
    const Tensor grad = x.grad().defined() ? x.grad().contiguous() : zeros_like(x.detach());
    all_reduce_(grad, tied);
    x.set_grad(grad);
  }
}

Pipeline::Pipeline(const nn::UnaryModule& stage, Loss loss, PipelineOptions options)
    : state_(std::make_unique<State>(stage, std::move(loss), std::move(options))) {
  State& s = *state_;
  if (s.options.micro_batches < 1)
    throw Error(fmt::format("Pipeline: micro_batches is {}; wanted 1 or more, for example 4 for each stage",
                            s.options.micro_batches));
  const TensorList parameters = stage.parameters();
  s.device = parameters.empty() ? kCPU : parameters.front().device();
  // GPUs are joined by all ranks at once, here: in a step, some ranks already wait for others' messages.
  if (Group* all = group(); all != nullptr && !s.device.is_cpu()) all->engine_on(s.device);
  // Groups are made by all ranks at once; the first rank tells those of other pipelines apart.
  const int own = s.options.group.world_rank(0) * (s.stages() + 2), rank = s.rank();
  const ProcessGroup even = split(own + rank / 2), odd = split(own + (rank + 1) / 2);
  s.before = rank % 2 == 0 ? odd : even;
  s.after = rank % 2 == 0 ? even : odd;
  s.tied = split(2 * own + (s.options.tied.empty() ? 1 : 0));
  if (s.options.tied.empty()) {
    s.tied = {};
    return;
  }
  const NoGrad off;
  for (const Tensor& x : s.options.tied) broadcast_(x.detach(), s.tied);
}

Pipeline::~Pipeline() = default;

double Pipeline::step(const Tensor& x, const Tensor& target) {
  State& s = *state_;
  s.begin(x, target);
  s.live.clear();
  s.most_live = 0;
  s.total = 0;
  const std::int64_t count = s.options.micro_batches;
  // Forward of so many comes before the first backward, so that the ranks behind have work.
  const std::int64_t ahead = std::min<std::int64_t>(s.stages() - 1 - s.rank(), count);
  std::int64_t begun = 0, returned = 0;
  const auto forward = [&](const Tensor& in) { s.forward(in, target, begun++); };
  const auto backward = [&](const Tensor& grad) {
    ++returned;
    return s.backward(grad, returned == count);
  };
  for (std::int64_t i = 0; i < ahead; ++i) {
    forward(s.input_of(x, i));
    s.describe_output(i);
    send(s.live.back().out.detach(), s.neighbour(1));
  }
  Tensor in = ahead < count ? s.input_of(x, ahead) : Tensor();
  for (std::int64_t i = ahead; i < count; ++i) {
    forward(in);
    // An output goes to the next rank while the gradient of an earlier one comes back.
    const Tensor grad = s.is_last() ? Tensor() : s.exchange(s.live.back().out.detach(), s.after);
    const Tensor of_input = backward(grad);
    const bool more = i + 1 < count;
    if (s.is_first()) {
      in = more ? s.input_of(x, i + 1) : Tensor();
    } else if (more) {
      in = s.exchange(of_input, s.before).requires_grad_();
    } else {
      send(of_input, s.neighbour(-1));
    }
  }
  for (std::int64_t i = 0; i < ahead; ++i) {
    Tensor grad = empty(s.live.front().out.shape(), {s.live.front().out.dtype(), s.live.front().out.device()});
    receive_(grad, s.neighbour(1));
    const Tensor of_input = backward(grad);
    if (!s.is_first()) send(of_input, s.neighbour(-1));
  }
  s.reduce_tied();
  const double mean = s.total / static_cast<double>(count);
  return broadcast(scalar(mean, {f64, kCPU}), s.options.group, s.stages() - 1).item<double>();
}

std::int64_t Pipeline::most_live() const { return state_->most_live; }

std::pair<std::int64_t, std::int64_t> pipeline_layers(std::int64_t layers, const ProcessGroup& group) {
  if (layers < group.size())
    throw Error(fmt::format("pipeline_layers: {} layers for {} ranks; each needs one", layers, group.size()));
  return {layers * group.rank() / group.size(), layers * (group.rank() + 1) / group.size()};
}

}  // namespace etna::distributed
