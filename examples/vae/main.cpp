#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <etna/etna.h>

// A variational autoencoder (Kingma & Welling 2014) of pictures of ellipses: it learns to describe each by a few
// numbers, and to draw new ones.
//     vae [DEVICE] [STEPS]
namespace {

using namespace etna;

constexpr std::int64_t kSide = 16, kPixels = kSide * kSide, kLatent = 4, kBatch = 128;

/// Filled ellipses of any place, size and proportion, drawn on the device. @return [count, pixels], 0 or 1
Tensor ellipses(std::int64_t count, Device device) {
  const Tensor at = arange(0.0, static_cast<double>(kSide), 1.0, {f32, device});
  const Tensor x = at.reshape({1, 1, kSide}), y = at.reshape({1, kSide, 1});
  const auto uniform = [&](double low, double high) { return rand({count, 1, 1}, device) * (high - low) + low; };
  const Tensor dx = (x - uniform(5, 10)) / uniform(2, 5), dy = (y - uniform(5, 10)) / uniform(2, 5);
  return le(square(dx) + square(dy), 1.0).to(f32).reshape({count, kPixels});
}

struct Autoencoder : nn::Module {
  nn::Linear encode{kPixels, 128}, mean{128, kLatent}, log_variance{128, kLatent};
  nn::Linear decode{kLatent, 128}, pixels{128, kPixels};
  Autoencoder() {
    register_module("encode", encode);
    register_module("mean", mean);
    register_module("log_variance", log_variance);
    register_module("decode", decode);
    register_module("pixels", pixels);
  }
  /// Logits of the pixels. @param z [N, latent]
  Tensor draw(const Tensor& z) const { return pixels(relu(decode(z))); }
};

struct Loss {
  Tensor total, reconstruction, divergence;  ///< per picture, in nats
};

/// The negative evidence lower bound.
Loss loss_of(const Autoencoder& model, const Tensor& x) {
  const Tensor h = relu(model.encode(x)), mean = model.mean(h), log_variance = model.log_variance(h);
  const Tensor z = mean + exp(log_variance * 0.5) * randn(mean.shape(), x.device());
  const Tensor logits = model.draw(z);
  const auto batch = static_cast<double>(x.size(0));
  // Binary cross-entropy: softplus(l) - x·l.
  const Tensor reconstruction = sum(softplus(logits) - x * logits) / batch;
  const Tensor divergence = sum(square(mean) + exp(log_variance) - log_variance - 1.0) * (0.5 / batch);
  return {reconstruction + divergence, reconstruction, divergence};
}

/// Share of pixels that agree.
float accuracy(const Autoencoder& model, const Tensor& x) {
  NoGrad off;
  const Tensor again = model.draw(model.mean(relu(model.encode(x))));
  return mean(eq(again > 0.0, x > 0.5).to(f32)).item();
}

void print(const Tensor& logits) {
  const std::vector<float> all = logits.to_vector<float>();
  const std::int64_t count = logits.size(0);
  for (std::int64_t row = 0; row < kSide; ++row) {
    for (std::int64_t picture = 0; picture < count; ++picture) {
      for (std::int64_t column = 0; column < kSide; ++column)
        std::putchar(all[static_cast<std::size_t>(picture * kPixels + row * kSide + column)] > 0 ? '#' : '.');
      std::putchar(picture + 1 < count ? ' ' : '\n');
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const Device device = select_device(argc > 1 ? argv[1] : "auto");
  const int steps = argc > 2 ? std::atoi(argv[2]) : 3000;
  manual_seed(1);
  Autoencoder model;
  model.to(device);
  optim::Adam adam(model.parameters(), {.lr = 1e-3});
  auto step = capture(
      [&] {
        adam.zero_grad();
        const Loss loss = loss_of(model, ellipses(kBatch, device));
        loss.total.backward();
        adam.step();
        return std::vector<Tensor>{loss.total.detach(), loss.reconstruction.detach(), loss.divergence.detach()};
      },
      {.device = device});
  for (int i = 0; i <= steps; ++i) {
    const std::vector<Tensor> loss = step();
    if (i % 500 == 0) {
      std::printf("step %d: %.1f nats a picture, of which reconstruction %.1f and divergence %.1f\n", i,
                  static_cast<double>(loss[0].item()), static_cast<double>(loss[1].item()),
                  static_cast<double>(loss[2].item()));
    }
  }
  const float right = accuracy(model, ellipses(1000, device));
  std::printf("%.2f %% of the pixels of new pictures come back right. Pictures from random numbers:\n",
              static_cast<double>(right) * 100);
  NoGrad off;
  print(model.draw(randn({4, kLatent}, device)));
  return right > 0.97F ? 0 : 1;
} catch (const etna::Error& error) {
  std::fprintf(stderr, "vae: %s\n", error.what());
  return 3;
}
