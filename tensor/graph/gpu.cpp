#include <etna/device/backend.h>
#include <etna/device/graph.h>
#include <etna/device/profile/profiler.h>
#include <etna/tensor/graph/sessions.h>
#include <etna/tensor/recording.h>

/// Capture on a GPU. Ops launch their kernels as usual, but into the backend's recorder. None of them runs until the
/// graph is compiled.
namespace etna::recording {
namespace {

class GpuReplay final : public Replay {
 public:
  explicit GpuReplay(std::unique_ptr<gpu::Executable> executable) : executable_(std::move(executable)) {}
  void run(HostSteps& host) override { executable_->run(host.numbers()); }

 private:
  std::unique_ptr<gpu::Executable> executable_;
};

class GpuSession final : public Session {
 public:
  GpuSession(std::string name, Device device, std::unique_ptr<gpu::GraphRecorder> recorder)
      : Session(std::move(name), device), recorder_(std::move(recorder)) {}

  void enter() override {
    Session::enter();
    recorder_->enter();
  }
  void leave() override {
    recorder_->leave();
    Session::leave();
  }

  Tensor numbers(const Shape& shape, DType dtype, std::function<void(std::byte*)> fill) override {
    const std::size_t item = item_size(dtype), bytes = static_cast<std::size_t>(numel(shape)) * item;
    const std::size_t place = recorder_->reserve_numbers(bytes);
    host().add_numbers(place, bytes, std::move(fill));
    return detail::make_view(recorder_->numbers(), device(), dtype, shape, contiguous_strides(shape),
                             static_cast<std::int64_t>(place / item));
  }

  std::unique_ptr<Replay> finish(ProgramReport& report) override {
    for (const auto& [key, external] : externals()) recorder_->pin(external.storage);
    // The eager step left its memory in the cache; the plan allocates its own.
    empty_cache(device());
    std::unique_ptr<gpu::Executable> executable = recorder_->compile();
    const gpu::GraphFigures& f = executable->figures();
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
    report.state_bytes = host().numbers().size();
    return std::make_unique<GpuReplay>(std::move(executable));
  }

 private:
  StoragePtr place(std::size_t bytes) override { return recorder_->allocate(bytes); }
  bool made_here(const Storage& storage) const override { return recorder_->made(storage); }

  profile::KeepLabels labels_;  // replays may be profiled later
  std::unique_ptr<gpu::GraphRecorder> recorder_;
};

}  // namespace

std::unique_ptr<Session> make_gpu_session(std::string name, Device device, bool one_by_one) {
  std::unique_ptr<gpu::GraphRecorder> recorder = backend(device).record_graph(device, {.one_by_one = one_by_one});
  if (recorder == nullptr) return nullptr;
  return std::make_unique<GpuSession>(std::move(name), device, std::move(recorder));
}

}  // namespace etna::recording
