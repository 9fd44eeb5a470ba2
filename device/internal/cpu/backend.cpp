#include <etna/device/internal/cpu/backend.h>

#include <cstring>

#include <fmt/format.h>

#include <etna/device/internal/cpu/memory.h>
#include <etna/device/internal/cpu/processor.h>
#include <etna/device/internal/graph/graph.h>

namespace etna::cpu {
namespace {

/// Runs a graph's calls in order. Each call splits its own work over the threads.
class Calls final : public Executable {
 public:
  explicit Calls(const Graph& graph) : graph_(graph) {}
  void run(std::span<const std::byte>) override {
    for (const graph::Command& c : graph_.list().commands) std::get<graph::CallCommand>(c.work).run();
  }

 private:
  const Graph& graph_;
};

class CpuBackend final : public Backend {
 public:
  const char* name() const override { return "cpu"; }

  const std::vector<AdapterInfo>& adapters() override {
    static const std::vector<AdapterInfo> one = [] {
      AdapterInfo host;
      host.device = kCPU;
      host.name = model_name();
      host.kind = "cpu";
      host.memory_bytes = memory_bytes();
      host.features = features();
      host.limits = {fmt::format("{} threads", threads())};
      return std::vector{host};
    }();
    return one;
  }

  CachingAllocator& allocator(Device) override { return cpu::allocator(); }
  void upload(Device, const void* source, std::uint64_t address, std::size_t bytes) override {
    std::memcpy(reinterpret_cast<void*>(address), source, bytes);
  }
  void download(Device, std::uint64_t address, void* target, std::size_t bytes) override {
    std::memcpy(target, reinterpret_cast<const void*>(address), bytes);
  }
  void copy(Device, const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset,
            std::size_t bytes) override {
    std::memmove(to.host() + to_offset, from.host() + from_offset, bytes);
  }

  GraphForm graph_form() const override { return GraphForm::calls; }
  std::unique_ptr<Executable> compile(Graph& graph) override {
    graph.plan();
    return std::make_unique<Calls>(graph);
  }
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace etna::cpu
