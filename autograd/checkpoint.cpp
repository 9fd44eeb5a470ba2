#include <etna/autograd/autograd.h>
#include <etna/autograd/node.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

namespace etna::autograd {

TensorList checkpoint(const std::function<TensorList(const TensorList&)>& f, const TensorList& inputs) {
  // Shared, so that each replay of a captured step can update it.
  auto before = std::make_shared<RandomState>();
  each_step([before] { *before = random_state(); });
  auto backward = [f, inputs, before, precision = autocast_dtype()](const TensorList& grads) {
    TensorList leaves = inputs;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!inputs[i].defined()) continue;
      leaves[i] = detail::alias(inputs[i]);
      if (inputs[i].requires_grad()) leaves[i].requires_grad_();
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

}  // namespace etna::autograd
