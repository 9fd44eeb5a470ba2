#include <etna/tensor/ops/matmul/gemm/internal/cpu/libraries.h>

#ifdef ETNA_LOADS_OPENBLAS
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>

// OpenBLAS selects its code when it is loaded, and does not know processors newer than itself: on some with AVX-512,
// 0.3.21 selects code without AVX, at a ninth of the speed. OPENBLAS_CORETYPE, which it reads while loading, overrides
// the choice. So Etna loads it by dlopen(), with the core type derived from the processor's features, and with
// OPENBLAS_NUM_THREADS=1, so that it starts no threads.
namespace etna::cpu {
namespace {

/// Sets an environment variable while it lives, unless the user has set it.
class Meanwhile {
 public:
  Meanwhile(const char* openblas_name, const char* value) : name_(openblas_name) {
    if (value != nullptr && std::getenv(openblas_name) == nullptr) {
      set_ = setenv(openblas_name, value, 0) == 0;
    }
  }
  ~Meanwhile() {
    if (set_) unsetenv(name_);
  }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

 private:
  const char* name_;
  bool set_ = false;
};

/// The oldest core type with all of the processor's vector instructions; null: leave the choice to the library.
const char* core_type() {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

// The C interface that every BLAS shares.
constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
template <typename T>
using Function = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha, const T* a,
                          int lda, const T* b, int ldb, T beta, T* c, int ldc);
template <typename T>
Function<T> function = nullptr;

template <typename T>
void openblas_multiply(const Gemm& g, T alpha, const T* a, const T* b, T beta, T* c) {
  auto narrow = [](std::int64_t n) { return static_cast<int>(n); };
  auto leading = [&](std::int64_t ld, std::int64_t columns) { return narrow(std::max(ld, columns)); };
  function<T>(kRowMajor, g.transpose_a ? kTransposed : kPlain, g.transpose_b ? kTransposed : kPlain, narrow(g.m),
              narrow(g.n), narrow(g.k), alpha, a, leading(g.lda, g.transpose_a ? g.m : g.k), b,
              leading(g.ldb, g.transpose_b ? g.k : g.n), beta, c, leading(g.ldc, g.n));
}

/// "OpenBLAS 0.3.21 (SkylakeX)"
std::string openblas_name(void* library) {
  auto word = [&](const char* function_name) -> std::string {
    auto* f = reinterpret_cast<char* (*)()>(dlsym(library, function_name));
    return f == nullptr ? "" : f();
  };
  std::istringstream config(word("openblas_get_config"));  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  std::string brand, version, core = word("openblas_get_corename");
  config >> brand >> version;
  std::string all = "OpenBLAS";
  if (!version.empty()) all += " " + version;
  return core.empty() ? all : all + " (" + core + ")";
}

/// The library, and its gemms if Etna loaded it.
struct Loaded {
  void* library = nullptr;
  Library gemms = {};
};

Library gemms_of(void* library) {
  auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  function<float> = reinterpret_cast<Function<float>>(dlsym(library, "cblas_sgemm"));
  function<double> = reinterpret_cast<Function<double>>(dlsym(library, "cblas_dgemm"));
  if (set_threads == nullptr || function<float> == nullptr || function<double> == nullptr) return {};
  set_threads(1);
  return {.f32 = openblas_multiply<float>, .f64 = openblas_multiply<double>, .name = openblas_name(library)};
}

Loaded load() {
  constexpr const char* kFile = "libopenblas.so.0";
  if (void* library = dlopen(kFile, RTLD_NOW | RTLD_NOLOAD)) return {library};
  Meanwhile core("OPENBLAS_CORETYPE", core_type()), threads("OPENBLAS_NUM_THREADS", "1");
  void* library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  return {library, gemms_of(library)};
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

const Library& openblas() { return loaded().gemms; }

void* openblas_function(const char* name) {
  return loaded().library == nullptr ? nullptr : dlsym(loaded().library, name);
}

std::unique_lock<std::mutex> openblas_turn() {
  static std::mutex one;
  return loaded().gemms.f64 != nullptr ? std::unique_lock<std::mutex>() : std::unique_lock(one);
}

}  // namespace etna::cpu

#else

namespace etna::cpu {

const Library& openblas() {
  static const Library library;
  return library;
}

void* openblas_function(const char*) { return nullptr; }
std::unique_lock<std::mutex> openblas_turn() { return {}; }

}  // namespace etna::cpu

#endif
