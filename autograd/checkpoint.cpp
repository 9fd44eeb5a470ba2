#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/autograd/internal/node.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

namespace etna::autograd {

TensorList checkpoint(const std::function<TensorList(const TensorList&)>& f, const TensorList& inputs) {
  // Shared, so that each replay of a captured step can update it.
  auto before = std::make_shared<RandomState>();
  struct Given {
    Tensor values;
    bool requires_grad = false;
    std::uint32_t version = 0;
  };
  // Off the tape: a node does not own tensors whose place there may change.
  std::vector<Given> given;
  for (const Tensor& x : inputs) {
    given.push_back(x.defined() ? Given{detail::alias(x), x.requires_grad(), x.storage()->version} : Given{});
  }
  each_step([before] { *before = random_state(); });
  auto backward = [f, given = std::move(given), before, precision = autocast_dtype()](const TensorList& grads) {
    TensorList leaves(given.size());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!given[i].values.defined()) continue;
      check_version(given[i].values, given[i].version, "checkpoint");
      leaves[i] = detail::alias(given[i].values);
      if (given[i].requires_grad) leaves[i].requires_grad_();
    }
    TensorList roots, seeds;
    {
      GradMode on(true);
      auto now = std::make_shared<RandomState>();
      each_step([before, now] {
        *now = random_state();
        set_random_state(*before);
      });
      TensorList outputs;
      {
        Autocast as_before(precision);
        outputs = f(leaves);
      }
      each_step([now] { set_random_state(*now); });
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i].requires_grad()) roots.push_back(outputs[i]), seeds.push_back(grads[i]);
      }
    }
    TensorList result(leaves.size());
    if (roots.empty()) return result;
    // Accumulates in the leaves: the gradients of `leaves` are returned below, parameters keep theirs.
    run_backward(roots, seeds, {}, false, false);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i].requires_grad()) result[i] = leaves[i].grad();
    }
    return result;
  };
  return custom(inputs, f, backward, "checkpoint");
}

Tensor checkpoint_sequential(const std::vector<std::function<Tensor(const Tensor&)>>& functions, std::int64_t segments,
                             const Tensor& x) {
  const auto count = static_cast<std::int64_t>(functions.size());
  if (segments < 1 || segments > count) {
    throw Error(fmt::format("checkpoint_sequential: {} functions cannot be {} segments", count, segments));
  }
  // Without an input that requires grad nothing inside a checkpoint is differentiated.
  Tensor y = x.requires_grad() || !is_floating(x.dtype()) ? x : detail::alias(x).requires_grad_(grad_enabled());
  const auto run = [&functions](std::int64_t begin, std::int64_t end, Tensor at) {
    for (std::int64_t i = begin; i < end; ++i) at = functions[static_cast<std::size_t>(i)](at);
    return at;
  };
  const std::int64_t each = count / segments, last = each * (segments - 1);
  for (std::int64_t begin = 0; begin < last; begin += each) {
    // Backward calls the functions again, when this call has long returned.
    const std::vector<std::function<Tensor(const Tensor&)>> part(functions.begin() + begin,
                                                                 functions.begin() + begin + each);
    const auto segment = [part](const TensorList& in) {
      Tensor at = in[0];
      for (const auto& f : part) at = f(at);
      return TensorList{at};
    };
    y = checkpoint(segment, {y})[0];
  }
  return run(last, count, y);
}

}  // namespace etna::autograd
