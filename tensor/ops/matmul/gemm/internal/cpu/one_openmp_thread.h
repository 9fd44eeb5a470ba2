#pragma once

#include <dlfcn.h>

#include <oneapi/dnnl/dnnl_config.h>

namespace etna::cpu {

/// oneDNN asks OpenMP for the number of threads at each call. The number is per calling thread; while this object lives
/// it is 1, so no OpenMP pool starts. If oneDNN uses another runtime, this object does nothing: a oneTBB build already
/// runs inside a task, and a sequential build has no threads.
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
  /// Functions of the OpenMP runtime that oneDNN was linked to, GCC's or Clang's.
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
