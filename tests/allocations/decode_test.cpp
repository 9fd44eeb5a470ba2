#include <stdlib.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include <etna/models/generator.h>
#include <nn/on_device.h>

#include "models/small_models.h"

// Counts what the whole process takes by operator new, so it is a program of its own.
namespace {
std::atomic<std::int64_t> taken{0}, given_back{0};

void* take(std::size_t bytes) {
  taken.fetch_add(1, std::memory_order_relaxed);
  if (void* at = std::malloc(bytes == 0 ? 1 : bytes)) return at;
  throw std::bad_alloc();
}
void give_back(void* at) {
  if (at != nullptr) given_back.fetch_add(1, std::memory_order_relaxed);
  std::free(at);
}

/// Layers between the program and the driver take objects of their own.
const int no_validation = setenv("ETNA_VALIDATION", "0", 1);
}  // namespace

void* operator new(std::size_t bytes) { return take(bytes); }
void* operator new[](std::size_t bytes) { return take(bytes); }
void operator delete(void* at) noexcept { give_back(at); }
void operator delete[](void* at) noexcept { give_back(at); }
void operator delete(void* at, std::size_t) noexcept { give_back(at); }
void operator delete[](void* at, std::size_t) noexcept { give_back(at); }

namespace etna::models {
namespace {

constexpr int kSteps = 40;

class DecodeAllocations : public OnDevice {};

/// Tensors take no memory (Generator.DecodingAllocatesNothing). The host's small objects are few, all go again, and on
/// a GPU, which replays captured commands, they do not depend on the model. On the CPU an op makes handles of tensors.
TEST_P(DecodeAllocations, AreFewSmallObjects) {
  const auto per_step = [](std::int64_t layers) {
    DecoderConfig config = small_config("llama");
    config.layers = layers;
    const auto model = small_model(config);
    model->to(GetParam());
    Generator generator(*model, {.device = GetParam()});
    generator.join(some_text(3, 97), {.max_tokens = 60, .sampling = {.temperature = 0}});
    for (int i = 0; i < 8; ++i) generator.step();  // compiles and captures
    const std::int64_t before = taken, live = taken - given_back;
    for (int i = 0; i < kSteps; ++i) generator.step();
    EXPECT_LE(taken - given_back, live + 8) << "besides the text itself";
    return static_cast<double>(taken - before) / kSteps;
  };
  const double two = per_step(2), six = per_step(6);
  std::printf("%.2f objects a step with 2 layers, %.2f with 6\n", two, six);
  const double of_a_layer = GetParam().is_cpu() ? 26 : 0;
  EXPECT_EQ(no_validation, 0);
  EXPECT_LE(two, 8 + 2 * of_a_layer);
  EXPECT_LE(six, 8 + 6 * of_a_layer);
}

ETNA_ON_EVERY_DEVICE(DecodeAllocations);

}  // namespace
}  // namespace etna::models
