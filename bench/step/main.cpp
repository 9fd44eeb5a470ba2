#include <fstream>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/error.h>
#include <etna/device/output_file.h>
#include <etna/device/profile/profile.h>
#include <etna/dist/dist.h>
#include <etna/train/receipt.h>

#include "devices.h"
#include "measure.h"

using namespace etna;

namespace {

double a_step(std::uint64_t count, const bench::StepTimes& times) {
  return static_cast<double>(count) / static_cast<double>(times.steps);
}

double tokens_per_second(const bench::Workload& w, const bench::StepTimes& times) {
  return static_cast<double>(w.rows() * distributed::size()) / times.median_ms() * 1e3;
}

void print(const bench::Workload& w, Device device, const bench::StepTimes& t) {
  const double mib = 1024.0 * 1024.0;
  fmt::print("{} on {} ({}), {}, {}\n", w.name, device.str(), device_name(device), name(t.precision),
             t.program ? "captured" : "eager");
  fmt::print("  {} parameters, batch {} x {} tokens, {} steps timed, loss {:.4f} -> {:.4f}\n", t.parameters, w.batch,
             w.model.context, t.steps, t.first_loss, t.last_loss);
  fmt::print("  ms a step (median)   {:12.3f}   queued by the host in {:.3f}; the first took {:.0f}\n", t.median_ms(),
             t.host_ms, t.first_ms);
  fmt::print("  tokens/s             {:12.0f}\n", tokens_per_second(w, t));
  fmt::print("  peak MiB             {:12.1f}   host {:.1f}\n", static_cast<double>(t.peak_device) / mib,
             static_cast<double>(t.peak_host) / mib);
  fmt::print("  a step: allocations from the system {:.1f}, fallbacks {:.1f}\n", a_step(t.misses, t),
             a_step(t.transfers.fallbacks, t));
  if (t.program) fmt::print("{}", t.program->str());
  if (device.is_cpu()) return;
  fmt::print("  a step: host to device {:.0f} bytes in {:.1f} calls, device to host {:.0f} in {:.1f}\n",
             a_step(t.transfers.h2d_bytes, t), a_step(t.transfers.h2d_calls, t), a_step(t.transfers.d2h_bytes, t),
             a_step(t.transfers.d2h_calls, t));
  fmt::print("  a step: dispatches {:.1f}, barriers {:.1f}, submits {:.1f}\n", a_step(t.queue.dispatches, t),
             a_step(t.queue.barriers, t), a_step(t.queue.submits, t));
}

void print(const bench::StepTimes& t, const profile::Profile& seen) {
  const double ms = static_cast<double>(seen.wall_ns()) * 1e-6 / static_cast<double>(seen.steps());
  fmt::print("{}", profile::report(seen));
  fmt::print("  profiled, a step takes {:+.1f} % of the time above\n", (ms / t.median_ms() - 1) * 100);
}

nlohmann::json report(const bench::Workload& w, Device device, const bench::StepTimes& t) {
  return {{"device", device.str()},
          {"device_name", device_name(device)},
          {"preset", w.name},
          {"precision", name(t.precision)},
          {"mode", t.program ? "captured" : "eager"},
          {"parameters", t.parameters},
          {"steps", t.steps},
          {"tokens_per_step", w.rows()},
          {"tokens_per_second", tokens_per_second(w, t)},
          {"ms_per_step_median", t.median_ms()},
          {"ms_per_step_spans", t.span_ms},
          {"ms_per_step_host", t.host_ms},
          {"ms_first_step", t.first_ms},
          {"loss", {{"first", t.first_loss}, {"last", t.last_loss}}},
          {"peak_bytes", {{"host", t.peak_host}, {"device", device.is_cpu() ? 0 : t.peak_device}}},
          {"per_step",
           {{"allocator_misses", a_step(t.misses, t)},
            {"fallbacks", a_step(t.transfers.fallbacks, t)},
            {"h2d_bytes", a_step(t.transfers.h2d_bytes, t)},
            {"h2d_calls", a_step(t.transfers.h2d_calls, t)},
            {"d2h_bytes", a_step(t.transfers.d2h_bytes, t)},
            {"d2h_calls", a_step(t.transfers.d2h_calls, t)},
            {"dispatches", a_step(t.queue.dispatches, t)},
            {"barriers", a_step(t.queue.barriers, t)},
            {"submits", a_step(t.queue.submits, t)}}}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times whole training steps of a language model on random tokens: forward, backward, clipping, AdamW."};
  std::vector<std::string> device_names, presets = {"tiny"};
  std::optional<std::int64_t> batch;
  bench::StepOptions options;
  std::string json, trace;
  std::int64_t profile_steps = 20;
  bool profiling = false, exact = false;
  std::vector<std::string> modes = {"eager", "captured"}, precisions = {"f32"};
  bench::add_device_option(app, device_names);
  app.add_option("--preset", presets, "whose model, several by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(bench::workload_names()))
      ->capture_default_str();
  app.add_option("--mode", modes, "eager: op by op; captured: one step captured and replayed")
      ->delimiter(',')
      ->check(CLI::IsMember({"eager", "captured"}))
      ->capture_default_str();
  app.add_option("--precision", precisions,
                 "what products compute in: f32, f16 (with loss scaling) or bf16; several by commas")
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "steps to time (default: 5 on the CPU, 50 on a GPU)")
      ->check(CLI::PositiveNumber);
  app.add_option("--warm-up", options.warm_up, "steps before them (default: 2 on the CPU, 5 on a GPU)")
      ->check(CLI::PositiveNumber);
  app.add_option("--span", options.span, "steps between two waits for the device (default: 1 on the CPU, 10 on a GPU)")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", batch, "sequences a step (default: the preset's)")->check(CLI::PositiveNumber);
  bench::add_json_option(app, json, "\"ms_per_step_median\"");
  auto* profiled =
      app.add_flag("--profile", profiling, "profile more steps behind those timed and print where their time went");
  app.add_option("--profile-steps", profile_steps, "how many")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->needs(profiled);
  app.add_flag("--profile-exact", exact, "time every dispatch by itself, which makes the steps slower")
      ->needs(profiled);
  app.add_option("--trace", trace,
                 std::string("also write the last run's to this file: a Chrome trace, or a picture where it ends in "
                             ".svg") +
                     io::kReplacesOnlyOwn)
      ->needs(profiled);

  bool grouped = false, alone = false;
  std::string reduced = "f32";
  auto* in_group = app.add_flag("--distributed", grouped,
                                "train with the other processes of the group that started this one (etna launch, "
                                "torchrun): each takes --batch sequences; tokens/s are those of all");
  app.add_flag("--no-reduction", alone, "leave out the reduction of gradients, to see what it costs")->needs(in_group);
  app.add_option("--reduction", reduced, "what gradients travel in: f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str()
      ->needs(in_group);
  std::int64_t bucket_mib = 0;
  app.add_option("--bucket", bucket_mib, "MiB of gradients that are reduced at once (default: DataParallel's)")
      ->check(CLI::PositiveNumber)
      ->needs(in_group);
  std::string receipt_file;
  app.add_option("--receipt", receipt_file,
                 std::string("write what ran to this file: device, kernels, fallbacks (etna receipt check)") +
                     io::kReplacesOnlyOwn);

  return bench::run_program(app, argc, argv, [&] {
    const auto receipt = training::begin_receipt(
        receipt_file, {.name = "bench_step", .version = ETNA_VERSION, .command = {argv, argv + argc}}, {},
        app.count("--force") > 0);
    io::require_output({"--trace", trace, profile::trace_marks(trace)}, app.count("--force") > 0);
    if (profiling) options.profile = profile_steps;
    if (exact) options.timing = profile::Timing::dispatches;
    std::optional<profile::Profile> seen;
    nlohmann::json runs = nlohmann::json::array();
    options.reduce = !alone;
    if (bucket_mib > 0) options.bucket_bytes = bucket_mib << 20;
    options.reduced = dtype_named(reduced);
    if (grouped) distributed::init();
    const std::vector<Device> devices =
        grouped ? std::vector{distributed::select_local_device(device_names.empty() ? "" : device_names.front())}
                : bench::chosen_devices(device_names);
    if (receipt && devices.size() > 1)
      throw Error("--receipt states one device; name it with --device, and measure the others in runs of their own");
    if (receipt) receipt->device(device_names.empty() ? "" : device_names.front(), devices.front());
    for (Device device : devices) {
      for (const std::string& preset : presets) {
        bench::Workload workload = bench::find_workload(preset);
        workload.batch = batch.value_or(workload.batch);
        for (const std::string& precision : precisions) {
          options.precision = dtype_named(precision);
          for (const std::string& mode : modes) {
            options.captured = mode == "captured";
            const bench::StepTimes times = bench::time_steps(workload, device, options);
            if (distributed::rank() > 0) continue;
            if (grouped) fmt::print("{} processes, {}; ", distributed::size(), distributed::engine());
            print(workload, device, times);
            if (times.profile) print(times, *(seen = times.profile));
            runs.push_back(report(workload, device, times));
            if (receipt)
              receipt->number(fmt::format("{} {} {} tokens_per_second", preset, precision, mode),
                              tokens_per_second(workload, times));
          }
        }
      }
    }
    if (seen && !trace.empty()) profile::write_trace(*seen, trace);
    if (receipt) receipt->write(receipt_file);
    distributed::finish();
    if (json.empty()) return;
    std::ofstream out(json);
    out << runs.dump(2) << '\n';
    if (!out.flush()) throw Error(fmt::format("cannot write {}", json));
  });
}
