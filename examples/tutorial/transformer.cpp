#include <cstdio>
#include <string>
#include <vector>

#include <etna/etna.h>

using namespace etna;

constexpr std::int64_t kLetters = 128, kLength = 64, kBatch = 16;
const nn::TransformerOptions kLayers = {
    .dim_feedforward = 256, .dropout = 0, .activation = Activation::gelu_tanh, .batch_first = true, .norm_first = true};

struct Model : nn::Module {
  nn::Embedding letters{kLetters, 64}, places{kLength, 64};
  nn::TransformerEncoderLayer first{64, 4, kLayers}, second{64, 4, kLayers};
  nn::LayerNorm norm{64};
  nn::Linear out{64, kLetters};

  Model() {
    register_module("letters", letters);
    register_module("places", places);
    register_module("first", first);
    register_module("second", second);
    register_module("norm", norm);
    register_module("out", out);
  }

  // [batch, length] letters to [batch, length, letters] logits
  Tensor forward(const Tensor& text) const {
    const Tensor place = arange(text.size(1), {i64, text.device()});
    const nn::SequenceMasks earlier{.is_causal = true};
    return out(norm(second(first(letters(text) + places(place), earlier), earlier)));
  }
};

// The text as numbers, on the device.
Tensor numbers(const std::string& text, Device device) {
  std::vector<std::int64_t> all;
  for (char letter : text) all.push_back(static_cast<unsigned char>(letter) % kLetters);
  return from_vector(all, device);
}

std::string write(const Model& model, std::string text, int count, Device device) {
  NoGrad off;
  for (int i = 0; i < count; ++i) {
    const std::string end = text.substr(text.size() > kLength ? text.size() - kLength : 0);
    const Tensor logits = model.forward(numbers(end, device).unsqueeze(0));
    text += static_cast<char>(argmax(logits[0][-1]).item<int>());
  }
  return text;
}

int main(int argc, char** argv) {
  const Device device = select_device(argc > 1 ? argv[1] : "auto");
  manual_seed(1);
  const Tensor text = numbers(data::demo_text(1, 20000), device);

  Model model;
  model.to(device);
  optim::AdamW optimizer(model.parameters(), {.lr = 5e-3});
  optim::Scheduler scheduler(optimizer, optim::warmup_cosine(50, 1000, 0.1));

  auto step = capture(
      [&] {
        const Tensor start = randint(0, text.size(0) - kLength - 1, {kBatch, 1}, {i64, device});
        const Tensor place = start + arange(kLength + 1, {i64, device});
        const Tensor batch = index_select(text, 0, place.flatten()).reshape({kBatch, kLength + 1});
        const Tensor logits = model.forward(batch.slice(1, 0, kLength));
        Tensor loss = cross_entropy(logits.flatten(0, 1), batch.slice(1, 1, kLength + 1).flatten());
        optimizer.zero_grad();
        loss.backward();
        optim::clip_grad_norm_(model.parameters(), 1.0);
        optimizer.step();
        scheduler.step();
        return loss.detach();
      },
      {.device = device});

  for (int i = 0; i <= 1000; ++i) {
    const Tensor loss = step();
    if (i % 200 == 0) std::printf("step %d loss %.3f\n", i, static_cast<double>(loss.item()));
  }
  std::printf("%s\n", write(model, "The town ", 120, device).c_str());
  return step().item() < 1.5F ? 0 : 1;
}
