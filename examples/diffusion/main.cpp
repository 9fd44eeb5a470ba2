#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <etna/etna.h>

// Denoising diffusion (Ho, Jain & Abbeel 2020) of points in the plane: a small network learns to remove noise, and then
// turns pure noise into points of a spiral.
//     diffusion [DEVICE] [STEPS]
namespace {

using namespace etna;

constexpr int kLevels = 50;  ///< of noise
constexpr std::int64_t kBatch = 512;
const double kPi = std::acos(-1.0);

/// Points of a spiral with one and a half turns, about as large as the unit circle.
Tensor spiral(const Tensor& t) {
  const Tensor angle = t * (3 * kPi), radius = t + 0.1;
  return stack({radius * cos(angle), radius * sin(angle)}, 1);
}

/// How much of the data is left at each level: the cosine schedule of Nichol & Dhariwal (2021).
Tensor remaining() {
  const Tensor at = (arange(1.0, kLevels + 1.0) / static_cast<double>(kLevels) + 0.008) * (kPi / 2 / 1.008);
  return clamp(square(cos(at)), 1e-4, {});
}

/// Predicts the noise in a point, given the level.
struct Denoiser : nn::Module {
  nn::Embedding level{kLevels, 32};
  nn::Linear in{2 + 32, 128}, first{128, 128}, second{128, 128}, out{128, 2};
  Denoiser() {
    register_module("level", level);
    register_module("in", in);
    register_module("first", first);
    register_module("second", second);
    register_module("out", out);
  }
  Tensor forward(const Tensor& x, const Tensor& at) const {
    Tensor h = silu(in(cat({x, level(at)}, 1)));
    h = h + silu(first(h));
    return out(h + silu(second(h)));
  }
};

/// From noise to points, level by level.
Tensor sample(const Denoiser& model, std::int64_t count, const Tensor& left, Device device) {
  NoGrad off;
  const std::vector<double> alpha_bar = left.to_vector<double>();
  Tensor x = randn({count, 2}, device);
  for (int level = kLevels - 1; level >= 0; --level) {
    const double now = alpha_bar[level], before = level > 0 ? alpha_bar[level - 1] : 1.0, alpha = now / before;
    const Tensor noise = model.forward(x, full({count}, level, {i64, device}));
    const Tensor clean = clamp((x - noise * std::sqrt(1 - now)) / std::sqrt(now), -1.5, 1.5);
    x = clean * (std::sqrt(before) * (1 - alpha) / (1 - now)) + x * (std::sqrt(alpha) * (1 - before) / (1 - now));
    if (level > 0) x = x + randn({count, 2}, device) * std::sqrt((1 - alpha) * (1 - before) / (1 - now));
  }
  return x;
}

/// Mean distance to the nearest point of the spiral.
float distance(const Tensor& points) {
  const Tensor curve = spiral(arange(400.0) / 400.0).unsqueeze(0);
  const Tensor apart = sum(square(points.to(kCPU).unsqueeze(1) - curve), -1);
  return mean(sqrt(min(apart, {1}))).item();
}

}  // namespace

int main(int argc, char** argv) try {
  const Device device = select_device(argc > 1 ? argv[1] : "auto");
  const int steps = argc > 2 ? std::atoi(argv[2]) : 5000;
  manual_seed(1);
  Denoiser model;
  model.to(device);
  optim::Adam adam(model.parameters(), {.lr = 3e-3});
  optim::Scheduler scheduler(adam, optim::cosine(steps, 0.01));
  const Tensor left = remaining(), on_device = left.to(device);

  auto step = capture(
      [&] {
        const Tensor x = spiral(rand({kBatch}, device)), noise = randn({kBatch, 2}, device);
        const Tensor level = randint(0, kLevels, {kBatch}, {i64, device});
        const Tensor share = index_select(on_device, 0, level).unsqueeze(1);
        const Tensor noisy = x * sqrt(share) + noise * sqrt(1.0 - share);
        adam.zero_grad();
        Tensor loss = mse_loss(model.forward(noisy, level), noise);
        loss.backward();
        adam.step();
        scheduler.step();
        return loss.detach();
      },
      {.device = device});
  for (int i = 0; i <= steps; ++i) {
    const Tensor loss = step();
    if (i % 500 == 0) std::printf("step %d loss %.4f\n", i, static_cast<double>(loss.item()));
  }

  const float from_noise = distance(randn({512, 2})), from_model = distance(sample(model, 512, left, device));
  std::printf("mean distance to the spiral: noise %.3f, samples %.3f\n", static_cast<double>(from_noise),
              static_cast<double>(from_model));
  return from_model < from_noise / 4 ? 0 : 1;
} catch (const etna::Error& error) {
  std::fprintf(stderr, "diffusion: %s\n", error.what());
  return 3;
}
