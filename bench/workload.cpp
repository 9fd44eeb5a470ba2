#include "workload.h"

#include <fmt/format.h>

#include <etna/device/error.h>

namespace bench {
namespace {

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = {
      {"tiny", {.layers = 2, .heads = 4, .dim = 128, .ffn = 512, .seq = 64, .vocab = 33278}, 16},
      {"small", {.layers = 6, .heads = 8, .dim = 512, .ffn = 2048, .seq = 256, .vocab = 33278}, 32},
      {"gpt2", {.layers = 12, .heads = 12, .dim = 768, .ffn = 3072, .seq = 1024, .vocab = 50257}, 16},
  };
  return all;
}

}  // namespace

Workload find_workload(std::string_view name) {
  for (const Workload& w : workloads()) {
    if (w.name == name) return w;
  }
  throw etna::Error(fmt::format("preset '{}' is none of {}", name, fmt::join(workload_names(), ", ")));
}

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const Workload& w : workloads()) names.push_back(w.name);
  return names;
}

}  // namespace bench
