#include <cstdio>

#include <etna/etna.h>

// A transformer encoder reads sequences of varied length, padded to one: does the first token occur again? Its steps
// compute in bf16 and are captured.
//     encoder [DEVICE]
using namespace etna;

constexpr std::int64_t kTokens = 12, kLength = 16, kWidth = 32, kPadding = 0, kSteps = 250;

// Sequences of 4 to kLength tokens, and padding after them: [count, kLength].
Tensor draw(std::int64_t count, Device device) {
  const Tensor tokens = randint(1, kTokens, {count, kLength}, {i64, device});
  const Tensor lengths = randint(4, kLength + 1, {count, 1}, {i64, device});
  return where(arange(kLength, {i64, device}) < lengths, tokens, kPadding);
}

// 1 where the first token occurs again, else 0: [count].
Tensor answers(const Tensor& tokens) { return any(tokens.slice(1, 1, kLength) == tokens.slice(1, 0, 1), {1}).to(i64); }

struct Model : nn::Module {
  nn::Embedding token{kTokens, kWidth}, place{kLength, kWidth};
  nn::TransformerEncoder encoder{kWidth, 4, 2, {.dim_feedforward = 64, .dropout = 0, .batch_first = true}};
  nn::Linear out{kWidth, 2};

  Model() {
    register_module("token", token), register_module("place", place);
    register_module("encoder", encoder), register_module("out", out);
  }

  // padding [N, kLength] is true where nobody may look; the answer is read off the first position: logits [N, 2].
  Tensor forward(const Tensor& tokens, const Tensor& padding) const {
    const Tensor x = token(tokens) + place(arange(kLength, {i64, tokens.device()}));
    return out(encoder(x, {.key_padding_mask = padding}).select(1, 0));
  }
};

int main(int argc, char** argv) try {
  const Device device = select_device(argc > 1 ? argv[1] : "auto");
  manual_seed(1);
  Model model;
  model.to(device);
  optim::AdamW optimizer(model.parameters(), {.lr = 4e-3, .max_grad_norm = 1});
  optim::Scheduler scheduler(optimizer, optim::warmup_cosine(50, kSteps, 0.1));

  auto step = capture(
      [&] {
        const Tensor tokens = draw(64, device);
        Tensor loss;
        {
          auto mixed = autocast(bf16);
          loss = cross_entropy(model.forward(tokens, tokens == kPadding), answers(tokens));
        }
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        scheduler.step();
        return loss.detach();
      },
      {.device = device});
  for (int i = 1; i <= kSteps; ++i) {
    const Tensor loss = step();
    if (i % 50 == 0) std::printf("step %d loss %.4f\n", i, loss.item<double>());
  }

  NoGrad off;
  model.eval();
  auto mixed = autocast(bf16);
  const Tensor tokens = draw(500, device), padding = tokens == kPadding, logits = model.forward(tokens, padding);
  const double right = mean(eq(argmax(logits, 1), answers(tokens)).to(f32)).item<double>();
  const Tensor noise = where(padding, randint(1, kTokens, tokens.shape(), {i64, device}), tokens);
  const bool hidden = equal(logits, model.forward(noise, padding));
  std::printf("%.1f %% right; other tokens in the padding %s\n", 100 * right, hidden ? "change nothing" : "CHANGE IT");
  return right > 0.95 && hidden ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "encoder: %s\n", error.what());
  return 3;
}
