#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <etna/device/device.h>

namespace bench {

/// Adds --device NAME[,NAME...].
void add_device_option(CLI::App& app, std::vector<std::string>& names);

/// The named devices. Without names, the CPU and the device that ETNA_DEVICE, the config file or `auto` chooses. Prints
/// that choice to standard error. @throws etna::DeviceError
std::vector<etna::Device> chosen_devices(const std::vector<std::string>& names);

/// A software rasterizer: timed with few calls at a time, as one call may take seconds.
bool is_software(etna::Device device);

/// Adds --json FILE and --force, and before the work refuses to replace a file that no such program wrote.
/// @param mark text in the first 4 KB of every file that this program writes
void add_json_option(CLI::App& app, std::string& json, const std::string& mark);

/// Parses the arguments, then runs `body`. Exit codes: 1 any failure, 2 wrong usage, 3 device, 5 memory.
int run_program(CLI::App& app, int argc, char** argv, const std::function<void()>& body);

}  // namespace bench
