#include <etna/optim/adagrad.h>

#include <fmt/format.h>

#include <etna/optim/internal/composed_step.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

Adafactor::Adafactor(std::vector<Tensor> parameters, AdafactorOptions options)
    : Adafactor(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

Adafactor::Adafactor(std::vector<ParamGroup> groups, AdafactorOptions options)
    : Optimizer("Adafactor", std::move(groups), settings_of(options), options.max_grad_norm), options_(options) {
  if (!(options.beta2_decay <= 0))
    throw Error(fmt::format("Adafactor: a beta2_decay of {} is positive", options.beta2_decay));
  if (!(options.eps1.value_or(0) >= 0) || !(options.eps2 >= 0) || !(options.d >= 1)) {
    throw Error(fmt::format("Adafactor: eps1 {}, eps2 {} and d {}; wanted are at least 0, 0 and 1",
                            options.eps1.value_or(0), options.eps2, options.d));
  }
}

std::vector<std::string> Adafactor::state_names(const ParamGroup&) const { return {"row_var", "col_var", "variance"}; }

Shape Adafactor::state_shape(const Tensor& parameter, std::size_t state) const {
  const Shape& shape = parameter.shape();
  const bool matrix = parameter.dim() > 1;
  if (matrix != (state < 2)) return {0};  // not used
  Shape kept = shape;
  if (matrix) kept[state == 0 ? parameter.dim() - 1 : parameter.dim() - 2] = 1;
  return kept;
}

void Adafactor::update(const ParamGroup&, const std::vector<Tensor>& list, const StepNumbers& numbers,
                       const Tensor& control) {
  for (std::size_t i = 0; i < list.size(); i += 5) {
    if (list[i].numel() == 0) continue;
    const ComposedStep step(list[i], list[i + 1], numbers, control, options_.maximize);
    const Tensor &rows = list[i + 2], &columns = list[i + 3], &all = list[i + 4], squares = square(step.gradient);
    const Tensor share = pow(step.step, options_.beta2_decay);
    const bool wide = list[i].dtype() == f64;
    const double eps1 = options_.eps1.value_or(wide ? 0x1p-52 : 0x1p-23);
    Tensor v;
    if (list[i].dim() > 1) {
      const Tensor r = rows + (mean(squares, {-1}, true) - rows) * share;
      const Tensor c = columns + (mean(squares, {-2}, true) - columns) * share;
      v = r * c / clamp(mean(r, {-2}, true), eps1, {});
      step.write(rows, r);
      step.write(columns, c);
    } else {
      v = all + (squares - all) * share;
      step.write(all, v);
    }
    const Tensor u = step.gradient * rsqrt(clamp(v, eps1 * eps1, {}));
    const auto root = [](const Tensor& x) { return sqrt(mean(square(x))); };
    const Tensor rate = minimum(step.lr, rsqrt(step.step)) * clamp(root(step.x), options_.eps2, {});
    const Tensor size = rate / clamp(root(u) / options_.d, 1.0, {});
    // Weight decay acts after the norm of the parameter was taken.
    step.write(list[i], step.x * (1.0 - step.lr * step.weight_decay) - u * size);
  }
}

}  // namespace etna::optim
