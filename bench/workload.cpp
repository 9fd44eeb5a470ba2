#include "workload.h"

#include <fmt/format.h>

#include <etna/device/error.h>

namespace bench {
namespace {

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = {
      {"tiny", {.vocabulary = 33278, .context = 64, .width = 128, .layers = 2, .heads = 4, .feed_forward = 512}, 16},
      {"small", {.vocabulary = 33278, .context = 256, .width = 512, .layers = 6, .heads = 8, .feed_forward = 2048}, 32},
      {"gpt2",
       {.vocabulary = 50257, .context = 1024, .width = 768, .layers = 12, .heads = 12, .feed_forward = 3072},
       16},
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
