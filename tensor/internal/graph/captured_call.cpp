#include <etna/tensor/internal/graph/captured_call.h>

#include <optional>

#include <etna/device/internal/counting.h>
#include <etna/device/profile/profiler.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/internal/detours.h>

namespace etna {
namespace {

/// Serves a kernel's own allocations from planned memory, in its scope.
class Workspace final : public AllocationHook {
 public:
  explicit Workspace(const std::vector<StoragePtr>& storages)
      : storages_(storages), before_(set_allocation_hook(this)) {}
  ~Workspace() override { set_allocation_hook(before_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  StoragePtr allocate(Device device, std::size_t bytes) override {
    if (!device.is_cpu() || next_ == storages_.size() || storages_[next_]->bytes() != bytes) return nullptr;
    return storages_[next_++];
  }

 private:
  const std::vector<StoragePtr>& storages_;
  std::size_t next_ = 0;
  AllocationHook* before_;
};

}  // namespace

void CapturedCall::operator()() {
  std::optional<Workspace> memory;
  if (!workspace.empty()) memory.emplace(workspace);
  capture_hooks::Running running(op->name);
  profile::Scope in_phase(phase, profile::Category::phase);
  profile::Scope scope(op->name, profile::Category::op);
  std::optional<counting::InReplay> replay;
  if (counting::on()) {
    replay.emplace();
    detail::count_cpu_kernel(op->name);
  }
  op->cpu({*op, in, attrs}, out);
}

}  // namespace etna
