#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace etna::cpu {

/// While it lives, f32 numbers below 1.2e-38 count as 0 on this thread, operands and results alike. Intel's processors
/// leave their fast path for each instruction that meets one, and exponentials far below a row's largest make many of
/// them; a GPU's products may take them for 0 as well. Processors of ARM have no such path.
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
  static constexpr unsigned kResults = 0x8000, kOperands = 0x0040;  // of MXCSR
  unsigned before_;
#endif
};

}  // namespace etna::cpu
