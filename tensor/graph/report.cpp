#include <fmt/format.h>

#include <etna/tensor/capture.h>

namespace etna {
namespace {

std::string readable(std::uint64_t bytes) {
  const auto kib = static_cast<double>(bytes) / 1024;
  return kib < 1024 ? fmt::format("{:.1f} KiB", kib) : fmt::format("{:.1f} MiB", kib / 1024);
}

}  // namespace

std::string ProgramReport::str() const {
  std::string text = fmt::format("{} on {}: {} {} in {} groups", name, device.str(), commands,
                                 device.is_cpu() ? "calls of ops" : "commands", groups);
  if (!device.is_cpu()) {
    text +=
        fmt::format("; barriers {}{} as recorded, {} in groups",
                    barriers_eager > 0 ? fmt::format("{} eager, ", barriers_eager) : "", barriers_in_order, barriers);
  }
  if (fused_kernels > 0) {
    text += fmt::format("\nfused: {} commands in {} kernels, {} no longer moved; {} compiled in {:.1f} ms",
                        fused_commands, fused_kernels, readable(fused_bytes), compiled_kernels, compile_ms);
  }
  text += fmt::format("\nmemory: {} planned ({} alive at most, {} without sharing), {} kept, {} inputs, {} constants",
                      readable(planned_bytes), readable(live_bytes), readable(naive_bytes), readable(kept_bytes),
                      readable(input_bytes), readable(constant_bytes));
  text += fmt::format("\nstate: {} bytes a replay; captured in {:.1f} ms\n", state_bytes, capture_ms);
  return text;
}

}  // namespace etna
