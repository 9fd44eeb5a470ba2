#include <etna/nn/feed_forward.h>

#include <etna/tensor/ops.h>

namespace etna::nn {

FeedForward::FeedForward(std::int64_t dim, std::int64_t hidden, double dropout, Activation activation)
    : up(dim, hidden), down(hidden, dim), dropout(dropout), activation(activation) {
  register_module("up", up);
  register_module("down", down);
  register_module("dropout", this->dropout);
}

Tensor FeedForward::forward(const Tensor& x) const {
  return dropout(feed_forward(x, up.weight, up.bias, down.weight, down.bias, activation));
}

std::unique_ptr<Module> FeedForward::another() const {
  return std::make_unique<FeedForward>(up.weight.size(1), up.weight.size(0), dropout.p, activation);
}

}  // namespace etna::nn
