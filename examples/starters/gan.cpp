#include <cmath>
#include <cstdio>

#include <etna/etna.h>

// A generative adversarial network (Goodfellow et al. 2014) learns to draw points near a circle.
//     gan [DEVICE]
using namespace etna;

constexpr std::int64_t kNoise = 8, kBatch = 128;

// [count, 2], at a distance of about 1 from the origin.
Tensor circle(std::int64_t count, Device device) {
  const Tensor x = randn({count, 2}, device);
  return x / norm(x, 2, {1}, true) + randn({count, 2}, device) * 0.05;
}

struct Net : nn::Sequential {
  Net(std::int64_t in, std::int64_t out) {
    add<nn::Linear>(in, 64).add<nn::LeakyReLU>(0.2).add<nn::Linear>(64, 64).add<nn::LeakyReLU>(0.2);
    add<nn::Linear>(64, out);
  }
};

// Mean and standard deviation of the distance from the origin, and the smallest share of points in a quadrant.
struct Figures {
  explicit Figures(const Tensor& points) {
    const Tensor distance = norm(points, 2, {1}), right = points.select(1, 0) > 0, up = points.select(1, 1) > 0;
    mean = distance.mean().item<double>(), std = distance.std().item<double>();
    for (const Tensor& quadrant : {right & up, right & ~up, ~right & up, ~right & ~up})
      share = std::fmin(share, quadrant.to(f32).mean().item<double>());
    std::printf("distance %.3f ± %.3f, at least %.1f %% of the points in each quadrant\n", mean, std, 100 * share);
  }
  double mean, std, share = 1;
};

int main(int argc, char** argv) try {
  const Device device = select_device(argc > 1 ? argv[1] : "auto");
  manual_seed(1);
  Net generator(kNoise, 2), discriminator(2, 1);
  generator.to(device), discriminator.to(device);
  optim::Adam generator_adam(generator.parameters(), {.lr = 1e-3, .betas = {0.5, 0.999}});
  optim::Adam discriminator_adam(discriminator.parameters(), {.lr = 1e-3, .betas = {0.5, 0.999}});

  auto step = capture(
      [&] {
        const Tensor yes = ones({kBatch, 1}, device), no = zeros({kBatch, 1}, device);
        const Tensor fake = generator(randn({kBatch, kNoise}, device));
        // The discriminator learns to tell points from drawn ones; detach() keeps its gradient out of the generator.
        Tensor told = binary_cross_entropy_with_logits(discriminator(circle(kBatch, device)), yes) +
                      binary_cross_entropy_with_logits(discriminator(fake.detach()), no);
        discriminator_adam.zero_grad();
        told.backward();
        discriminator_adam.step();
        // The generator learns to draw what the discriminator takes for real.
        Tensor taken = binary_cross_entropy_with_logits(discriminator(fake), yes);
        generator_adam.zero_grad();
        taken.backward();
        generator_adam.step();
        return std::vector<Tensor>{told.detach(), taken.detach()};
      },
      {.device = device});
  for (int i = 1; i <= 3000; ++i) {
    const std::vector<Tensor> loss = step();
    if (i % 500 != 0) continue;
    std::printf("step %d: discriminator %.3f, generator %.3f\n", i, loss[0].item<double>(), loss[1].item<double>());
  }

  NoGrad off;
  const Figures real(circle(2000, device)), drawn(generator(randn({2000, kNoise}, device)));
  const bool close = std::fabs(drawn.mean - real.mean) < 0.1 && std::fabs(drawn.std - real.std) < 0.1;
  return close && drawn.share > 0.1 ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "gan: %s\n", error.what());
  return 3;
}
