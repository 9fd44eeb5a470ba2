#include <etna/device/capture_report.h>

#include <fmt/format.h>

#include <etna/device/memory.h>

namespace etna {

std::string CaptureReport::str() const {
  std::string text = fmt::format("{} on {}: {} {} in {} groups", name, device.str(), commands,
                                 device.is_cpu() ? "calls of ops" : "commands", groups);
  if (!device.is_cpu()) {
    text +=
        fmt::format("; barriers {}{} in order, {} in groups",
                    barriers_eager > 0 ? fmt::format("{} eager, ", barriers_eager) : "", barriers_in_order, barriers);
  }
  if (fused_kernels > 0) {
    text += fmt::format("\nfused: {} commands in {} kernels, {} no longer moved; {} compiled in {:.1f} ms",
                        fused_commands, fused_kernels, readable_bytes(fused_bytes), compiled_kernels, compile_ms);
  }
  text += fmt::format("\nmemory: {} planned ({} alive at most, {} without sharing), {} kept, {} inputs, {} constants",
                      readable_bytes(planned_bytes), readable_bytes(live_bytes), readable_bytes(naive_bytes),
                      readable_bytes(kept_bytes), readable_bytes(input_bytes), readable_bytes(constant_bytes));
  text += fmt::format("\nstate: {} bytes a replay; captured in {:.1f} ms\n", state_bytes, capture_ms);
  return text;
}

}  // namespace etna
