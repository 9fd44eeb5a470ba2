#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <etna/device/graph.h>
#include <etna/device/vulkan/api/types.h>

/// Records commands once to submit them many times. Does not include Vulkan's headers.
namespace etna::vulkan {

class Pipeline;

/// Commands of a step, gathered in place of the recorder (device/graph.h).
class Recording final : public GraphRecorder {
 public:
  explicit Recording(Device device, const GraphOptions& options = {});
  ~Recording() override;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// This thread's recording, or null.
  static Recording* current();
  void enter() override;
  void leave() override;

  Device device() const;
  StoragePtr allocate(std::size_t bytes) override;
  bool made(const Storage& storage) const override { return is_placeholder(storage.address()); }
  void pin(const StoragePtr& storage) override;
  std::size_t reserve_numbers(std::size_t bytes) override;
  const StoragePtr& numbers() const override;

  void dispatch(const Dispatch& dispatch, Pipeline& pipeline);
  void launch(const CubinDispatch& dispatch, void* function);
  void copy(std::uint64_t from, std::uint64_t to, std::size_t bytes);
  void fill(std::uint64_t to, std::size_t bytes, std::uint32_t word);
  /// Bytes that never change: written once, when the graph is compiled. @throws CaptureError for a storage from before
  /// the recording
  void constant(std::uint64_t to, const Arguments& rows);

  std::unique_ptr<Executable> compile() override;

  /// True for an address that a recording assigned and that never got memory.
  static bool is_placeholder(std::uint64_t address);

 private:
  StoragePtr allocate_placeholder(std::size_t bytes);

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace etna::vulkan
