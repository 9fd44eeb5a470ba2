#include "ceilings.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/autograd/autograd.h>
#include <etna/device/error.h>
#include <etna/device/memory.h>

#include "devices.h"

namespace bench {

using namespace etna;

namespace {

DType dtype_of(const std::string& name) {
  if (name.ends_with("/bf16")) return bf16;
  return name.ends_with("/f16") ? f16 : f32;
}

}  // namespace

Ceilings measure_ceilings(Device device, const Effort& effort, const CeilingSizes& sizes, const Timer& timer) {
  Ceilings ceilings;
  NoGrad no_grad;
  {
    const Tensor from = ones({sizes.copied}, {f32, device});
    Tensor to = empty({sizes.copied}, {f32, device});
    ceilings.bytes = 8 * static_cast<double>(sizes.copied) /
                     timer(
                         device, [&] { to.copy_(from); }, effort, nullptr, false);
  }
  const auto side = static_cast<double>(sizes.side);
  for (DType t : {f32, f16, bf16}) {
    const Tensor a = normal({sizes.side, sizes.side}, device, t), b = normal({sizes.side, sizes.side}, device, t);
    ceilings.flops[t] = 2 * side * side * side /
                        timer(
                            device, [&] { matmul(a, b); }, effort, nullptr, false);
  }
  empty_cache(device);
  return ceilings;
}

Timing time_case(const Case& what, Device device, const Ceilings& ceilings, const Effort& effort, const Timer& timer) {
  Timing t{.name = what.name};
  try {
    t.seconds = timer(device, what.prepare(device), effort, &t.spread, what.captured);
    t.bytes = what.bytes / t.seconds;
    t.flops = what.flops / t.seconds;
    const double by_bytes = t.bytes / ceilings.bytes, by_flops = t.flops / ceilings.flops.at(dtype_of(what.name));
    t.by_flops = by_flops > by_bytes;
    t.share = std::max(by_bytes, by_flops);
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    t.error = error.what();
  }
  empty_cache(device);
  return t;
}

void add_options(CLI::App& app, Wanted& wanted) {
  add_device_option(app, wanted.devices);
  app.add_option("--preset", wanted.presets, "whose sizes, several by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(workload_names()))
      ->capture_default_str();
  app.add_option("--filter", wanted.filter, "only ops whose name this regular expression finds");
  app.add_option("--repeats", wanted.effort.repeats, "of which the median counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--quick", wanted.effort.quick, "each once: shows that it works, the figures mean little");
  add_json_option(app, wanted.json, "\"product_gflops\"");
}

Cases chosen_cases(const Wanted& wanted) {
  std::regex pattern;
  try {
    pattern.assign(wanted.filter);
  } catch (const std::regex_error&) {
    throw CLI::ValidationError("--filter", "no regular expression: " + wanted.filter);
  }
  Cases chosen;
  for (const std::string& preset : wanted.presets) {
    for (Case& c : all_cases(find_workload(preset))) {
      if (!std::regex_search(c.name, pattern)) continue;
      c.name = fmt::format("{}/{}", preset, c.name);
      chosen.push_back(std::move(c));
    }
  }
  if (chosen.empty()) {
    throw CLI::ValidationError("--filter", fmt::format("no op's name has '{}' in it; `--quick` without --filter lists "
                                                       "the names",
                                                       wanted.filter));
  }
  return chosen;
}

nlohmann::json json_of(const Timing& t) {
  if (!t.error.empty()) return {{"op", t.name}, {"error", t.error}};
  return {{"op", t.name},
          {"us", t.seconds * 1e6},
          {"spread", t.spread},
          {"gbs", t.bytes * 1e-9},
          {"gflops", t.flops * 1e-9},
          {"share", t.share},
          {"bound", t.by_flops ? "flops" : "bytes"}};
}

nlohmann::json json_of(const Ceilings& ceilings) {
  nlohmann::json products;
  for (const auto& [t, flops] : ceilings.flops) products[std::string(name(t))] = flops * 1e-9;
  return {{"copy_gbs", ceilings.bytes * 1e-9}, {"product_gflops", products}};
}

void write_json(const std::string& file, const nlohmann::json& what) {
  if (file.empty()) return;
  std::ofstream out(file);
  out << what.dump(2) << '\n';
  if (!out.flush()) throw Error(fmt::format("cannot write {}", file));
}

}  // namespace bench
