#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "report.h"

/// What `compare` tells of its runs.
namespace wikitext {

/// The two runs on one device in one precision, one per mode.
struct Compared {
  etna::Device device;
  std::string precision;
  Summary eager, captured;
  nlohmann::json report = nlohmann::json::array();
  std::string amdahl = {};

  std::string name() const;  ///< "vulkan:0 bf16"
};

/// Largest |a - b| / |a| over the steps whose losses both runs read.
double largest_difference(const Summary& a, const Summary& b);

/// The first run is the yardstick of the others.
std::string table(const std::vector<Compared>& runs);
/// The captured runs' losses, step by step, side by side.
std::string losses(const std::vector<Compared>& runs);
/// One line.
std::string conclusion(const std::vector<Compared>& runs);
/// The table as an SVG picture.
std::string picture(const std::vector<Compared>& runs, const std::string& title);

}  // namespace wikitext
