#include <etna/tensor/internal/detours.h>

#include <etna/device/internal/counting.h>
#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/tensor/internal/graph/captured_step.h>

namespace etna::detail {

void count_detour(Detour detour, Device device, const char* op) {
  CapturedStep* step = CapturedStep::current();
  if (step != nullptr && !step->in_kernel()) {
    step->note_detour(detour, op);
    if (!step->runs_while_captured()) return;
  }
  if (counting::on()) counting::ran(counting::row(detour, device, op));
}

void count_cpu_kernel(const char* op) {
  if (counting::on()) counting::ran(counting::row({kCPU, op, op}, [] { return std::string(cpu::vector_target()); }));
}

}  // namespace etna::detail
