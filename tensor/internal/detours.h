#pragma once

#include <etna/device/kernel_counts.h>

namespace etna::detail {

/// An op runs without a kernel of its own. In a step that is being captured, each replay counts again.
void count_detour(Detour detour, Device device, const char* op);

/// The CPU runs an op's kernel; nothing where nobody counts.
void count_cpu_kernel(const char* op);

}  // namespace etna::detail
