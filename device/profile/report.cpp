#include <etna/device/profile/profile.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace etna::profile {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

class ProfileReportWriter {
 public:
  ProfileReportWriter(const Profile& profile, const Summary& summary)
      : profile_(profile), s_(summary), steps_(static_cast<double>(std::max<std::int64_t>(1, summary.steps))) {}

  std::string text() {
    head();
    if (s_.of_gpu) gpu();
    host();
    shares();
    table();
    memory();
    if (profile_.dropped > 0) line("{} spans found no room and are missing above", profile_.dropped);
    return std::move(text_);
  }

 private:
  template <typename... T>
  void line(fmt::format_string<T...> format, T&&... values) {
    text_ += fmt::format(format, std::forward<T>(values)...);
    text_ += '\n';
  }
  /// Milliseconds per step.
  double ms(std::int64_t ns) const { return static_cast<double>(ns) * 1e-6 / steps_; }
  double a_step(std::uint64_t count) const { return static_cast<double>(count) / steps_; }
  static double percent(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
  }
  const GpuProfile* the_gpu() const { return s_.gpu < 0 ? nullptr : &profile_.gpus[static_cast<std::size_t>(s_.gpu)]; }

  void head() {
    if (s_.steps > 0) {
      line("profile: {} steps in {:.2f} ms; figures are of one step", s_.steps, static_cast<double>(s_.wall_ns) * 1e-6);
    } else {
      line("profile: {:.2f} ms, no steps marked; figures are of it all", static_cast<double>(s_.wall_ns) * 1e-6);
    }
    if (const GpuProfile* gpu = the_gpu()) {
      if (s_.of_gpu) {
        line("  {} {}, its clock brought to the host's by {}, within {:.1f} us", gpu->device.str(), gpu->name,
             gpu->clock, static_cast<double>(gpu->clock_error_ns) * 1e-3);
        line("  {}", gpu->exact
                         ? "dispatches timed one by one, which slows them"
                         : "a dispatch's time reaches from its launch to the next one's, the barrier between included");
      }
      if (!gpu->untimed.empty()) line("  {} {}: no GPU times: {}", gpu->device.str(), gpu->name, gpu->untimed);
    }
    line("  {:<22}{:10.3f} ms", "wall", ms(s_.wall_ns));
  }

  void gpu() {
    row("GPU busy", s_.busy_ns);
    row("GPU idle", s_.idle_ns());
    row("  host-bound", s_.host_bound_ns);
    row("  behind a submit", s_.latency_ns);
    row("  waking the host", s_.waking_ns);
    if (the_gpu()->exact) row("  between dispatches", s_.gaps_ns);
  }
  void row(const char* name, std::int64_t ns) {
    line("  {:<22}{:10.3f} ms {:6.1f} %", name, ms(ns), percent(ns, s_.wall_ns));
  }

  void host() {
    const GpuProfile* gpu = the_gpu();
    if (gpu == nullptr) return;
    row("host waits for GPU", s_.wait_ns);
    row("host submits", s_.submit_ns);
    line("  {:<22}{:10.1f}, barriers {:.1f}, submits {:.1f}", "dispatches", a_step(gpu->dispatches),
         a_step(gpu->barriers), a_step(gpu->submits));
    const Transfers& t = profile_.transfers;
    line("  {:<22}{:10.0f} bytes in {:.1f} calls, to the host {:.0f} in {:.1f}", "to the GPU", a_step(t.h2d_bytes),
         a_step(t.h2d_calls), a_step(t.d2h_bytes), a_step(t.d2h_calls));
    if (t.moved_tensors + t.fallbacks > 0) {
      line("  {:<22}{:10.1f}, tensors moved for an op {:.1f}", "fallbacks", a_step(t.fallbacks),
           a_step(t.moved_tensors));
    }
  }

  void shares() {
    if (s_.ops_ns == 0) return;
    const char* whole = s_.of_gpu ? "of GPU time" : "of the ops' time";
    line("  {:<22}{:10.3f} ms {:6.1f} % {}", "matrix products", ms(s_.product_ns), percent(s_.product_ns, s_.ops_ns),
         whole);
    line("  {:<22}{:10.3f} ms {:6.1f} %", "attention", ms(s_.attention_ns), percent(s_.attention_ns, s_.ops_ns));
    for (const Summary::Phase& phase : s_.phases) {
      line("  {:<22}{:10.3f} ms {:6.1f} %", phase.name, ms(phase.ns), percent(phase.ns, s_.ops_ns));
    }
  }

  void table() {
    if (s_.ops.empty()) return;
    line("  {:<30}{:>7}{:>11}{:>8}{:>11}{:>11}{:>11}", s_.of_gpu ? "op, its dispatches" : "op, on the host", "calls",
         "ms", "%", "forward", "backward", "rest");
    for (const OpTime& op : s_.ops) {
      line("  {:<30}{:7.1f}{:11.4f}{:8.1f}{:11.4f}{:11.4f}{:11.4f}", op.name,
           static_cast<double>(op.all_calls()) / steps_, ms(op.all_ns()), percent(op.all_ns(), s_.ops_ns), ms(op.ns[0]),
           ms(op.ns[1]), ms(op.ns[2]));
    }
    line("  {:<30}{:>7}{:11.4f}", "sum", "", ms(s_.ops_ns));
  }

  void memory() {
    for (const DeviceMemory& m : profile_.memory) {
      line("  memory of {:<12}{:10.1f} MiB peak, {:.1f} in use, {:.1f} cached", m.device.str(),
           static_cast<double>(m.stats.peak) / kMiB, static_cast<double>(m.stats.in_use) / kMiB,
           static_cast<double>(m.stats.cached) / kMiB);
    }
  }

  const Profile& profile_;
  const Summary& s_;
  const double steps_;
  std::string text_;
};

}  // namespace

std::string report(const Profile& profile) {
  const Summary summary = summarize(profile);
  return ProfileReportWriter(profile, summary).text();
}

}  // namespace etna::profile
