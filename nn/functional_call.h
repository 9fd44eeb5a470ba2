#pragma once

#include <utility>
#include <vector>

#include <etna/nn/module.h>

namespace etna::nn {

/// While one lives, parameters and buffers of a module are other tensors: of the same shapes, recorded or not. Names
/// that the dictionary leaves out keep theirs. Where two members share one tensor, replacing either replaces both.
/// @throws Error for a name that the module does not have, ShapeError for another shape
class [[nodiscard]] WithTensors {
 public:
  WithTensors(Module& module, const StateDict& tensors);
  ~WithTensors();
  WithTensors(const WithTensors&) = delete;
  WithTensors& operator=(const WithTensors&) = delete;

 private:
  template <typename Visit>
  static void each_member(Module& module, const std::string& prefix, const Visit& visit);

  std::vector<std::pair<Tensor*, Tensor>> before_;
};

/// Calls `f` while the module has other parameters and buffers, and returns what f returns. With a function of these
/// parameters instead of the module's own one takes gradients with respect to updated weights (MAML), Jacobians, or
/// averages of models.
///     Tensor y = functional_call(net, {{"weight", w - grad * 0.1}}, [&] { return net(x); });
template <typename F>
auto functional_call(Module& module, const StateDict& tensors, F&& f) {
  const WithTensors scope(module, tensors);
  return std::forward<F>(f)();
}

}  // namespace etna::nn
