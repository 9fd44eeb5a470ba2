#include <etna/tensor/ops/matmul/gemm/internal/cpu/onednn.h>

#ifdef ETNA_HAS_ONEDNN

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string_view>

#include <oneapi/dnnl/dnnl.hpp>

#include <etna/device/internal/cpu/scratch.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/one_openmp_thread.h>

// bf16 by oneDNN's matmul primitives, which are compiled per size and cached by size. The tiling gives tasks of at most
// four sizes (including edges), the same in every step.
namespace etna::cpu {
namespace {

using OnednnBf16Desc = dnnl::memory::desc;
using OnednnBf16Type = dnnl::memory::data_type;

const dnnl::engine& onednn_bf16_engine() {
  // Never destroyed: destructors of static objects may still multiply.
  static const auto* instance = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *instance;
}

OnednnBf16Desc matrix(std::int64_t rows, std::int64_t columns, OnednnBf16Type type, bool transposed,
                      std::int64_t leading) {
  leading = std::max(leading, transposed ? rows : columns);
  return {{rows, columns}, type, transposed ? dnnl::memory::dims{1, leading} : dnnl::memory::dims{leading, 1}};
}

/// A compiled primitive for given sizes: c = a · b, or c += a · b.
class OnednnBf16Ready {
 public:
  OnednnBf16Ready(const Gemm& g, bool adds)
      : a_(matrix(g.m, g.k, OnednnBf16Type::bf16, g.transpose_a, g.lda)),
        b_(matrix(g.k, g.n, OnednnBf16Type::bf16, g.transpose_b, g.ldb)),
        c_(matrix(g.m, g.n, OnednnBf16Type::f32, false, g.ldc)) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (adds) {
      dnnl::post_ops post_ops;
      post_ops.append_sum(1.0f);
      attributes.set_post_ops(post_ops);
    }
    OneOpenMpThread one;
#if DNNL_VERSION_MAJOR >= 3
    dnnl::matmul::primitive_desc found(onednn_bf16_engine(), a_, b_, c_, attributes, true);
#else
    dnnl::matmul::primitive_desc found(dnnl::matmul::desc(a_, b_, c_), attributes, onednn_bf16_engine(), true);
#endif
    // oneDNN falls back to its reference implementation; converting to f32 is much faster.
    if (!found || std::string_view(found.impl_info_str()).starts_with("ref")) return;
    scratch_ = found.scratchpad_desc();
    matmul_ = dnnl::matmul(found);
  }

  /// False if there is no worthwhile implementation for these sizes.
  bool run(const Bf16* a, const Bf16* b, float* c) const {
    if (!matmul_) return false;
    OneOpenMpThread one;
    thread_local dnnl::stream stream(onednn_bf16_engine());
    Scratch<std::byte> scratch(std::max<std::size_t>(scratch_.get_size(), 1));
    auto at = [](const OnednnBf16Desc& desc, const void* where) {
      return dnnl::memory(desc, onednn_bf16_engine(),
                          const_cast<void*>(where));  // oneDNN uses the same type for input and output
    };
    matmul_.execute(stream, {{DNNL_ARG_SRC, at(a_, a)},
                             {DNNL_ARG_WEIGHTS, at(b_, b)},
                             {DNNL_ARG_DST, at(c_, c)},
                             {DNNL_ARG_SCRATCHPAD, at(scratch_, scratch.data())}});
    stream.wait();
    return true;
  }

 private:
  OnednnBf16Desc a_, b_, c_, scratch_;
  dnnl::matmul matmul_;
};

/// The cached primitives. When there are too many, all are dropped, so sizes that do not recur do not pile up.
std::shared_ptr<const OnednnBf16Ready> onednn_bf16_ready(const Gemm& g, bool adds) {
  using Key = std::array<std::int64_t, 9>;
  constexpr std::size_t kMost = 1024;
  static std::shared_mutex mutex;
  static auto* known = new std::map<Key, std::shared_ptr<const OnednnBf16Ready>>;
  const Key key{g.transpose_a, g.transpose_b, g.m, g.n, g.k, g.lda, g.ldb, g.ldc, adds};
  {
    std::shared_lock lock(mutex);
    if (auto found = known->find(key); found != known->end()) return found->second;
  }
  auto made = std::make_shared<const OnednnBf16Ready>(g, adds);
  std::unique_lock lock(mutex);
  if (known->size() >= kMost) known->clear();
  return known->emplace(key, std::move(made)).first->second;
}

void onednn_bf16_scale(const Gemm& g, float factor, float* c) {
  if (factor == 1) return;
  for (std::int64_t i = 0; i < g.m; ++i) {
    for (std::int64_t j = 0; j < g.n; ++j) c[i * g.ldc + j] *= factor;
  }
}

}  // namespace

bool onednn_multiplies_bf16() {
  const auto can = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  constexpr auto wanted = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  return (can & wanted) == wanted;
}

void onednn_bf16(const Gemm& g, float alpha, const Bf16* a, const Bf16* b, float beta, float* c) {
  // The primitive does not support alpha or beta; c is scaled before and after it.
  if (alpha == 0) {
    for (std::int64_t i = 0; i < g.m && beta == 0; ++i) std::fill_n(c + i * g.ldc, g.n, 0.0f);
    return onednn_bf16_scale(g, beta, c);
  }
  const bool adds = beta != 0;
  if (adds) onednn_bf16_scale(g, beta / alpha, c);
  if (!onednn_bf16_ready(g, adds)->run(a, b, c)) {
    multiply_widened(onednn().f32, g, 1, a, b, adds ? 1.0f : 0.0f, c);
  }
  onednn_bf16_scale(g, alpha, c);
}

}  // namespace etna::cpu

#endif
