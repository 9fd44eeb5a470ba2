#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "demo.h"

// What a GPU is, what it computes, and from which size on it is faster than the CPU.
//     gpu_demo [DEVICE] [LARGEST]     e.g. gpu_demo vulkan:0 2048
namespace {

using namespace etna;

double gibibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

void facts(Device chosen) {
  for (const AdapterInfo& adapter : adapters()) {
    std::printf("%s%s: %s, %s, %.1f GiB\n", adapter.device == chosen ? "* " : "  ", adapter.device.str().c_str(),
                adapter.name.c_str(), adapter.kind.c_str(), gibibytes(adapter.memory_bytes));
    if (!adapter.rejected.empty()) std::printf("    not usable: %s\n", adapter.rejected.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const Device device = select_device(argc > 1 ? argv[1] : "auto");
  const std::int64_t largest = argc > 2 ? std::atoll(argv[2]) : 2048;
  if (largest < 64 || largest > 16384) {
    std::fprintf(stderr, "gpu_demo: LARGEST is %s; it must be 64 to 16384\n", argv[2]);
    return 2;
  }
  std::puts("Devices (* is the one in use):");
  facts(device);
  std::printf("\nOps on %s:\n", device.str().c_str());
  if (!tour(device)) return 1;
  if (device.is_cpu()) {
    std::puts("\nThere is no GPU to compare with.");
    return 0;
  }
  crossover(device, largest);
  const MemoryStats memory = memory_stats(device);
  std::printf("\nMemory of %s: at most %.2f GiB were in use.\n", device.str().c_str(), gibibytes(memory.peak));
  return 0;
} catch (const etna::Error& error) {
  std::fprintf(stderr, "gpu_demo: %s\n", error.what());
  return 3;
}
