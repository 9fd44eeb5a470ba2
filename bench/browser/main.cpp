// What a page will do, timed on one thread: training steps of digit models on 28x28 images, batches of 64, and the time
// from nothing to the first token of a small language model. The same program runs natively and, built for WebAssembly,
// under node, so that the two can be compared.
//
// usage: bench_browser [MODEL]     MODEL: a file of llama2.c, such as stories260K/checkpoint_legacy.bin
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/etna.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>

#include "digit_models.h"

using namespace etna;

namespace {

using Clock = std::chrono::steady_clock;
double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

/// The median of 20 steps after 3 others, and of 50 after a second more: engines of WebAssembly compile what is run
/// often again, on another thread.
void time_steps(const char* name, nn::UnaryModule& model) {
  manual_seed(1);
  const Tensor x = randn({64, 1, 28, 28}), y = randint(0, 10, {64});
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  double loss = 0;
  const auto steps = [&](int count) {
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
      const auto begin = Clock::now();
      optimizer.zero_grad();
      const Tensor error = cross_entropy(model(x), y);
      error.backward();
      optimizer.step();
      loss = error.item();
      times.push_back(milliseconds_since(begin));
    }
    return median(times);
  };
  steps(3);
  const double first = steps(20), after = loss;
  for (const auto begin = Clock::now(); milliseconds_since(begin) < 1000;) steps(1);
  std::printf("%s: %.2f ms a step (loss %.4f after 23), a second later %.2f\n", name, first, after, steps(50));
}

void time_tokens(const char* file, Clock::time_point start) {
  const models::Model model = models::load_model(file, {.device = kCPU});
  models::Generator generator(*model.decoder, {.device = kCPU, .cache = {.dtype = f32}});
  const std::vector<std::int32_t> prompt{model.tokenizer->bos().value()};
  std::vector<std::int32_t> tokens;
  Clock::time_point first;
  generator.generate(prompt, {.max_tokens = 256, .sampling = {.temperature = 0}}, [&](std::int32_t token) {
    tokens.push_back(token);
    if (tokens.size() == 1) {
      first = Clock::now();
      std::printf("first token: %.1f ms after main() began\n", milliseconds_since(start));
    }
    return true;
  });
  std::printf("tokens: %.0f /s\n", 1000 * static_cast<double>(tokens.size() - 1) / milliseconds_since(first));
  std::ifstream in(std::filesystem::path(file).parent_path() / "expected_greedy.txt");
  const std::string expected{std::istreambuf_iterator<char>(in), {}};
  if (!expected.empty())
    std::printf("text: %s\n", model.tokenizer->decode(tokens) == expected ? "as expected" : "NOT as expected");
}

}  // namespace

int main(int argc, char** argv) {
  const auto start = Clock::now();
  cpu::with_threads(1, [&] {
    if (argc > 1) time_tokens(argv[1], start);
    std::printf("vectors: %s, gemm: %s\n", cpu::vector_target(), cpu::f32_kernels().c_str());
    web::Mlp mlp;
    time_steps("mlp", mlp);
    web::Cnn cnn;
    time_steps("cnn", cnn);
  });
}
