#pragma once

#include <nlohmann/json.hpp>

#include <etna/device/device.h>
#include <etna/device/transfers.h>

#include "train.h"

namespace wikitext {

/// One run as JSON: model, device, speed, quality, memory and transfers.
nlohmann::json report(const History& history, const std::string& preset, const etna::nn::LanguageModel& model,
                      etna::Device device, const etna::Transfers& training_transfers);

/// Seconds per epoch: the median of the measured epochs, or else steps per epoch × the median step.
double epoch_seconds(const History& history);

/// 12,345,678
std::string with_commas(std::int64_t number);

}  // namespace wikitext
