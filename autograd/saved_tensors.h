#pragma once

#include <any>
#include <functional>

#include <etna/tensor/tensor.h>

namespace etna::autograd {

/// While one lives, each tensor that a recorded op of this thread saves for backward is replaced by what `pack`
/// returns, and `unpack` makes it again when backward needs it: on the host, in a file, compressed. The innermost of
/// nested hooks applies. Tensors that a Context saves (custom()) stay as they are.
///     SavedTensorHooks on_disk([](const Tensor& x) { return std::any(write_file(x)); },
///                              [](const std::any& path) { return read_file(std::any_cast<Path>(path)); });
/// @param unpack returns a tensor of the same shape, dtype and device, else backward throws GradError
class SavedTensorHooks {
 public:
  using Pack = std::function<std::any(const Tensor&)>;
  using Unpack = std::function<Tensor(const std::any&)>;
  SavedTensorHooks(Pack pack, Unpack unpack);
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;

  /// The innermost of this thread; null: none.
  static const SavedTensorHooks* current();
  const Pack& pack() const { return pack_; }
  const Unpack& unpack() const { return unpack_; }

 private:
  Pack pack_;
  Unpack unpack_;
  const SavedTensorHooks* outer_;
};

/// Keeps what is saved for backward in host memory instead of the GPU's. Not in captured steps: a replay moves nothing
/// between devices.
class SaveOnCpu : public SavedTensorHooks {
 public:
  [[nodiscard]] SaveOnCpu();
};

}  // namespace etna::autograd
