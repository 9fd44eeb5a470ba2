#include <etna/tensor/ops/optimizer/internal/step.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/optimizer/internal/table.h>

namespace etna {
namespace optimizer {
namespace {

constexpr std::size_t kLr = 0, kWeightDecay = 1, kStep = 2, kMomentum = 3, kControl = 4, kList = 5;

/// Number of tensors in the list for each parameter.
std::size_t width_of(const StepRule& rule) { return 2 + rule.states; }

StepControl read_control(const OpCall& call) {
  StepControl control;
  if (const Tensor& given = call.in[kControl]; given.defined()) {
    const auto* at = given.host<float>();
    control = {at[0], at[1], at[2], at[3]};
  }
  return control;
}

void check_numbers(const OpCall& call) {
  static constexpr const char* kNames[] = {"lr", "weight_decay", "step"};
  for (std::size_t i : {kLr, kWeightDecay, kStep}) {
    const Tensor& x = call.in[i];
    if (!x.defined() || x.dim() != 0 || !is_floating(x.dtype())) {
      throw ShapeError(fmt::format("{}: {} is {}; it must be 0-d and floating", call.op.name, kNames[i],
                                   x.defined() ? fmt::format("{} {}", str(x.shape()), name(x.dtype())) : "undefined"));
    }
  }
  const Tensor& momentum = call.in[kMomentum];
  if (!momentum.defined() || momentum.shape() != Shape{3} || !is_floating(momentum.dtype()) ||
      !momentum.is_contiguous()) {
    throw ShapeError(fmt::format(
        "{}: momentum is {}; it must be [3], floating and contiguous", call.op.name,
        momentum.defined() ? fmt::format("{} {}", str(momentum.shape()), name(momentum.dtype())) : "undefined"));
  }
  const Tensor& control = call.in[kControl];
  if (control.defined() && (control.shape() != Shape{4} || control.dtype() != f32 || !control.is_contiguous())) {
    throw ShapeError(fmt::format("{}: the control is {} {}; it must be [4] f32 and contiguous", call.op.name,
                                 str(control.shape()), name(control.dtype())));
  }
}

/// Calls update(S* x, const S* g, S* const* states, n) for one chunk at a time; S is float, or double for f64
/// parameters.
template <typename Update>
void for_each_chunk(const OpCall& call, std::size_t width, const Update& update) {
  const std::span<const Tensor> list = call.in.subspan(kList);
  Chunks chunks(kChunk);
  TensorList gradients;
  for (std::size_t k = 0; k < list.size(); k += width) {
    chunks.add(list[k].numel());
    gradients.push_back(list[k + 1].contiguous());
  }
  chunks.parallel([&](std::int64_t, std::size_t k, std::int64_t begin, std::int64_t end) {
    const Tensor* tensors = &list[k * width];
    auto typed = [&](auto zero) {
      using S = decltype(zero);
      alignas(64) S x_buffer[kChunk], g_buffer[kChunk];
      S* x = load(tensors[0], begin, end, x_buffer);
      const S* g = load(gradients[k], begin, end, g_buffer);
      S* states[Rows::kMostEntries] = {};
      for (std::size_t i = 2; i < width; ++i) states[i - 2] = tensors[i].host<S>() + begin;
      update(x, g, states, end - begin);
      store(tensors[0], begin, end, x);
    };
    if (tensors[0].dtype() == f64)
      typed(double{});
    else
      typed(float{});
  });
}

}  // namespace

DType state_dtype(const Tensor& parameter) { return parameter.dtype() == f64 ? f64 : f32; }

TensorList step_inputs(std::span<const Tensor> list, const StepNumbers& numbers, const Tensor& control) {
  TensorList in = {numbers.lr, numbers.weight_decay, numbers.step, numbers.momentum, control};
  in.insert(in.end(), list.begin(), list.end());
  return in;
}

std::vector<OutputSpec> infer_step(const OpCall& call, const StepRule& rule) {
  check_numbers(call);
  const std::size_t width = width_of(rule);
  const std::span<const Tensor> list = call.in.subspan(kList);
  if (list.size() % width != 0) {
    throw Error(fmt::format("{}: got {} tensors; wanted {} for each parameter", call.op.name, list.size(), width));
  }
  std::vector<OutputSpec> out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Tensor &x = list[i], &parameter = list[i - i % width];
    std::size_t number = i / width, part = i % width;
    if (!is_floating(x.dtype())) {
      throw DtypeError(fmt::format("{}: parameter {} or its gradient holds {}; wanted a floating dtype", call.op.name,
                                   number, name(x.dtype())));
    }
    if (x.shape() != parameter.shape()) {
      throw ShapeError(fmt::format("{}: parameter {} is {}, its {} is {}", call.op.name, number, str(parameter.shape()),
                                   part == 1 ? "gradient" : "state", str(x.shape())));
    }
    if (part == 1) continue;
    if (!x.is_contiguous()) {
      throw ShapeError(fmt::format("{}: parameter {} {} (or its state) is not contiguous; optimize a contiguous() copy",
                                   call.op.name, number, str(x.shape())));
    }
    if (part > 1 && x.dtype() != state_dtype(parameter)) {
      throw DtypeError(fmt::format("{}: the state of parameter {} holds {}; wanted {}", call.op.name, number,
                                   name(x.dtype()), name(state_dtype(parameter))));
    }
    out.push_back({x.shape(), x.dtype(), static_cast<int>(kList + i)});
  }
  return out;
}

void step_cpu(const OpCall& call, const StepRule& rule) {
  const StepControl control = read_control(call);
  if (control.skip != 0) return;
  const double step = call.in[kStep].item<double>() - static_cast<double>(control.skipped);
  const auto momentum = [&](std::int64_t i) { return call.in[kMomentum].select(0, i).item<double>(); };
  const std::vector<double> numbers =
      rule.numbers(call.attrs, {static_cast<double>(control.factor), call.in[kLr].item<double>(),
                                call.in[kWeightDecay].item<double>(), step, momentum(0), momentum(1), momentum(2)});
  std::vector<float> rounded;
  for (double n : numbers) rounded.push_back(static_cast<float>(n));
  for_each_chunk(call, width_of(rule), [&]<typename S>(S* x, const S* g, S* const* states, std::int64_t n) {
    if constexpr (std::is_same_v<S, float>)
      rule.update_f32(rounded.data(), step == 1, x, g, states, n);
    else
      rule.update_f64(numbers.data(), step == 1, x, g, states, n);
  });
}

bool step_gpu(const OpCall& call, const StepRule& rule) {
  const std::size_t width = width_of(rule);
  const std::span<const Tensor> list = call.in.subspan(kList);
  if (std::ranges::any_of(list, [](const Tensor& x) { return x.dtype() == f64; })) return false;
  Rows rows(kChunk);
  std::vector<Rows::Entry> entries;
  for (std::size_t k = 0; k < list.size(); k += width) {
    entries.clear();
    for (std::size_t part = 0; part < width; ++part)
      entries.push_back({list[k + part], part == 1 ? Access::read : Access::read_write});
    rows.add(entries);
  }
  if (rows.empty()) return true;
  const Tensor& control = call.in[kControl];
  const Tensor lr = call.in[kLr].to(f32), weight_decay = call.in[kWeightDecay].to(f32), step = call.in[kStep].to(f32),
               momentum = call.in[kMomentum].to(f32);
  gpu::Kernel kernel = kernel_over(*rule.shader, call, rows, lr.device());
  kernel.spec(rows.common_dtype[0], rows.common_dtype[1], kChunk, rows.width, control.defined());
  kernel.read(control).read(lr).read(weight_decay).read(step).read(momentum);
  for (float constant : rule.constants(call.attrs)) kernel.f32(constant);
  kernel.dispatch(gpu::grid(rows.chunks.count()));
  return true;
}

TensorList step_reference(const OpCall& call, const StepRule& rule) {
  const std::size_t width = width_of(rule);
  const std::span<const Tensor> list = call.in.subspan(kList);
  const Tensor& control = call.in[kControl];
  const Tensor momentum = call.in[kMomentum].to(f64);
  Tensor step = call.in[kStep].to(f64);
  if (control.defined()) step = step - control.select(0, 2).to(f64);
  const Tensor factor = control.defined() ? control.select(0, 0).to(f64) : ones_like(step);
  const Tensor first = step == 1.0;
  const TensorList numbers =
      rule.composed_numbers(call.attrs, {factor, call.in[kLr].to(f64), call.in[kWeightDecay].to(f64), step,
                                         momentum.select(0, 0), momentum.select(0, 1), momentum.select(0, 2)});
  auto unless_skipped = [&](const Tensor& before, const Tensor& after) {
    return control.defined() ? where(control.select(0, 3) != 0.0, before, after) : after;
  };
  TensorList out;
  for (std::size_t k = 0; k < list.size(); k += width) {
    const DType t = state_dtype(list[k]);
    TensorList narrow, states(list.begin() + static_cast<std::ptrdiff_t>(k) + 2,
                              list.begin() + static_cast<std::ptrdiff_t>(k + width));
    for (const Tensor& number : numbers) narrow.push_back(number.to(t));
    Tensor x = list[k].to(t);
    rule.compose(narrow, first, x, list[k + 1].to(t), states.data());
    out.push_back(unless_skipped(list[k], x.to(list[k].dtype())));
    for (std::size_t i = 0; i < states.size(); ++i) out.push_back(unless_skipped(list[k + 2 + i], states[i]));
  }
  return out;
}

}  // namespace optimizer

StepNumbers each_step_numbers(std::span<const Tensor> list, std::function<StepValues()> values) {
  const Device device = list.front().device();
  const bool wide = device.is_cpu() || std::ranges::any_of(list, [](const Tensor& x) { return x.dtype() == f64; });
  const Tensor all =
      detail::each_step_tensor({6}, {wide ? f64 : f32, device}, [wide, values = std::move(values)](std::byte* to) {
        const StepValues v = values();
        const std::array<double, 6> numbers = {v.lr,       v.weight_decay,       static_cast<double>(v.step),
                                               v.momentum, std::log(v.momentum), 1 - v.momentum};
        if (wide) {
          std::memcpy(to, numbers.data(), sizeof(numbers));
        } else {
          std::array<float, 6> rounded;
          std::ranges::transform(numbers, rounded.begin(), [](double n) { return static_cast<float>(n); });
          std::memcpy(to, rounded.data(), sizeof(rounded));
        }
      });
  return {all.select(0, 0), all.select(0, 1), all.select(0, 2), all.slice(0, 3, 6)};
}

}  // namespace etna
