#pragma once

#include <vector>

#include <etna/tensor/internal/fusion.h>

/// The patterns of all ops (FusionPattern).
namespace etna::fusion {

struct Pattern {
  /// How a call hangs on those before it.
  enum class Reads : std::uint8_t { last, last_reshaped, earlier, same };
  struct Step {
    std::vector<const OpDef*> ops;  ///< alternatives
    Reads reads = Reads::last;
  };

  const OpDef* fused;
  std::vector<Step> steps;
  bool (*fuse)(Calls calls, Fused& fused);

  bool begins_with(Calls calls) const;
};

/// Those that begin with an op.
std::span<const Pattern> patterns(const OpDef& op);
bool begins_any(Calls calls);

/// Whether ETNA_FUSE_LOG=1.
bool logs();
/// "fused: rms_norm, quantized_linear -> quantized_linear", or why not.
void log_fused(Calls calls, const Fused& fused);
void log_refused(Calls calls, const OpDef& fused, const char* why);

}  // namespace etna::fusion
