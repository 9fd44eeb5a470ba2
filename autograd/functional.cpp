#include <etna/autograd/functional.h>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/autograd/internal/node.h>
#include <etna/tensor/ops.h>

namespace etna::autograd {
namespace {

/// The inputs as variables of their own: leaves, or copies of handles that are still linked to the tape.
TensorList variables(const char* op, const TensorList& inputs, bool create_graph) {
  TensorList list;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& x = inputs[i];
    if (!x.defined()) throw UndefinedTensor(op, i + 1);
    if (!is_floating(x.dtype())) {
      throw DtypeError(
          fmt::format("{}: input {} holds {}, only floating tensors have derivatives; capture it in the "
                      "function instead",
                      op, i, name(x.dtype())));
    }
    list.push_back(create_graph && x.requires_grad() ? separate(x, x) : detail::alias(x).requires_grad_());
  }
  return list;
}

void require_fitting(const char* op, const TensorList& v, const TensorList& of, const char* what) {
  if (v.size() != of.size()) {
    throw ShapeError(fmt::format("{}: {} vectors were given for {} {}s", op, v.size(), of.size(), what));
  }
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (v[i].defined() && v[i].shape() == of[i].shape()) continue;
    throw ShapeError(fmt::format("{}: vector {} is {}, {} {} is {}", op, i,
                                 v[i].defined() ? str(v[i].shape()) : "undefined", what, i, str(of[i].shape())));
  }
}

/// grad() for outputs some of which may depend on nothing; 0 instead of undefined.
TensorList gradients(const TensorList& outputs, const TensorList& inputs, const TensorList& seeds, bool create_graph,
                     bool retain = false) {
  TensorList roots, root_seeds, found(inputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].defined() && outputs[i].requires_grad()) roots.push_back(outputs[i]), root_seeds.push_back(seeds[i]);
  }
  if (!roots.empty()) found = grad(roots, inputs, root_seeds, retain || create_graph, create_graph);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined()) found[i] = zeros_like(inputs[i]);
  }
  return found;
}

TensorList finished(const TensorList& outputs, bool create_graph) {
  if (create_graph) return outputs;
  TensorList plain;
  for (const Tensor& y : outputs) plain.push_back(y.detach());
  return plain;
}

TensorList ones_of(const char* op, const TensorList& outputs) {
  TensorList seeds;
  for (const Tensor& y : outputs) {
    if (y.numel() != 1) {
      throw GradError(fmt::format("{}: an output has {} elements {}; one is wanted, or a vector for each output", op,
                                  y.numel(), str(y.shape())));
    }
    seeds.push_back(ones_like(y));
  }
  return seeds;
}

/// The function's only output, of one element.
void require_one_number(const char* op, const TensorList& outputs) {
  if (outputs.size() == 1 && outputs[0].numel() == 1) return;
  throw GradError(fmt::format("{}: the function must give one tensor of one element; it gave {} tensors{}", op,
                              outputs.size(), outputs.empty() ? "" : ", the first " + str(outputs[0].shape())));
}

}  // namespace

void backward(const TensorList& roots, const TensorList& grads, bool retain_graph, bool create_graph) {
  for (std::size_t i = 0; i < roots.size(); ++i) {
    if (!roots[i].defined()) throw UndefinedTensor("backward", i + 1);
  }
  if (!grads.empty()) require_fitting("backward", grads, roots, "root");
  run_backward(roots, grads.empty() ? ones_of("backward", roots) : grads, {}, retain_graph, create_graph);
}

Product vjp(const TensorFunction& f, const TensorList& inputs, const TensorList& v, bool create_graph) {
  const GradMode on(true);
  const TensorList x = variables("vjp", inputs, create_graph), y = f(x);
  if (!v.empty()) require_fitting("vjp", v, y, "output");
  const TensorList found = gradients(y, x, v.empty() ? ones_of("vjp", y) : v, create_graph);
  return {finished(y, create_graph), found};
}

Product jvp(const TensorFunction& f, const TensorList& inputs, const TensorList& v, bool create_graph) {
  require_fitting("jvp", v, inputs, "input");
  const GradMode on(true);
  const TensorList x = variables("jvp", inputs, create_graph), y = f(x);
  TensorList seeds;
  for (const Tensor& output : y) seeds.push_back(zeros_like(output).requires_grad_());
  const TensorList first = gradients(y, x, seeds, true);
  return {finished(y, create_graph), gradients(first, seeds, v, create_graph)};
}

Product hvp(const TensorFunction& f, const TensorList& inputs, const TensorList& v, bool create_graph) {
  require_fitting("hvp", v, inputs, "input");
  const GradMode on(true);
  const TensorList x = variables("hvp", inputs, create_graph), y = f(x);
  require_one_number("hvp", y);
  const TensorList first = gradients(y, x, ones_of("hvp", y), true);
  return {finished(y, create_graph), gradients(first, x, v, create_graph)};
}

Product vhp(const TensorFunction& f, const TensorList& inputs, const TensorList& v, bool create_graph) {
  return hvp(f, inputs, v, create_graph);
}

std::vector<TensorList> jacobian(const TensorFunction& f, const TensorList& inputs, bool create_graph) {
  const GradMode on(true);
  const TensorList x = variables("jacobian", inputs, create_graph), y = f(x);
  std::vector<TensorList> all;
  for (const Tensor& output : y) {
    std::vector<TensorList> rows(x.size());
    for (std::int64_t e = 0; e < output.numel(); ++e) {
      Tensor seed = zeros({output.numel()}, {output.dtype(), output.device()});
      seed.slice(0, e, e + 1).fill_(1);
      const TensorList found = gradients({output}, x, {seed.reshape(output.shape())}, create_graph, true);
      for (std::size_t i = 0; i < x.size(); ++i) rows[i].push_back(found[i]);
    }
    TensorList blocks;
    for (std::size_t i = 0; i < x.size(); ++i) {
      Shape shape = output.shape();
      for (std::int64_t n : x[i].shape()) shape.push_back(n);
      blocks.push_back(rows[i].empty() ? zeros(shape, {x[i].dtype(), x[i].device()})
                                       : stack(rows[i], 0).reshape(shape));
    }
    all.push_back(blocks);
  }
  return all;
}

std::vector<TensorList> hessian(const TensorFunction& f, const TensorList& inputs, bool create_graph) {
  const auto gradient = [&f](const TensorList& x) {
    const TensorList y = f(x);
    require_one_number("hessian", y);
    return gradients(y, x, ones_of("hessian", y), true);
  };
  return jacobian(gradient, inputs, create_graph);
}

namespace {
TensorFunction of_lists(const std::function<Tensor(const Tensor&)>& f) {
  return [&f](const TensorList& in) { return TensorList{f(in[0])}; };
}
}  // namespace

Tensor jacobian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, bool create_graph) {
  return jacobian(of_lists(f), TensorList{x}, create_graph)[0][0];
}
Tensor hessian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, bool create_graph) {
  return hessian(of_lists(f), TensorList{x}, create_graph)[0][0];
}

}  // namespace etna::autograd
