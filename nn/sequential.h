#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <etna/nn/module.h>
#include <etna/nn/module_list.h>

namespace etna::nn {

/// Modules applied one after the other, named by position.
///     nn::Sequential net(nn::Linear(784, 100), nn::ReLU(), nn::Linear(100, 10));
/// or, one by one:
///     nn::Sequential net;
///     net.add<nn::Linear>(784, 100).add<nn::ReLU>().add<nn::Linear>(100, 10);
class Sequential : public UnaryModule {
 public:
  Sequential();
  /// Takes the modules over; std::move() those that have names.
  template <typename First, typename... More>
  requires std::is_base_of_v<UnaryModule, First> &&(std::is_base_of_v<UnaryModule, More>&&...) &&
      (sizeof...(More) > 0 || !std::is_same_v<First, Sequential>)explicit Sequential(First&& first, More&&... more)
      : Sequential() {
    modules.emplace_back<First>(std::move(first));
    (modules.emplace_back<More>(std::move(more)), ...);
  }

  /// Constructs an M at the end.
  template <typename M, typename... Args>
  Sequential& add(Args&&... args) {
    modules.emplace_back<M>(std::forward<Args>(args)...);
    return *this;
  }
  /// Takes modules over.
  Sequential& add(std::unique_ptr<UnaryModule> module) {
    modules.push_back(std::move(module));
    return *this;
  }
  Tensor forward(const Tensor& x) const override;

  ModuleList<UnaryModule> modules;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
