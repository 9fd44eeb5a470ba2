#pragma once

/// Checks of logits whose values are read elsewhere. Internal.
namespace etna::models {

/// As check_logits(). @param least, most of all logits @param several whether there is more than one token
/// @throws SuspiciousWeights
void check_logits_range(double least, double most, bool several, const char* text);

}  // namespace etna::models
