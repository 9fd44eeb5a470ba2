#pragma once

#include <cstdint>

#include <etna/etna.h>

/// What the page Draw trains, and bench_browser times.
namespace etna::web {

/// Grey images of 28×28 in ten classes.
inline constexpr std::int64_t kSide = 28, kPixels = kSide * kSide, kClasses = 10;

struct Mlp : nn::UnaryModule {
  Mlp() : hidden(kPixels, 256), out(256, kClasses) {
    register_module("hidden", hidden);
    register_module("out", out);
  }
  Tensor forward(const Tensor& x) const override { return out(relu(hidden(x.flatten(1)))); }
  nn::Linear hidden, out;
};

struct Cnn : nn::UnaryModule {
  Cnn() : first(1, 16, 3, {.padding = 1}), second(16, 32, 3, {.padding = 1}), out(32 * 7 * 7, kClasses) {
    register_module("first", first);
    register_module("second", second);
    register_module("out", out);
  }
  Tensor forward(const Tensor& x) const override {
    const Tensor h = max_pool2d(relu(first(x)), 2);
    return out(max_pool2d(relu(second(h)), 2).flatten(1));
  }
  nn::Conv2d first, second;
  nn::Linear out;
};

}  // namespace etna::web
