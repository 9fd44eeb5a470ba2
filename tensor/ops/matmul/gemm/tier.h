#pragma once

#include <optional>
#include <span>

#include <etna/tensor/ops/matmul/gemm/problem.h>

/// Which kernels a product on a GPU may run on.
namespace etna::product {

/// From the one that runs everywhere to the most special.
enum class Tier { plain, coopmat, coopmat2, cubin };

struct Launcher {
  Tier tier;
  bool (*launch)(const OpCall&, const Problem&);
};

/// In the order in which they are asked: the fastest first, the plain one last, since it takes everything. ETNA_GEMM names the one
/// tier that is asked before the plain one: plain, coopmat, coopmat2 or cubin.
/// @throws Error where ETNA_GEMM holds another word
std::span<const Launcher> launchers();

/// Those that are slower than others on the devices we know, and are asked where a table that was measured on another says so.
std::span<const Launcher> launchers_by_name();

/// The tier that ETNA_GEMM or a ForcedTier names.
std::optional<Tier> asked_for();

/// The same for a scope, whatever ETNA_GEMM says. For tests and tuning; for one thread.
class ForcedTier {
 public:
  explicit ForcedTier(Tier tier);
  ~ForcedTier();
  ForcedTier(const ForcedTier&) = delete;
  ForcedTier& operator=(const ForcedTier&) = delete;

 private:
  int before_;
};

}  // namespace etna::product
