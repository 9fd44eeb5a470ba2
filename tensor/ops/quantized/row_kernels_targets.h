#pragma once

#include <string_view>

#include <etna/tensor/ops/quantized/row_kernels.h>

/// The kernels of a format for each instruction set. Internal.
namespace etna::quantized {

namespace portable {
RowKernels kernels(std::string_view format);
}
#if defined(__x86_64__)
namespace avx2 {
RowKernels kernels(std::string_view format);
OneRowKernels one_row_kernels(std::string_view format);
PanelKernel panel_kernel(std::string_view format);
TableKernels table_kernels(std::string_view format);
}  // namespace avx2
namespace avx512 {
RowKernels kernels(std::string_view format);
OneRowKernels one_row_kernels(std::string_view format);
PanelKernel panel_kernel(std::string_view format);
TableKernels table_kernels(std::string_view format);
}  // namespace avx512
namespace amx {
/// Whether the processor has tiles and the system lets this process use them.
bool available();
/// Those of AVX-512 VNNI with panels by tiles.
RowKernels kernels(std::string_view format);
}  // namespace amx
#endif

}  // namespace etna::quantized
