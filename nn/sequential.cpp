#include <etna/nn/containers.h>

namespace etna::nn {

Tensor Sequential::forward(const Tensor& x) const {
  Tensor y = x;
  for (const UnaryModule& module : modules) y = module(y);
  return y;
}

Sequential::Sequential() { register_module("", modules); }

Sequential& Sequential::add(std::unique_ptr<UnaryModule> module) {
  modules.push_back(std::move(module));
  return *this;
}

std::unique_ptr<Module> Sequential::another() const {
  auto copy = std::make_unique<Sequential>();
  for (const UnaryModule& module : modules) copy->add(clone_of(module));
  return copy;
}

}  // namespace etna::nn
