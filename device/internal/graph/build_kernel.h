#pragma once

#include <optional>
#include <span>

#include <etna/device/internal/graph/fusion_plan.h>

namespace etna::graph::fusion {

/// Which commands access the dropped storages.
class DroppedStorages {
 public:
  DroppedStorages(std::span<const Candidate> commands, std::span<const MemoryRange> dropped);
  /// True where the view is in such a storage and no command but the members accesses it. @param members sorted
  bool private_to(const StridedView& view, std::span<const std::uint32_t> members) const;

 private:
  std::size_t find(const MemoryRange& range) const;
  std::vector<MemoryRange> ranges_;
  std::vector<std::vector<std::uint32_t>> touched_by_;
};

/// A kernel that does what the members do one after another; the last may be a reduction. Empty where a member accesses
/// what another wrote at another position, or a limit is exceeded.
std::optional<Kernel> build_kernel(std::span<const Candidate> commands, std::span<const std::uint32_t> members,
                                   const DroppedStorages& dropped);

}  // namespace etna::graph::fusion
