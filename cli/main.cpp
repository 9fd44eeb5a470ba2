#include <cstdio>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <etna/device/error.h>

#include "commands.h"

/// Exit codes: 0 fine, 1 any other failure, 2 wrong usage, 3 a device that is missing, lost or wrong, 5 out of memory.
int main(int argc, char** argv) {
  CLI::App app{"What Etna can run on."};
  app.require_subcommand(1);
  app.add_subcommand("devices", "List every device, usable or not, and which one `auto` takes");
  app.add_subcommand("doctor", "Show drivers, features and limits of every device and check its arithmetic");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return app.got_subcommand("devices") ? etna::cli::devices() : etna::cli::doctor();
  } catch (const etna::DeviceError& error) {
    fmt::print(stderr, "etna: {}\n", error.what());
    return 3;
  } catch (const etna::OutOfMemory& error) {
    fmt::print(stderr, "etna: {}\n", error.what());
    return 5;
  } catch (const std::exception& error) {
    fmt::print(stderr, "etna: {}\n", error.what());
    return 1;
  }
}
