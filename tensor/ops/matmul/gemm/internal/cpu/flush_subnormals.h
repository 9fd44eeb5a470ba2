#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace etna::cpu {

/// While it lives, f32 subnormals (below 1.2e-38) count as 0 on this thread, as operands and as results. On Intel
/// processors an instruction with a subnormal operand leaves the fast path, and exponentials far below a row's largest
/// produce many. A GPU may flush them in a gemm as well. ARM processors have no such slow path.
class FlushSubnormals {
 public:
#if defined(__SSE2__)
  FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kResults | kOperands); }
  ~FlushSubnormals() { _mm_setcsr(before_); }
#else
  FlushSubnormals() {}
#endif
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
#if defined(__SSE2__)
  static constexpr unsigned kResults = 0x8000, kOperands = 0x0040;  // bits of MXCSR
  unsigned before_;
#endif
};

}  // namespace etna::cpu
