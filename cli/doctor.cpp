#include <fmt/core.h>
#include <fmt/ranges.h>

#include <etna/device/device.h>
#include <etna/device/memory.h>

#include "commands.h"
#include "output.h"

namespace etna::cli {

namespace {

/// Prints everything about each adapter and checks its matrix products. @returns 3 if a check fails.
int doctor() {
  Device chosen = select_device("auto");
  bool all_right = true;
  for (const AdapterInfo& a : adapters()) {
    fmt::print("{}: {}\n", a.device.str(), a.name);
    fmt::print("  kind      {}\n", a.kind);
    if (!a.driver.empty()) fmt::print("  driver    {}\n", a.driver);
    fmt::print("  memory    {}\n", readable_bytes(a.memory_bytes));
    if (!a.features.empty()) fmt::print("  features  {}\n", fmt::join(a.features, ", "));
    if (!a.limits.empty()) fmt::print("  limits    {}\n", fmt::join(a.limits, ", "));
    if (a.rejected.empty()) {
      std::string line;
      const bool right = check_matmul(a.device, line);
      all_right = all_right && right;
      fmt::print("  matmul    {}\n", line);
      if (a.device.is_cpu() && right) {
        for (const std::string& kernels : product_kernels()) fmt::print("  products  {}\n", kernels);
      }
    }
    fmt::print("  verdict   {}\n\n", verdict(a, chosen));
  }
  print_choice();
  return all_right ? 0 : 3;
}

struct DoctorOptions {
  bool benching = false, moltenvk = false, kernels = false;
  BenchOptions bench;
};

}  // namespace

Command add_doctor(CLI::App& app) {
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App* doctor =
      app.add_subcommand("doctor", "Show drivers, features and limits of every device and check its arithmetic");
  CLI::Option* bench = doctor->add_flag("--bench", options->benching,
                                        "instead measure what dispatches, barriers, submits, copies and products take");
  doctor
      ->add_option("--device", options->bench.devices,
                   "cpu, vulkan:N or auto, several by commas (default: all; of --bench, all but software rasterizers)")
      ->delimiter(',');
  add_output(*doctor, "--json", options->bench.json, "also write the figures to this file", options->bench.force);
  doctor
      ->add_flag("--kernels", options->kernels,
                 "instead show which kernels run for typical calls, and which ops have none on the device")
      ->excludes(bench);
  doctor
      ->add_flag("--moltenvk", options->moltenvk,
                 "instead compare what MoltenVK (macOS) offers with what kernels ask for")
      ->excludes(bench);
  doctor->add_flag("--quick", options->bench.quick, "small sizes and counts, to see that it works")->needs(bench);
  doctor->parse_complete_callback([doctor, options] {
    if (options->benching || options->kernels) return;
    for (const char* option : {"--device", "--json"})
      if (doctor->count(option) > 0) throw CLI::RequiresError(option, "--bench or --kernels");
  });
  return {doctor, [options] {
            if (options->moltenvk) return doctor_moltenvk();
            if (options->kernels)
              return doctor_kernels(options->bench.devices, options->bench.json, options->bench.force);
            return options->benching ? cli::bench(options->bench) : cli::doctor();
          }};
}

}  // namespace etna::cli
