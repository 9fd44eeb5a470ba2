#pragma once

#include <cstdint>
#include <optional>

/// What tests choose in the place of ops, which choose by the device and by sizes.
namespace etna {

struct Overrides {
  bool quantized_activations = true;  ///< quantized_linear on a GPU reads few rows in bytes or 16 bits where it can
  bool subgroups = true;              ///< it adds up by subgroup operations where it can
  bool sixteen_bits = false;          ///< it rounds to f16 and bf16 as where there are matrix units
  std::int64_t decoded_at_once = 1 << 27;        ///< elements of a weight that it decodes for one gemm
  bool split_heads = false;                      ///< each head of queries of paged_attention is a workgroup of its own
  std::int64_t convolution_scratch = 128 << 20;  ///< bytes of patches that a convolution on a GPU makes at once
  std::optional<int> attention_variant = {};     ///< attention::KernelVariant, as by ETNA_ATTENTION
};

/// Those of this thread.
const Overrides& overrides();

/// Sets one of them in a scope, for the calls of ops made in it: `const Override scope(&Overrides::subgroups, false);`
template <typename T>
class Override {
 public:
  explicit Override(T Overrides::*field, T value);
  ~Override();
  Override(const Override&) = delete;
  Override& operator=(const Override&) = delete;

 private:
  T Overrides::*field_;
  T before_;
};

}  // namespace etna
