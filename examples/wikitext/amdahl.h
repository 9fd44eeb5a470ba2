#pragma once

#include <string>

#include <etna/device/profile/summary.h>

namespace wikitext {

/// Where a step's time goes, and the speedup from a device that did only the matrix products, and those in no time
/// (Amdahl 1967). Empty if the profile has no steps.
///     matrix products 65.5 %, cross_entropy 10.7 %, layer_norm 4.9 %, other ops 15.4 %, idle 3.5 %; without the
///     products a step would still take 0.54 ms: no more than 2.9 x is to be had there
std::string amdahl_line(const etna::profile::Summary& summary);

}  // namespace wikitext
