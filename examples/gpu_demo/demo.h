#pragma once

#include <etna/etna.h>

/// Runs ops on `device` and prints their results. @return whether they agree with the CPU's
bool tour(etna::Device device);

/// Times ops by size on the CPU and on `device`, and tells from which size on the device is faster.
/// @param largest of the matrices' sides
void crossover(etna::Device device, std::int64_t largest);
