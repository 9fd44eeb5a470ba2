#include <etna/device/profile/profiler.h>
#include <etna/device/vulkan/graph/recording.h>
#include <etna/tensor/graph/session.h>

/// Capture on a GPU: ops record their dispatches as ever, but into a vulkan::Recording; none runs until it is baked.
namespace etna::recording {
namespace {

class VulkanReplay final : public Replay {
 public:
  VulkanReplay(std::unique_ptr<vulkan::Executable> executable, std::size_t state_bytes)
      : executable_(std::move(executable)), state_bytes_(state_bytes) {}
  void run(HostSteps& host) override { executable_->run(host.state(state_bytes_)); }

 private:
  std::unique_ptr<vulkan::Executable> executable_;
  std::size_t state_bytes_;
};

class VulkanSession final : public Session {
 public:
  VulkanSession(std::string name, Device device, bool one_by_one)
      : Session(std::move(name), device), recording_(device, one_by_one) {}

  void enter() override {
    Session::enter();
    vulkan::Recording::set_current(&recording_);
  }
  void leave() override {
    vulkan::Recording::set_current(nullptr);
    Session::leave();
  }

  std::uint64_t state_address(const Attrs& attrs, std::size_t bytes, HostSteps::Write write) override {
    if (const HostSteps::Slot* slot = host().find_slot(attrs, write)) return recording_.state_address(slot->place);
    const std::size_t place = recording_.reserve_state(bytes);
    host().add_slot(attrs, write, place, bytes);
    return recording_.state_address(place);
  }

  std::unique_ptr<Replay> finish(ProgramReport& report) override {
    for (const auto& [key, external] : externals()) recording_.pin(external.storage);
    // The eager step left its memory in the cache; the plan is laid out anew.
    empty_cache(device());
    std::unique_ptr<vulkan::Executable> executable = recording_.bake();
    const vulkan::RecordingFigures& f = executable->figures();
    report.commands = f.dispatches + f.transfers;
    report.fused_commands = f.fused_commands;
    report.fused_kernels = f.fused_kernels;
    report.compiled_kernels = f.compiled_kernels;
    report.compile_ms = f.compile_ms;
    report.fused_bytes = f.fused_bytes;
    report.groups = f.groups;
    report.barriers_in_order = f.barriers_in_order;
    report.barriers = f.barriers;
    report.planned_bytes = f.planned_bytes;
    report.live_bytes = f.live_bytes;
    report.naive_bytes = f.naive_bytes;
    report.kept_bytes = f.kept_bytes;
    report.constant_bytes = f.constant_bytes;
    report.state_bytes = recording_.state_bytes();
    return std::make_unique<VulkanReplay>(std::move(executable), recording_.state_bytes());
  }

 private:
  StoragePtr place(std::size_t bytes) override { return recording_.allocate(bytes); }
  bool made_here(const Storage& storage) const override { return vulkan::Recording::is_placeholder(storage.address()); }

  profile::KeepLabels labels_;  // replays may be profiled later
  vulkan::Recording recording_;
};

}  // namespace

std::unique_ptr<Session> make_vulkan_session(std::string name, Device device, bool one_by_one) {
  return std::make_unique<VulkanSession>(std::move(name), device, one_by_one);
}

}  // namespace etna::recording
