#pragma once

#include <optional>
#include <span>
#include <string_view>

#include <etna/tensor/ops/matmul/gemm/internal/gemm_params.h>

/// The choice among the kernels of a gemm on a GPU.
namespace etna::gemm {

/// Ordered from the most portable to the most specialized.
enum class KernelVariant { plain, coopmat, cubin };

/// As ETNA_GEMM and tables spell it: "coopmat".
const char* name(KernelVariant variant);
std::optional<KernelVariant> variant_named(std::string_view text);

struct Launcher {
  KernelVariant variant;
  bool (*launch)(const OpCall&, const GemmParams&);
};

/// The launchers in the order in which they are tried: the fastest first; the plain one last, since it supports
/// everything. ETNA_GEMM names the only variant to try before the plain one: plain, coopmat or cubin.
/// @throws Error if ETNA_GEMM has an unknown value
std::span<const Launcher> launchers();

/// The variant that Overrides::gemm_variant or ETNA_GEMM names.
std::optional<KernelVariant> requested_variant();

}  // namespace etna::gemm
