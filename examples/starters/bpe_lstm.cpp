#include <cmath>
#include <cstdio>

#include <etna/etna.h>

// An LSTM language model of byte pairs that are learned from the same text, trained by truncated backpropagation
// through time: gradients end where a chunk begins, the state goes on from chunk to chunk.
//     bpe_lstm [DEVICE] [FILE]     without FILE it reads generated articles
using namespace etna;
using Ids = std::vector<std::int32_t>;
using Model = nn::LSTMLanguageModel;
constexpr std::int64_t kVocabulary = 512, kStreams = 16, kChunk = 32;

// The mean loss of a token. Unless the state is carried on, each chunk begins with an empty one.
double evaluate(Model& model, const Ids& ids, bool carried, Device device) {
  const data::StreamBatches streams(ids, 4, kChunk);
  Model::State state(model, 4, device);
  Tensor total = zeros({}, device);
  for (const data::Batch& batch : data::BatchLoader(streams)) {
    if (!carried) state.zero();
    total += model.loss(batch.x.to(device), batch.y.to(device), state);
  }
  return total.item<double>() / static_cast<double>(streams.steps());
}

// Draws one token after the other by its probability, somewhat sharpened.
std::string write(Model& model, const data::BpeTokenizer& bpe, const std::string& start, int count, Device device) {
  Model::State state(model, 1, device);
  Ids ids = bpe.encode(start);
  Tensor next = from_vector(ids, device).unsqueeze(0);
  for (int i = 0; i < count; ++i) {
    const Tensor logits = model.forward(next, state).select(1, -1);
    next = multinomial(softmax(logits / 0.5, -1), 1);
    ids.push_back(next.item<std::int32_t>());
  }
  return bpe.decode(ids);
}

int main(int argc, char** argv) try {
  const Device device = select_device(argc > 1 ? argv[1] : "auto");
  const std::string text = argc > 2 ? data::read_text_file(argv[2]) : data::demo_text(1, 60000);
  const std::string train = text.substr(0, text.size() / 10 * 9), valid = text.substr(train.size());
  const std::string_view texts[] = {train};
  const auto bpe = data::BpeTokenizer::train(texts, {.vocab_size = kVocabulary, .special_tokens = {}});
  const Ids train_ids = bpe.encode(train), valid_ids = bpe.encode(valid);
  std::printf("%zu bytes are %zu tokens\n", train.size(), train_ids.size());

  manual_seed(1);
  Model model({.layers = 1, .dim = 128, .vocab = kVocabulary, .dropout_input = 0, .dropout_output = 0});
  model.to(device);
  Model::State state(model, kStreams, device);
  optim::AdamW optimizer(model.parameters(), {.lr = 5e-3, .max_grad_norm = 1});
  data::ResidentBatches batches(data::StreamBatches(train_ids, kStreams, kChunk), device);
  auto step = capture(
      [&] {
        const auto [x, y, number] = batches.next();
        Tensor loss = model.loss(x, y, state);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        return loss.detach();
      },
      {.device = device});
  for (int i = 1; i <= 300; ++i) {
    if (batches.step() == 0) state.zero();
    const Tensor loss = step();
    if (i % 50 == 0) std::printf("step %d loss %.3f\n", i, loss.item<double>());
  }

  NoGrad off;
  model.eval();
  const double loss = evaluate(model, valid_ids, true, device), without = evaluate(model, valid_ids, false, device);
  const double bits = loss / std::log(2.0) * static_cast<double>(valid_ids.size()) / static_cast<double>(valid.size());
  std::printf("validation loss %.3f, %.2f bits a byte; %.3f with an empty state for each chunk\n", loss, bits, without);
  std::printf("%s\n", write(model, bpe, "The town ", 60, device).c_str());
  return bits < 1.5 && loss < without && bpe.decode(valid_ids) == valid ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "bpe_lstm: %s\n", error.what());
  return 3;
}
