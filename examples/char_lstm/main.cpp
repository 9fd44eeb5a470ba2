#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <etna/etna.h>

// An LSTM that learns to write letter by letter. The state of each stream of text goes on from batch to batch.
//     char_lstm [DEVICE] [STEPS] [FILE]     without FILE it reads generated articles
namespace {

using namespace etna;

constexpr std::int64_t kStreams = 32, kLength = 64, kWidth = 192, kLayers = 2;

struct Model : nn::Module {
  explicit Model(std::int64_t letters)
      : embedding(letters, 64), lstm(64, kWidth, {.num_layers = kLayers}), out(kWidth, letters) {
    register_module("embedding", embedding);
    register_module("lstm", lstm);
    register_module("out", out);
  }
  struct Result {
    Tensor logits;  ///< [T, B, letters]
    RecurrentState state;
  };
  /// @param text [T, B]
  Result forward(const Tensor& text, const RecurrentState& state) const {
    const nn::RecurrentOutput y = lstm(embedding(text), state);
    return {out(y.output), y.state};
  }

  nn::Embedding embedding;
  nn::LSTM lstm;
  nn::Linear out;
};

/// The letters that occur, in order; a letter's number is its place among them.
std::string alphabet(std::string text) {
  std::sort(text.begin(), text.end());
  text.erase(std::unique(text.begin(), text.end()), text.end());
  return text;
}

Tensor numbers(const std::string& text, const std::string& letters) {
  std::vector<std::int64_t> all;
  for (char letter : text) all.push_back(static_cast<std::int64_t>(letters.find(letter)));
  return from_vector(all);
}

std::string write(const Model& model, const std::string& letters, std::string text, int count, Device device) {
  NoGrad off;
  const Tensor zero = zeros({kLayers, 1, kWidth}, device);
  Model::Result result = model.forward(numbers(text, letters).to(device).unsqueeze(1), {zero, zero});
  for (int i = 0; i < count; ++i) {
    // A letter at random, by its probability sharpened a little: the largest of logits + Gumbel noise.
    const Tensor logits = result.logits[-1] / 0.7, noise = -log(-log(rand(logits.shape(), device) + 1e-10));
    const Tensor next = argmax(logits + noise, 1);
    text += letters[next.item<std::size_t>()];
    result = model.forward(next.unsqueeze(0), result.state);
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  const Device device = select_device(argc > 1 ? argv[1] : "auto");
  const int steps = argc > 2 ? std::atoi(argv[2]) : 400;
  const std::string text = argc > 3 ? data::read_text_file(argv[3]) : data::demo_text(1, 60000);
  const std::string letters = alphabet(text);
  manual_seed(1);
  Model model(static_cast<std::int64_t>(letters.size()));
  model.to(device);
  optim::Adam adam(model.parameters(), {.lr = 1e-2});
  optim::Scheduler scheduler(adam, optim::warmup_cosine(20, steps, 0.1));

  // One stream a column: [rows, streams].
  const Tensor all = numbers(text, letters);
  const std::int64_t rows = all.size(0) / kStreams;
  if (rows <= kLength) throw Error("the text is too short: it must have more than 64 letters for each of 32 streams");
  const Tensor streams = all.slice(0, 0, rows * kStreams).reshape({kStreams, rows}).t().contiguous().to(device);

  RecurrentState state = {zeros({kLayers, kStreams, kWidth}, device), zeros({kLayers, kStreams, kWidth}, device)};
  auto step = capture(
      [&](const Tensor& batch) {
        const Model::Result result = model.forward(batch.slice(0, 0, kLength), state);
        Tensor loss = cross_entropy(result.logits.flatten(0, 1), batch.slice(0, 1, kLength + 1).flatten());
        adam.zero_grad();
        loss.backward();
        optim::clip_grad_norm_(model.parameters(), 1.0);
        adam.step();
        scheduler.step();
        state.h.copy_(result.state.h.detach());
        state.c.copy_(result.state.c.detach());
        return loss.detach();
      },
      {.device = device});

  double bits = 0;
  for (std::int64_t i = 0, at = 0; i < steps; ++i, at += kLength) {
    if (at + kLength + 1 > rows) at = 0, state.h.zero_(), state.c.zero_();
    const Tensor loss = step(streams.slice(0, at, at + kLength + 1));
    if (i % 100 == 99 || i + 1 == steps) {
      bits = loss.item<double>() / std::log(2.0);
      std::printf("step %lld: %.3f bits a letter\n", static_cast<long long>(i + 1), bits);
      std::fflush(stdout);
    }
  }
  std::printf("%s\n", write(model, letters, text.substr(0, 20), 200, device).c_str());
  return bits < 2 ? 0 : 1;
} catch (const etna::Error& error) {
  std::fprintf(stderr, "char_lstm: %s\n", error.what());
  return 3;
}
