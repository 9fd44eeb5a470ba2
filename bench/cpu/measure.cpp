#include "measure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include <etna/device/memory.h>
#include <etna/tensor/capture.h>

namespace bench {

using namespace etna;

namespace {

using Clock = std::chrono::steady_clock;

/// Most seconds for all repeats of one op; slower ops are repeated less often.
constexpr double kPatience = 8;

double seconds_of(const std::function<void()>& call, int calls) {
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double>(Clock::now() - start).count() / calls;
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string output;
  std::array<char, 1024> buffer;
  while (std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
  return pclose(pipe) == 0 ? output : std::string();
}

}  // namespace

double seconds_on_cpu(Device device, const std::function<void()>& call, const Effort& effort, double* spread,
                      bool captured) {
  auto program = capture([&] { call(); }, {.device = device, .name = "benchmark"});
  const std::function<void()> once_more = captured ? std::function<void()>([&] { program(); }) : call;
  once_more();  // warms up the allocator's cache
  if (captured) once_more();
  double once = seconds_of(once_more, 1);
  if (!effort.quick) {
    const auto start = Clock::now();
    while (std::chrono::duration<double>(Clock::now() - start).count() < effort.warm_up)
      once = seconds_of(once_more, 1);
  }
  const int calls = effort.quick ? 1 : static_cast<int>(std::clamp(effort.seconds / once, 1.0, 1e5));
  const int repeats =
      effort.quick ? 1 : std::clamp(static_cast<int>(kPatience / (once * calls)), 1, std::max(1, effort.repeats));
  std::vector<double> runs;
  for (int i = 0; i < repeats; ++i) runs.push_back(seconds_of(once_more, calls));
  std::sort(runs.begin(), runs.end());
  const double median = runs[runs.size() / 2];
  if (spread != nullptr) *spread = (runs.back() - runs.front()) / median;
  return median;
}

Peers::Peers(const Effort& effort) : effort_(effort) {
  std::error_code unknown;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  const std::filesystem::path program = self.parent_path() / "peer_products";
  if (!unknown && std::filesystem::exists(program)) program_ = program.string();
}

const PeerSeconds& Peers::of(const GemmSizes& p) {
  auto [found, first] = known_.try_emplace(p);
  if (!first || program_.empty()) return found->second;
  std::istringstream lines(
      output_of(fmt::format("'{}' {} {} {}{}{} --seconds {} --repeats {}", program_, p.m, p.n, p.k,
                            p.transpose_a ? " --transpose-a" : "", p.transpose_b ? " --transpose-b" : "",
                            effort_.quick ? 0 : effort_.seconds, effort_.quick ? 1 : effort_.repeats)));
  std::string library, seconds;
  while (std::getline(lines, library, '\t') && std::getline(lines, seconds)) {
    found->second[library] = std::stod(seconds);
  }
  return found->second;
}

}  // namespace bench
