#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/quantized/internal/experts.h>

// choose_experts: the router of a mixture of experts.
namespace etna {
namespace {

enum ChoiceInput { kLogits, kChoiceBias };

/// As in shaders/quantized/choose_experts.comp.
constexpr std::int64_t kMostExperts = 1024, kMostChosen = 128;

std::vector<OutputSpec> choose_experts_infer(const OpCall& call) {
  const auto o = call.as<ChoiceAttrs>();
  const Tensor &logits = call.in[kLogits], &bias = call.in[kChoiceBias];
  if (!is_floating(logits.dtype()) || (bias.defined() && !is_floating(bias.dtype())))
    throw DtypeError(
        fmt::format("{}: logits are {}; wanted floating logits and biases", call.op.name, name(logits.dtype())));
  const std::int64_t experts = logits.dim() == 2 ? logits.size(1) : 0;
  if (logits.dim() != 2 || (bias.defined() && bias.shape() != Shape{experts})) {
    throw ShapeError(fmt::format("{}: logits are {}, biases {}; wanted [R, E] and [E]", call.op.name,
                                 str(logits.shape()), bias.defined() ? str(bias.shape()) : "none"));
  }
  const std::int64_t size = o.groups < 1 ? 0 : experts / o.groups, least = o.groups_by_best ? 1 : 2;
  if (o.chosen < 1 || o.chosen > experts)
    throw ShapeError(fmt::format("{}: {} of {} experts cannot be chosen", call.op.name, o.chosen, experts));
  if (o.groups != 1 && (size < least || size * o.groups != experts || o.chosen_groups < 1 ||
                        o.chosen_groups > o.groups || o.chosen > size * o.chosen_groups)) {
    throw ShapeError(fmt::format("{}: {} experts of {} of {} groups cannot be chosen among {}", call.op.name, o.chosen,
                                 o.chosen_groups, o.groups, experts));
  }
  return {{Shape{logits.size(0), o.chosen}, i32}, {Shape{logits.size(0), o.chosen}, logits.dtype()}};
}

/// The scores that decide about the choice: 0 in groups that are not chosen. @param scores [R, E]
Tensor for_choice(const Tensor& scores, const ChoiceAttrs& o) {
  if (o.groups == 1) return scores;
  const std::int64_t rows = scores.size(0);
  const Tensor grouped = scores.reshape({rows, o.groups, scores.size(1) / o.groups});
  const Tensor of_group = topk(grouped, o.groups_by_best ? 1 : 2, -1).values.sum(-1);
  const Tensor chosen = topk(of_group, o.chosen_groups, -1).indices;
  const Tensor kept = scatter(zeros_like(of_group), -1, chosen, ones_like(chosen).to(of_group.dtype()));
  return (grouped * kept.unsqueeze(-1)).reshape(scores.shape());
}

TensorList choose_experts_reference(const OpCall& call) {
  const auto o = call.as<ChoiceAttrs>();
  const Tensor &given = call.in[kLogits], &bias = call.in[kChoiceBias];
  const Tensor logits = given.dtype() == f64 ? given : given.to(f32);
  const Tensor scores = o.sigmoid ? sigmoid(logits) : softmax(logits, -1);
  const Tensor biased = bias.defined() ? scores + bias.to(scores.dtype()) : scores;
  const Tensor expert = topk(for_choice(biased, o), o.chosen, -1).indices;
  Tensor factor = gather(scores, -1, expert);
  if (o.normalized) factor = factor / (factor.sum(-1, true) + 1e-20);
  return {expert.to(i32), (o.scale == 1 ? factor : factor * o.scale).to(given.dtype())};
}

/// Orders indices by their values from the largest on, NaN first, then by number.
template <typename T>
void order(std::vector<std::int64_t>& indices, const T* values) {
  std::sort(indices.begin(), indices.end(), [&](std::int64_t i, std::int64_t j) {
    const T a = values[i], b = values[j];
    if (std::isnan(a) != std::isnan(b)) return std::isnan(a);
    return std::isnan(a) || a == b ? i < j : a > b;
  });
}

/// A row's scores become 0 in groups that are not chosen.
template <typename T>
void keep_groups(std::vector<T>& ranked, const ChoiceAttrs& o) {
  const auto groups = static_cast<std::size_t>(o.groups), size = ranked.size() / groups;
  std::vector<T> of_group;
  for (std::size_t g = 0; g < groups; ++g) {
    std::vector<std::int64_t> own(size);
    std::iota(own.begin(), own.end(), 0);
    const T* values = ranked.data() + g * size;
    order(own, values);
    of_group.push_back(o.groups_by_best ? values[own[0]] : values[own[0]] + values[own[1]]);
  }
  std::vector<std::int64_t> best(groups);
  std::iota(best.begin(), best.end(), 0);
  order(best, of_group.data());
  for (std::size_t i = 0; i < groups; ++i) {
    const auto first = static_cast<std::size_t>(best[i]) * size;
    for (std::size_t e = first; e < first + size; ++e)
      ranked[e] *= static_cast<T>(i < static_cast<std::size_t>(o.chosen_groups));
  }
}

template <typename T>
void choose(const T* logits, const T* bias, std::size_t experts, const ChoiceAttrs& o, std::int32_t* expert,
            T* factor) {
  std::vector<T> scores(logits, logits + experts), ranked(experts);
  const T largest = *std::max_element(logits, logits + experts);
  T sum = 0;
  for (T& s : scores) sum += s = o.sigmoid ? 1 / (1 + std::exp(-s)) : std::exp(s - largest);
  for (std::size_t e = 0; e < experts; ++e) {
    if (!o.sigmoid) scores[e] /= sum;
    ranked[e] = scores[e] + (bias == nullptr ? 0 : bias[e]);
  }
  if (o.groups > 1) keep_groups(ranked, o);
  std::vector<std::int64_t> best(experts);
  std::iota(best.begin(), best.end(), 0);
  order(best, ranked.data());
  T all = o.normalized ? T{0} : T{1};
  for (std::int64_t c = 0; c < o.chosen; ++c) {
    expert[c] = static_cast<std::int32_t>(best[static_cast<std::size_t>(c)]);
    factor[c] = scores[static_cast<std::size_t>(expert[c])];
    if (o.normalized) all += factor[c];
  }
  for (std::int64_t c = 0; c < o.chosen; ++c)
    factor[c] = factor[c] / (o.normalized ? all + T(1e-20) : all) * static_cast<T>(o.scale);
}

void choose_experts_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto o = call.as<ChoiceAttrs>();
  const DType dtype = call.in[kLogits].dtype() == f64 ? f64 : f32;
  const Tensor logits = call.in[kLogits].to(dtype).contiguous();
  const Tensor bias = call.in[kChoiceBias].defined() ? call.in[kChoiceBias].to(dtype).contiguous() : Tensor();
  Tensor factor = out[1].dtype() == dtype ? out[1] : empty(out[1].shape(), {dtype});
  const std::int64_t rows = logits.size(0), experts = logits.size(1);
  const auto each_row = [&]<typename T>(T) {
    for (std::int64_t r = 0; r < rows; ++r) {
      choose(logits.host<T>() + r * experts, bias.defined() ? bias.host<T>() : nullptr,
             static_cast<std::size_t>(experts), o, out[0].host<std::int32_t>() + r * o.chosen,
             factor.host<T>() + r * o.chosen);
    }
  };
  if (dtype == f64)
    each_row(double());
  else
    each_row(float());
  if (out[1].dtype() != dtype) out[1].copy_(factor);
}

bool choose_experts_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto o = call.as<ChoiceAttrs>();
  const Tensor logits = call.in[kLogits].contiguous(), &given = call.in[kChoiceBias];
  const std::int64_t rows = logits.size(0), experts = logits.size(1);
  if (logits.dtype() == f64 || (given.defined() && given.dtype() == f64)) return false;
  if (experts > kMostExperts || o.chosen > kMostChosen) {
    const TensorList composed = choose_experts_reference(call);
    for (std::size_t i = 0; i < 2; ++i) out[i].copy_(composed[i]);
    return true;
  }
  const Tensor bias = given.defined() ? given.contiguous() : given;
  if (rows == 0) return true;
  gpu::Kernel(shaders::choose_experts, call)
      .spec(logits.dtype(), bias.defined() ? gpu::u32(bias.dtype()) : 99u, gpu::u32(o.sigmoid ? 1 : 0),
            gpu::u32(o.groups_by_best ? 1 : 0), gpu::u32(o.normalized ? 1 : 0))
      .read(logits)
      .read(bias)
      .write(out[0])
      .write(out[1])
      .u32(rows, experts, o.chosen, o.groups, o.chosen_groups)
      .f32(static_cast<float>(o.scale))
      .dispatch(gpu::grid(rows));
  return true;
}

const OpDef kChooseExperts = {.name = "choose_experts",
                              .infer = choose_experts_infer,
                              .cpu = choose_experts_cpu,
                              .gpu = choose_experts_gpu,
                              .reference = choose_experts_reference,
                              .saved = Saved::inputs};

}  // namespace

ExpertChoice choose_experts(const Tensor& logits, const Tensor& bias, const ChoiceAttrs& options) {
  detail::require_defined("choose_experts", logits);
  const TensorList out = apply(kChooseExperts, {logits, bias}, Attrs::of(options));
  return {out[0], out[1]};
}

std::span<const OpDef* const> ops_in_choose_experts() {
  static const OpDef* const list[] = {&kChooseExperts};
  return list;
}

}  // namespace etna
