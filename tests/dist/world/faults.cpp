#include <chrono>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include <unistd.h>

#include <etna/device/device.h>
#include <etna/device/memory_control.h>
#include <etna/dist/dist.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>
#include <etna/tensor/capture.h>
#include <models/small_models.h>

#include "world.h"

// Each ends the group, so each runs alone. What is thrown goes to standard error, for test_dist to read.
namespace etna {
namespace {

using distributed::rank, distributed::size;

/// Calls f until it throws; mpirun's SIGTERM comes meanwhile.
void report(const std::function<void()>& f) {
  std::signal(SIGTERM, SIG_IGN);
  const auto began = std::chrono::steady_clock::now();
  try {
    for (;;) f();
  } catch (const Error& error) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::fprintf(stderr, "rank %d after %.0f s: %s\n", rank(), seconds, error.what());
  }
}

TEST(Faults, KilledRank) {
  int calls = 0;
  report([&] {
    if (++calls == 20 && rank() == 1) ::kill(::getpid(), SIGKILL);
    distributed::all_reduce(ones({1000}));
  });
}

TEST(Faults, KilledFirstRank) {
  int calls = 0;
  report([&] {
    if (++calls == 20 && rank() == 0) ::kill(::getpid(), SIGKILL);
    distributed::all_reduce(ones({1000}));
  });
}

TEST(Faults, StoppedRank) {
  int calls = 0;
  report([&] {
    if (++calls == 20 && rank() == 1) ::kill(::getpid(), SIGSTOP);
    distributed::all_reduce(ones({1000}));
  });
}

TEST(Faults, StoppedFirstRank) {
  int calls = 0;
  report([&] {
    if (++calls == 20 && rank() == 0) ::kill(::getpid(), SIGSTOP);
    distributed::all_reduce(ones({1000}));
  });
}

TEST(Faults, LateRank) {
  int calls = 0;
  report([&] {
    if (++calls == 20 && rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(30));
    distributed::all_reduce(ones({1000}));
  });
}

/// A rank that ends while others wait within captured steps on a GPU.
TEST(Faults, KilledRankOfCapturedSteps) {
  const Device device = select_device("vulkan:0");
  auto step = capture([](const Tensor& x) { return distributed::all_reduce(x * 2.0); }, {.device = device});
  const Tensor x = ones({1000}, {f32, device});
  int calls = 0;
  report([&] {
    if (++calls == 20 && rank() == 1) ::kill(::getpid(), SIGKILL);
    step(x).to(kCPU);
  });
}

TEST(Faults, OtherShapesInCapturedSteps) {
  const Device device = select_device("vulkan:0");
  auto step = capture([](const Tensor& x) { return distributed::all_reduce(x * 2.0); }, {.device = device});
  const Tensor same = ones({4}, {f32, device}), other = ones({4 + rank()}, {f32, device});
  auto changed = capture([](const Tensor& a) { return distributed::all_reduce(a).slice(0, 0, 4); }, {.device = device});
  int calls = 0;
  report([&] {
    if (++calls < 5)
      step(same).to(kCPU);
    else
      changed(other).to(kCPU);
  });
}

TEST(Faults, RankThatLeaves) {
  int calls = 0;
  report([&] {
    if (++calls == 20 && rank() == 1) throw Error("this rank has enough");
    distributed::all_reduce(ones({1000}));
  });
}

TEST(Faults, OtherShapes) {
  report([&] { distributed::all_reduce(ones({rank() == 1 ? 5 : 4})); });
}

TEST(Faults, OtherDtypes) {
  report([&] { distributed::all_reduce(ones({4}, {rank() == 1 ? f64 : f32})); });
}

TEST(Faults, OtherOps) {
  report([&] { rank() == 1 ? distributed::all_gather(ones({4})) : distributed::all_reduce(ones({4})); });
}

TEST(Faults, OtherReductions) {
  report(
      [&] { distributed::all_reduce(ones({4}), rank() == 0 ? distributed::Reduce::max : distributed::Reduce::min); });
}

TEST(Faults, OtherRoots) {
  report([&] { distributed::broadcast(ones({4}), rank() == 0 ? 0 : 1); });
}

TEST(Faults, SendsToEachOther) {
  report([&] { distributed::send(ones({4}), 1 - rank()); });
}

TEST(Faults, SendAgainstACollective) {
  report([&] {
    if (rank() == 1)
      distributed::send(ones({4}), 0);
    else
      distributed::barrier();
  });
}

TEST(Faults, OneCollectiveFewer) {
  int calls = 0;
  report([&] {
    if (++calls == 3 && rank() == 1) distributed::all_reduce(ones({7}));
    distributed::all_reduce(ones({4}));
  });
}

TEST(Quiet, NothingIsWrong) { distributed::barrier(); }

/// One rank has less room for keys and values.
TEST(Faults, GeneratorThatDiffers) {
  std::signal(SIGTERM, SIG_IGN);
  const models::DecoderConfig config = models::small_config("llama");
  const auto part = models::decoder_of(config, models::small_model(config)->state_dict(), {.split = {rank(), size()}});
  models::Generator generator(*part, {.slots = 2, .cache = {.tokens = rank() == 0 ? 256 : 128}});
  try {
    if (rank() != 0) return generator.follow();
    generator.lead();
    for (int i = 0; i < 2; ++i) generator.begin(models::some_text(90, 97), {});
    while (generator.busy()) generator.step();
  } catch (const Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank(), error.what());
  }
}

/// One rank has memory for its part of the model, and not for a prompt.
TEST(Faults, GeneratorOutOfMemory) {
  std::signal(SIGTERM, SIG_IGN);
  models::DecoderConfig config = models::small_config("llama");
  config.feed_forward = 8192;
  const auto part = models::decoder_of(config, models::small_model(config)->state_dict(), {.split = {rank(), size()}});
  models::Generator generator(*part, {.slots = 2, .cache = {.tokens = 512}});
  trim_memory(kCPU);
  if (rank() == 1) ::setenv("ETNA_MEMORY_LIMIT", "1MiB", 1);  // what it has stays
  try {
    if (rank() != 0) return generator.follow();
    generator.lead();
    generator.begin(models::some_text(250, 97), {});
    while (generator.busy()) generator.step();
  } catch (const Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank(), error.what());
  }
}

}  // namespace
}  // namespace etna
