#include <algorithm>
#include <exception>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/graph/schedule.h>
#include <etna/device/internal/vulkan/commands/command_queue.h>
#include <etna/device/internal/vulkan/commands/host_import.h>

// What the queue does with foreign work.
namespace etna::vulkan {
namespace {

constexpr std::size_t kMostRunning = 64;  ///< foreign works whose ranges are kept

}  // namespace

/// @param mark of the first piece
void CommandQueue::run_foreign(std::span<const GraphPiece> graph, std::uint64_t mark) {
  std::exception_ptr wrong;
  // Memory that ends with a work of before waits for the queue, and so for what is begun here.
  std::array<std::shared_ptr<ForeignWork>, gpu::kForeignPlaces> before = last_foreign_;
  for (const GraphPiece& piece : graph) {
    for (const gpu::ForeignCall& call : piece.behind) {
      const auto place = static_cast<std::size_t>(call.work->place());
      last_foreign_[place] = call.work;
      try {
        foreign_[place]->run(mark, call);
      } catch (...) {
        if (!wrong) wrong = std::current_exception();
      }
    }
    ++mark;
  }
  if (wrong) std::rethrow_exception(wrong);
}

void CommandQueue::foreign(const gpu::ForeignCall& call) {
  std::string why;
  ForeignQueue* queue = foreign_queue(call.work->place(), why);
  if (queue == nullptr) throw DeviceError(fmt::format("{}: {}", call.op, why));
  // Work of one place is done in order.
  const bool elsewhere = std::any_of(running_.begin(), running_.end(),
                                     [&](const RunningForeign& r) { return r.place != call.work->place(); });
  // What was submitted last may be what the work before waited for already.
  if (open_batch_ || elsewhere || submitted_ != foreign_mark_[static_cast<std::size_t>(call.work->place())])
    begin(QueueEntry::Kind::mark, call.op);
  if (elsewhere || running_.size() >= kMostRunning) wait_for_all_foreign();
  GraphPiece piece;
  piece.behind.push_back(call);
  running_.push_back({call.work->place(),
                      queue->queued() + 1,
                      {call.reads.begin(), call.reads.end()},
                      {call.writes.begin(), call.writes.end()}});
  if (open_batch_)
    submit({&piece, 1});
  else
    run_foreign({&piece, 1}, submitted_);
}

ForeignQueue* CommandQueue::foreign_queue(ForeignPlace place, std::string& why) {
  auto& queue = foreign_[static_cast<std::size_t>(place)];
  if (queue != nullptr) return queue.get();
  const auto adopt = [device = device_.device](const Buffer& buffer) { return adopt_device_memory(device, buffer); };
  queue = place == ForeignPlace::cuda ? make_cuda_queue(device_, segments_, adopt, why) : make_host_queue(device_);
  return queue.get();
}

/// The open batch begins once foreign work that conflicts with its newest command is done.
void CommandQueue::wait_for_foreign(std::span<const Range> reads, std::span<const Range> writes) {
  for (const RunningForeign& r : running_) {
    std::uint64_t& awaited = awaited_[static_cast<std::size_t>(r.place)];
    if (graph::conflict({reads, writes}, {r.reads, r.writes})) {
      foreign_[static_cast<std::size_t>(r.place)]->raise();
      awaited = std::max(awaited, r.done);
    }
  }
  std::erase_if(running_,
                [&](const RunningForeign& r) { return r.done <= awaited_[static_cast<std::size_t>(r.place)]; });
}

void CommandQueue::wait_for_all_foreign() {
  for (const RunningForeign& r : running_) {
    std::uint64_t& awaited = awaited_[static_cast<std::size_t>(r.place)];
    awaited = std::max(awaited, r.done);
    foreign_[static_cast<std::size_t>(r.place)]->raise();
  }
  running_.clear();
}

}  // namespace etna::vulkan
