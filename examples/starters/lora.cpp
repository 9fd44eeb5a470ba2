#include <cstdio>

#include <etna/etna.h>

// Fine-tunes a language model by low-rank adapters (LoRA, Hu et al. 2022); its own weights stay as they are.
//     lora DEVICE MODEL ADAPTER [--receipt FILE]
// MODEL is stories260K's checkpoint_legacy.bin, or any other model; the adapter is written to ADAPTER (.gguf).
using namespace etna;

constexpr const char* kText =
    "Captain Rose was a pirate. She had a wooden leg and a green bird. One day, her ship found an island of gold. "
    "\"Arr, this is our gold now!\" said Captain Rose. The green bird said, \"Arr, share it with the crew!\" So "
    "Captain Rose gave each pirate a gold coin. The pirates danced on the ship and sang a song of the sea.";

// The most likely continuation.
std::string write(const models::Model& model, const std::string& prompt, Device device) {
  models::Generator generator(*model.decoder, {.device = device});
  std::vector<std::int32_t> ids = model.tokenizer->encode_prompt(prompt);
  generator.generate(std::vector(ids), {.max_tokens = 36, .sampling = {.temperature = 0}}, [&](std::int32_t token) {
    ids.push_back(token);
    return true;
  });
  return model.tokenizer->decode(ids);
}

int main(int argc, char** argv) try {
  if (argc != 4 && !(argc == 6 && std::string(argv[4]) == "--receipt")) {
    std::fprintf(stderr, "usage: lora DEVICE MODEL ADAPTER [--receipt FILE]\n");
    return 2;
  }
  const std::string file = argc == 6 ? argv[5] : "";
  const auto receipt = training::begin_receipt(file, {"lora", "1", {argv, argv + argc}}, {argv[2], argv[3]});
  const Device device = select_device(argv[1]);
  if (receipt) receipt->device(argv[1], device);
  if (receipt) receipt->file("model", argv[2]);
  manual_seed(1);
  const models::LoadOptions options = {.device = device, .trainable = true};
  const models::Model model = models::load_model(argv[2], options), base = models::load_model(argv[2], options);
  models::Decoder& decoder = *model.decoder;
  std::printf("before: %s\n", write(model, "Captain Rose", device).c_str());

  decoder.add_adapters(8, 16, true);
  std::int64_t trained = 0;
  for (const Tensor& parameter : decoder.parameters()) trained += parameter.requires_grad() ? parameter.numel() : 0;
  std::printf("%d of %d numbers are trained\n", int(trained), int(decoder.num_parameters()));

  const Tensor ids = from_vector(model.tokenizer->encode_prompt(kText), device).unsqueeze(0);
  const Tensor x = ids.slice(1, 0, ids.size(1) - 1), y = ids.slice(1, 1, ids.size(1));
  optim::AdamW optimizer(decoder.parameters(), {.lr = 4e-3});
  const auto train = [&] {
    Tensor loss = decoder.loss(x, y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss.detach();
  };
  auto step = capture(train, {.device = device});
  const double first = step().item<double>();
  for (int i = 1; i < 40; ++i) step();

  NoGrad off;
  const double last = decoder.loss(x, y).item<double>();
  std::printf("loss %.3f -> %.3f\nafter: %s\n", first, last, write(model, "Captain Rose", device).c_str());
  bool same = true;
  const nn::StateDict after = decoder.state_dict();
  for (const auto& [name, tensor] : base.decoder->state_dict()) same = same && equal(tensor, after.at(name));
  models::save_adapters(argv[3], decoder);
  models::load_adapters(argv[3], *base.decoder);
  const double loaded = base.decoder->loss(x, y).item<double>();
  std::printf("the model's own weights %s; with the adapter's file: loss %.3f\n", same ? "stayed" : "CHANGED", loaded);
  if (receipt) {
    receipt->number("final_loss", last);
    receipt->file("adapter", argv[3]);
    receipt->write(file);
  }
  return last < first / 3 && same && loaded == last ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "lora: %s\n", error.what());
  return 3;
}
