#pragma once

#include <optional>
#include <span>

#include <etna/device/vulkan/graph/fusion/plan.h>

namespace etna::vulkan::fusion {

/// Who touches the storages that are dropped.
class DroppedStorages {
 public:
  DroppedStorages(std::span<const Candidate> commands, std::span<const Range> dropped);
  /// True where the walk lies in such a storage and no command but the members touches it. @param members sorted
  bool private_to(const StridedView& view, std::span<const std::uint32_t> members) const;

 private:
  std::size_t find(const Range& range) const;
  std::vector<Range> ranges_;
  std::vector<std::vector<std::uint32_t>> touched_by_;
};

/// The kernel that does what the members do one behind the other, the last of them perhaps a reduction; nothing where
/// one of them touches at another place what another wrote, or there is too much of something.
std::optional<Kernel> build_kernel(std::span<const Candidate> commands, std::span<const std::uint32_t> members,
                                   const DroppedStorages& dropped);

}  // namespace etna::vulkan::fusion
