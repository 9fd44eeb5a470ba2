#include <set>

#include <fmt/format.h>

#include <etna/device/error.h>

#include "devices.h"
#include "measure.h"

using namespace etna;

// Times layers as PyTorch users meet them: forward, and forward with backward. Rows of two libraries with the same name
// may be put side by side.
int main(int argc, char** argv) {
  CLI::App app("Times convolutions, recurrent layers, sorting, mixtures of experts and a small CNN");
  std::vector<std::string> devices, groups = {"conv", "lstm", "sort", "attention", "prompt", "experts", "cnn"},
                                    dtypes = {"f32", "bf16"};
  std::string mode = "eager", only;
  bench::add_device_option(app, devices);
  app.add_option("--groups", groups, "of conv, lstm, sort, attention, prompt, experts, cnn")
      ->delimiter(',')
      ->check(CLI::IsMember({"conv", "lstm", "sort", "attention", "prompt", "experts", "cnn"}));
  app.add_option("--dtypes", dtypes, "of f32, bf16")->delimiter(',')->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--mode", mode, "eager or captured")->check(CLI::IsMember({"eager", "captured"}));
  app.add_option("--only", only, "part of the names of the rows to time");
  return bench::run_program(app, argc, argv, [&] {
    const std::set<std::string> wanted(groups.begin(), groups.end());
    for (Device device : bench::chosen_devices(devices)) {
      for (const std::string& dtype : dtypes) {
        const bench::Setting setting{device, dtype == "f32" ? f32 : bf16, mode == "captured",
                                     device.is_cpu() || bench::is_software(device) ? 3 : 20, only};
        const bench::Print print = [](const bench::Row& row) {
          if (row.forward_ms == 0) return;
          fmt::print("{:10} {:44} {:5} {:9.4f}", row.group, row.name, name(row.dtype), row.forward_ms);
          if (row.both_ms > 0) fmt::print(" {:9.4f}", row.both_ms);
          fmt::print("\n");
          std::fflush(stdout);
        };
        if (wanted.contains("conv")) bench::convolutions(setting, print);
        if (wanted.contains("lstm")) bench::recurrent(setting, print);
        if (wanted.contains("sort")) bench::sorting(setting, print);
        if (wanted.contains("attention")) bench::attentions(setting, print);
        if (wanted.contains("prompt")) bench::prompts(setting, print);
        if (wanted.contains("experts")) bench::mixtures(setting, print);
        if (wanted.contains("cnn")) bench::small_cnn(setting, print);
      }
    }
  });
}
