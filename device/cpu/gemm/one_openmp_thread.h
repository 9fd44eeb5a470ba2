#pragma once

#include <dlfcn.h>

#include <oneapi/dnnl/dnnl_config.h>

namespace etna::cpu {

/// oneDNN asks OpenMP how many threads there are, at each call. That number belongs to the calling thread, and is 1 for
/// the time of this object: no OpenMP pool is ever made. Where oneDNN was built on another runtime it does nothing: a
/// call finds itself inside a task of oneTBB, or has no threads at all.
class OneOpenMpThread {
 public:
  OneOpenMpThread() {
    if (calls().get == nullptr) return;
    before_ = calls().get();
    if (before_ != 1) calls().set(1);
  }
  ~OneOpenMpThread() {
    if (before_ > 1) calls().set(before_);
  }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  /// Of whichever OpenMP oneDNN was linked to, be it GCC's or Clang's.
  struct Calls {
    int (*get)();
    void (*set)(int);
  };
  static const Calls& calls() {
    static const Calls found = [] {
      Calls c{};
#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
      c.get = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
      c.set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
      if (c.set == nullptr) c.get = nullptr;
#endif
      return c;
    }();
    return found;
  }
  int before_ = 1;
};

}  // namespace etna::cpu
