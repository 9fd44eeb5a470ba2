#include "train.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace etna;

namespace {

constexpr double kMean = 0.2860, kDeviation = 0.3530;  ///< of the training set's pixels

/// Turns about half of the pictures around.
Tensor mirrored(const Tensor& x) { return where(rand({x.size(0), 1, 1, 1}, x.device()) < 0.5, flip(x, {3}), x); }

double accuracy(const nn::UnaryModule& model, const Pictures& test, const Options& options) {
  NoGrad off;
  Tensor right = zeros({}, {i64, test.x.device()});
  for (std::int64_t at = 0; at < test.x.size(0); at += 1000) {
    const std::int64_t end = std::min(at + 1000, test.x.size(0));
    Autocast precision(options.precision == "bf16" ? bf16 : f32);
    const Tensor guess = argmax(model(test.x.slice(0, at, end)), 1);
    right += sum(eq(guess, test.y.slice(0, at, end)));
  }
  return 100.0 * static_cast<double>(right.item<std::int64_t>()) / static_cast<double>(test.x.size(0));
}

}  // namespace

Pictures load_pictures(const Options& options, bool training, Device device) {
  const data::FashionMnist files(options.data, training);
  Tensor x = files.data(), y = files.target();
  if (training && options.limit > 0) x = x.slice(0, 0, options.limit), y = y.slice(0, 0, options.limit);
  return {((x.to(device).to(f32) / 255.0 - kMean) / kDeviation).reshape({-1, 1, 28, 28}), y.to(device).to(i64)};
}

Pictures drawn_pictures(std::int64_t count, std::uint64_t seed, Device device) {
  manual_seed(seed);
  const Tensor at = arange(0.0, 28.0), x = at.reshape({1, 1, 28}), y = at.reshape({1, 28, 1});
  const auto uniform = [&](double low, double high) { return rand({count, 1, 1}) * (high - low) + low; };
  const Tensor dx = abs(x - uniform(9, 18)), dy = abs(y - uniform(9, 18)), size = uniform(5, 8);
  const Tensor kind = randint(0, 3, {count});
  // A disc, a square, a cross.
  const Tensor disc = le(square(dx) + square(dy), square(size)), box = le(maximum(dx, dy), size * 0.9);
  const Tensor cross = le(minimum(dx, dy), 1.5) & le(maximum(dx, dy), size);
  const Tensor which = kind.reshape({count, 1, 1});
  const Tensor shape = where(eq(which, 0), disc.to(f32), where(eq(which, 1), box.to(f32), cross.to(f32)));
  const Tensor noisy = shape + randn({count, 28, 28}) * 0.3;
  return {noisy.reshape({count, 1, 28, 28}).to(device), kind.to(device)};
}

double train(const nn::UnaryModule& model, const Pictures& training, const Pictures& test, const Options& options,
             Device device) {
  auto& net = const_cast<nn::UnaryModule&>(model);
  optim::AdamW optimizer(net.parameters(), {.lr = options.rate, .weight_decay = 0.02});
  data::DataLoader loader(data::TensorDataset(training.x, training.y),
                          {.batch_size = options.batch, .shuffle = true, .seed = options.seed, .drop_last = true});
  const std::int64_t steps = loader.size() * options.epochs;
  optim::Scheduler scheduler(optimizer, optim::warmup_cosine(steps / 10, steps, 0.001));
  auto step = capture(
      [&](const Tensor& x, const Tensor& y) {
        optimizer.zero_grad();
        Tensor loss;
        {
          Autocast precision(options.precision == "bf16" ? bf16 : f32);
          loss = cross_entropy(model(mirrored(x)), y);
        }
        loss.backward();
        optimizer.step();
        scheduler.step();
        return loss.detach();
      },
      {.device = device});
  double right = 0;
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    const auto begin = std::chrono::steady_clock::now();
    net.train();
    Tensor total = zeros({}, device);
    for (auto [x, y] : loader) total += step(x, y);
    const double loss = static_cast<double>(total.item()) / static_cast<double>(loader.size());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    net.eval();
    right = accuracy(model, test, options);
    std::printf("epoch %d: loss %.4f, test accuracy %.2f %%, %.2f s of training\n", epoch, loss, right, seconds);
    std::fflush(stdout);
  }
  return right;
}
