#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include <etna/tensor/op.h>

/// What tests and benchmarks choose in the place of ops, which choose by the device and by sizes.
namespace etna {

namespace attention {
enum class KernelVariant;
}
namespace gemm {
enum class KernelVariant;
class ForcedConfig;
}  // namespace gemm

struct Overrides {
  bool fuse_calls = true;    ///< consecutive calls of ops are fused (fusion.h)
  bool compose_ops = false;  ///< ops that have a reference run it instead of their kernels, and no calls are fused
  const std::function<void(const OpDef&)>* on_op = nullptr;  ///< called with every op that runs

  std::optional<gemm::KernelVariant> gemm_variant = {};            ///< as by ETNA_GEMM
  gemm::ForcedConfig* gemm_config = nullptr;                       ///< set by a gemm::ForcedConfig
  std::optional<attention::KernelVariant> attention_variant = {};  ///< as by ETNA_ATTENTION
  bool split_heads = false;                      ///< each head of queries of paged_attention is a workgroup of its own
  bool split_keys = false;                       ///< each block of keys of a prompt's paged_attention is a chunk
  std::int64_t convolution_scratch = 128 << 20;  ///< bytes of patches that a convolution on a GPU makes at once

  bool quantized_activations = true;  ///< quantized_linear on a GPU reads few rows in bytes or 16 bits where it can
  bool subgroups = true;              ///< it adds up by subgroup operations where it can
  bool sixteen_bits = false;          ///< it rounds to f16 and bf16 as where there are matrix units
  std::int64_t decoded_at_once = 1 << 27;  ///< elements of a weight that it decodes for one gemm
};

/// Those of this thread.
const Overrides& overrides();

namespace detail {
/// Those of this thread, to be changed: first runs the calls held back, which were made under these.
Overrides& changeable_overrides();
}  // namespace detail

/// Sets one of them in a scope, for the calls of ops made in it: `const Override scope(&Overrides::subgroups, false);`
template <typename T>
class Override {
 public:
  explicit Override(T Overrides::*field, std::type_identity_t<T> value)
      : field_(field), before_(std::exchange(detail::changeable_overrides().*field, std::move(value))) {}
  ~Override() { detail::changeable_overrides().*field_ = std::move(before_); }
  Override(const Override&) = delete;
  Override& operator=(const Override&) = delete;

 private:
  T Overrides::*field_;
  T before_;
};

}  // namespace etna
