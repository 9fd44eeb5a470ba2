#pragma once

#include <string_view>

#include <etna/tensor/ops/quantized/internal/row_kernels.h>

// A build for one processor has no kernels that this one cannot run.
#if defined(__x86_64__) && (!defined(ETNA_PROCESSOR) || defined(__AVX2__))
#define ETNA_ROWS_BY_AVX2 1
#endif
#if defined(__x86_64__) && (!defined(ETNA_PROCESSOR) || defined(__AVX512VNNI__))
#define ETNA_ROWS_BY_AVX512 1
#endif

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
}  // namespace avx512
#endif

}  // namespace etna::quantized
