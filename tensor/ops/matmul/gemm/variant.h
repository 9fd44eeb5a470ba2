#pragma once

#include <optional>
#include <span>
#include <string_view>

#include <etna/tensor/ops/matmul/gemm/gemm_params.h>

/// Which kernels a gemm on a GPU may run on.
namespace etna::gemm {

/// From the one that runs everywhere to the most special.
enum class KernelVariant { plain, coopmat, cubin };

/// As ETNA_GEMM and tables spell it: "coopmat".
const char* name(KernelVariant variant);
std::optional<KernelVariant> variant_named(std::string_view text);

struct Launcher {
  KernelVariant variant;
  bool (*launch)(const OpCall&, const GemmParams&);
};

/// In the order in which they are asked: the fastest first, the plain one last, since it takes everything. ETNA_GEMM
/// names the one variant that is asked before the plain one: plain, coopmat or cubin.
/// @throws Error where ETNA_GEMM holds another word
std::span<const Launcher> launchers();

/// The variant that ETNA_GEMM or a ForcedVariant names.
std::optional<KernelVariant> requested_variant();

/// The same for a scope, whatever ETNA_GEMM says. For tests and tuning; for one thread.
class ForcedVariant {
 public:
  explicit ForcedVariant(KernelVariant variant);
  ~ForcedVariant();
  ForcedVariant(const ForcedVariant&) = delete;
  ForcedVariant& operator=(const ForcedVariant&) = delete;

 private:
  int before_;
};

}  // namespace etna::gemm
