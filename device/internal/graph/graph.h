#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <etna/device/capture_report.h>
#include <etna/device/internal/backend.h>
#include <etna/device/internal/command_sink.h>
#include <etna/device/internal/graph/command_list.h>
#include <etna/device/internal/graph/storages.h>

/// The work of a step, captured once and run many times: what capture asks of every kind of device.
namespace etna {

namespace counting {
struct Row;
}
namespace graph::fusion {
class KernelWriter;
}

struct GraphOptions {
  bool one_by_one = false;  ///< each command forms its own group; always so for calls
  /// Planned memory, of graphs that never run beside each other: each takes what is there, and adds what it lacks.
  std::vector<StoragePtr>* shared = nullptr;
};

/// What a backend tells a graph that it compiles.
struct GraphTarget {
  std::size_t largest_chunk = ~std::size_t{0};     ///< limit for one allocation of planned memory
  graph::fusion::KernelWriter* kernels = nullptr;  ///< null: nothing is fused
};

/// Typed commands in order, with the ranges of memory that each reads and writes; the storages made meanwhile; tables
/// that never change, and the block of numbers that the host writes before each run.
///
/// Capture: storages come from storages().allocate(). In the form of commands, nothing runs: what the thread that
/// entered the graph queues on its device (device/kernel.h) becomes a command. In the form of calls, ops run as they
/// are captured, and call() notes them. Then Backend::compile() plans the graph and makes an Executable of it.
class Graph final : public gpu::CommandSink {
 public:
  /// The form is what the device's backend states (Backend::graph_form()).
  explicit Graph(Device device, const GraphOptions& options = {});
  ~Graph() override;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Between these the graph takes this thread's commands. In the form of calls they do nothing.
  void enter();
  void leave();

  Device device() const override { return device_; }
  GraphForm form() const { return form_; }
  graph::Storages& storages() { return storages_; }
  const graph::Storages& storages() const { return storages_; }

  /// ---- capture. Spans need to live until the function returns.
  /// @param run calls the kernel, on proxies of storages that the graph made
  void call(std::string_view op, std::function<void()> run, std::span<const MemoryRange> reads,
            std::span<const MemoryRange> writes);
  void dispatch(const gpu::Dispatch& dispatch) override;
  void dispatch(const gpu::CubinDispatch& dispatch) override;
  void copy(std::uint64_t from, std::uint64_t to, std::size_t bytes) override;
  void fill(std::uint64_t to, std::size_t bytes, std::uint32_t word) override;
  void foreign(const gpu::ForeignCall& call) override;
  /// Bytes that never change. @throws CaptureError for a storage from before the capture
  void update(std::uint64_t to, const Arguments& rows) override { storages_.set_constant(to, rows); }

  /// ---- compiling, by the backend. Fuses, groups, plans memory, allocates it and relocates addresses. Ends the
  /// capture: the graph must not be entered again. @throws OutOfMemory, CaptureError where a command touches memory
  /// of an unknown storage
  void plan(const GraphTarget& target = {});
  /// In the order of their groups, on memory that the graph owns.
  const graph::CommandList& list() const { return list_; }
  /// The block of numbers, null without one.
  const StoragePtr& numbers() const { return storages_.numbers(); }

  /// Somebody counts kernels (counting.h), and the graph is run now. Calls count themselves.
  void count_run();

  /// Complete once the graph is planned, but for what only the step knows: names, arguments, times.
  const CaptureReport& report() const { return report_; }
  CaptureReport& report() { return report_; }

 private:
  graph::Command& add(std::string_view op, std::span<const MemoryRange> reads, std::span<const MemoryRange> writes);
  void fuse(graph::fusion::KernelWriter& kernels);
  void place_copied();
  void group();
  void let_foreign_run();
  void relocate();

  Device device_;
  GraphForm form_;
  GraphOptions options_;
  graph::CommandList list_;
  graph::Storages storages_;
  CaptureReport report_;

  /// What one run adds to a row of the table of counts.
  struct CountedRow {
    counting::Row* row = nullptr;
    std::uint64_t runs = 0, launches = 0;
  };
  std::vector<CountedRow> counted_;  ///< once a run was counted
};

}  // namespace etna
