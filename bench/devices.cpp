#include "devices.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/output_file.h>

namespace bench {

using namespace etna;

void add_device_option(CLI::App& app, std::vector<std::string>& names) {
  app.add_option("--device", names,
                 "cpu, vulkan:N or auto, several by commas (default: $ETNA_DEVICE, else auto, and the CPU)")
      ->delimiter(',');
}

void add_json_option(CLI::App& app, std::string& json, const std::string& mark) {
  app.add_option("--json", json, std::string("also write the figures to this file") + io::kReplacesOnlyOwn);
  const CLI::Option* force = app.add_flag("--force")->description("replace files of outputs that something else wrote");
  app.parse_complete_callback([force, mark, &json] {
    io::require_output({"--json", json, {mark}}, force->count() > 0);
  });
}

std::vector<Device> chosen_devices(const std::vector<std::string>& names) {
  std::vector<Device> devices;
  auto add = [&](Device device) {
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
  };
  for (const std::string& name : names.empty() ? std::vector<std::string>{""} : names) {
    Device device = select_device(name);
    fmt::print(stderr, "{}\n", device_line(name, device));
    add(device);
  }
  if (names.empty()) add(kCPU);
  return devices;
}

bool is_software(Device device) {
  for (const AdapterInfo& adapter : adapters()) {
    if (adapter.device == device) return adapter.kind == "software";
  }
  return false;
}

int run_program(CLI::App& app, int argc, char** argv, const std::function<void()>& body) {
  auto failed = [](int code, const char* what) {
    fmt::print(stderr, "error: {}\n", what);
    return code;
  };
  try {
    app.parse(argc, argv);
    body();
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const DeviceError& error) {
    return failed(3, error.what());
  } catch (const OutOfMemory& error) {
    return failed(5, error.what());
  } catch (const std::bad_alloc&) {
    return failed(5, "the host has no memory left; try a smaller --preset or --batch");
  } catch (const std::exception& error) {
    return failed(1, error.what());
  }
}

}  // namespace bench
