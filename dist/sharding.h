#pragma once

#include <cstdint>

#include <etna/device/memory.h>
#include <etna/tensor/tensor.h>

namespace etna::distributed {

/// Which elements of each parameter this rank keeps and steps, where the ranks divide optimizer state, gradients or
/// parameters among them (Rajbhandari et al. 2020, "ZeRO"). DataParallel::sharding() gives one;
/// optim::Optimizer::shard() takes it.
class Sharding {
 public:
  virtual ~Sharding() = default;

  /// Elements begin ... end - 1 of a parameter, in row-major order.
  struct Range {
    std::int64_t begin = 0, end = 0;
    std::int64_t size() const { return end - begin; }
  };

  virtual bool contains(const Tensor& parameter) const = 0;
  // ---- of a parameter that it contains

  /// The whole shape: a parameter that is not gathered has none.
  virtual Shape shape(const Tensor& parameter) const = 0;
  /// What a rank keeps; may be empty.
  virtual Range range(const Tensor& parameter, int rank) const = 0;
  /// This rank's elements: 1-d, contiguous, the same tensor in each call. Its grad() is the mean over all ranks, unless
  /// gradients are whole.
  virtual Tensor part(const Tensor& parameter) const = 0;

  /// Whether each rank has the whole mean gradient of each parameter in its grad().
  virtual bool has_whole_gradients() const = 0;
  /// After a step changed the parts: gives them to the ranks that need them. All ranks call it.
  virtual void stepped() = 0;
};

/// Of a parameter whose elements are divided among the ranks (ZeRO stage 3) and not here now: its shape is [0].
bool is_divided(const Tensor& parameter);
/// The storage of these.
StoragePtr divided_storage(Device device);

/// Whether backward() leaves this parameter without a grad(), because the ranks divide gradients (ZeRO stages 2 and 3).
bool has_divided_gradient(const Tensor& parameter);
/// For who divides them.
void note_divided_gradient(const Tensor& parameter, bool divided);

/// The gradient of a rank's part of a parameter, 1-d; undefined if there is none.
Tensor gradient_of_part(const Sharding& sharding, const Tensor& parameter);

/// Collects a whole tensor from the ranks' parts. All ranks call it. @param part of the parameter's size on this rank,
/// or of a tensor divided in the same way, as optimizer state is
/// @return on rank 0: of the whole shape, on the CPU; undefined elsewhere
Tensor gather_parts(const Sharding& sharding, const Tensor& parameter, const Tensor& part);

}  // namespace etna::distributed
