#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <etna/device/internal/cpu/math.h>
#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/device/internal/rounding.h>
#include <etna/tensor/ops/attention/internal/attention.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/signals_held.h>

// A task is one head and one block of queries (forward), or a group of heads and one block of keys (backward: all heads
// of a group add to the same dk and dv). Only the scores of 64 queries against 512 keys are in memory at once; they
// stay in the L2 cache for any sequence length. Forward is an online softmax: it keeps each row's largest score and sum
// of exponentials, and rescales the partial result when a larger score arrives. Backward reads the logsumexp. Key
// blocks of forward begin and end where the first and the last key is that any query of the block attends to, by its
// triangle, window and document; those of backward begin at multiples of 512.
namespace etna::attention {
namespace {

constexpr std::int64_t kQueries = 64, kKeys = 512;
constexpr std::int64_t kGap =
    16;  ///< padding after a row of scores, so that rows are not a power of two with_separate_rows

template <typename T>
T* head(const Tensor& x, std::int64_t b, std::int64_t h) {
  return x.host<T>() + b * x.strides()[0] + h * x.strides()[1];
}
std::int64_t row_stride(const Tensor& x) { return std::max(x.strides()[2], x.size(3)); }

/// One block of queries of one head.
template <typename T>
class Block {
 public:
  Block(const Inputs& in, const AttentionAttrs& attributes) : in_(in), attributes_(attributes) {}

  std::int64_t first = 0, rows = 0;  ///< the block's queries
  std::int64_t begin = 0, end = 0;   ///< of the keys that any of these queries may attend to

  void select(std::int64_t batch, std::int64_t head_index, std::int64_t block) {
    batch_ = batch, head_ = head_index, group_ = head_index / in_.heads_per_group();
    first = block * kQueries;
    rows = std::min(kQueries, in_.queries - first);
    begin = in_.keys, end = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      const Span s = span(first + i);
      if (s.begin < s.end) begin = std::min(begin, s.begin), end = std::max(end, s.end);
    }
    begin = std::min(begin, end);
  }

  const T* q() const { return head<T>(in_.q, batch_, head_) + first * in_.q.strides()[2]; }
  /// Keys from row `key` on.
  const T* k(std::int64_t key) const { return head<T>(in_.k, batch_, group_) + key * in_.k.strides()[2]; }
  const T* v(std::int64_t key) const { return head<T>(in_.v, batch_, group_) + key * in_.v.strides()[2]; }
  /// Index of the block's first row among all rows.
  std::int64_t row() const { return (batch_ * in_.heads + head_) * in_.queries + first; }

  /// Computes scores [rows, n], with row stride n + kGap: scale · q · kᵀ with the soft cap and the mask, for n keys
  /// starting at `key`. @param derivatives of the soft cap, in the same layout; may be nullptr
  void score(std::int64_t key, std::int64_t n, T* scores, T* derivatives = nullptr) const {
    cpu::gemm_one_thread({false, true, rows, n, in_.size, row_stride(in_.q), row_stride(in_.k), n + kGap},
                         static_cast<T>(attributes_.scale), q(), k(key), T(0), scores);
    constexpr T minus_infinity = -std::numeric_limits<T>::infinity();
    const T cap = static_cast<T>(attributes_.softcap);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* row = scores + i * (n + kGap);
      for (std::int64_t j = 0; cap > 0 && j < n; ++j) {
        const T t = m::tanh(row[j] / cap);
        row[j] = cap * t;
        if (derivatives != nullptr) derivatives[i * (n + kGap) + j] = 1 - t * t;
      }
      const Span seen = span(first + i);
      std::fill(row, row + std::clamp<std::int64_t>(seen.begin - key, 0, n), minus_infinity);
      std::fill(row + std::clamp<std::int64_t>(seen.end - key, 0, n), row + n, minus_infinity);
      if (!in_.mask.defined()) continue;
      const Strides& s = in_.mask.strides();
      std::int64_t at = batch_ * s[0] + head_ * s[1] + (first + i) * s[2] + key * s[3];
      if (in_.mask.dtype() == boolean) {
        const bool* mask = in_.mask.host<bool>() + at;
        for (std::int64_t j = 0; j < n; ++j) row[j] = mask[j * s[3]] ? row[j] : minus_infinity;
      } else {
        const T* mask = in_.mask.host<T>() + at;
        for (std::int64_t j = 0; j < n; ++j) row[j] += mask[j * s[3]];
      }
    }
  }

 private:
  struct Span {
    std::int64_t begin, end;
  };
  /// The keys that a query may attend to, but for a mask.
  Span span(std::int64_t query) const {
    Span s{0, attributes_.causal ? std::min(in_.keys, query + 1) : in_.keys};
    if (attributes_.window > 0) s.begin = std::max<std::int64_t>(0, query + 1 - attributes_.window);
    if (in_.documents.defined()) {
      const std::int32_t* document = in_.documents.host<std::int32_t>() + (batch_ * in_.queries + query) * 2;
      s.begin = std::max<std::int64_t>(s.begin, document[0]), s.end = std::min<std::int64_t>(s.end, document[1]);
    }
    return s;
  }

  const Inputs& in_;
  const AttentionAttrs& attributes_;
  std::int64_t batch_ = 0, head_ = 0, group_ = 0;
};

/// State of a row's online softmax: Σ exp(score) = exp(largest) · sum. The sum is 0 if all scores are -inf.
template <typename T>
struct SoftmaxState {
  T largest = -std::numeric_limits<T>::infinity();
  double sum = 0;

  /// Replaces the scores by exp(score - largest). @return the factor for everything summed before
  T update(T* scores, std::int64_t n) {
    const T top = cpu::largest(scores, n), before = largest;
    if (top > largest || top != top) largest = top;
    const bool nothing = largest == -std::numeric_limits<T>::infinity();
    const T shrink = before == largest ? T(1) : m::exp(before - largest);
    sum = sum * static_cast<double>(shrink) + cpu::exp_sum(scores, nothing ? T(0) : largest, scores, n);
    return shrink;
  }
  T logsumexp() const { return largest + static_cast<T>(std::log(sum)); }
};

/// @param out [B, H, T, D], with any row stride
template <typename T>
void attention_cpu_forward(const Inputs& in, const AttentionAttrs& attributes, const Tensor& out, T* lse) {
  const std::int64_t blocks = ceil_div(in.queries, kQueries), y_row = out.strides()[2];
  cpu::parallel_for(in.batch * in.heads * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    cpu::Scratch<T> scores(static_cast<std::size_t>(kQueries * (std::min(in.keys, kKeys) + kGap)));
    Block<T> block(in, attributes);
    for (std::int64_t task = begin; task < end; ++task) {
      const cpu::SignalsHeld once_for_all_products;
      block.select(task / blocks / in.heads, task / blocks % in.heads, task % blocks);
      T* y = head<T>(out, task / blocks / in.heads, task / blocks % in.heads) + block.first * y_row;
      SoftmaxState<T> state[kQueries];
      for (std::int64_t key = block.begin; key < block.end; key += kKeys) {
        const std::int64_t n = std::min(kKeys, block.end - key);
        block.score(key, n, scores.data());
        for (std::int64_t i = 0; i < block.rows; ++i) {
          const T shrink = state[i].update(scores.data() + i * (n + kGap), n);
          if (key > block.begin && shrink != T(1)) cpu::scale(y + i * y_row, shrink, in.size);
        }
        cpu::gemm_one_thread({false, false, block.rows, in.size, n, n + kGap, row_stride(in.v), row_stride(out)}, T(1),
                             scores.data(), block.v(key), key == block.begin ? T(0) : T(1), y);
      }
      for (std::int64_t i = 0; i < block.rows; ++i) {
        lse[block.row() + i] = state[i].logsumexp();
        T* row = y + i * y_row;
        if (state[i].sum == 0)
          std::fill_n(row, in.size, T(0));
        else
          cpu::scale(row, static_cast<T>(1 / state[i].sum), in.size);
      }
    }
  });
}

/// [B, H, T, D] and twice [B, G, S, D], with any row stride.
struct Gradients {
  Tensor q, k, v;
};

/// Sets rows of x to 0, starting at `row`.
template <typename T>
void clear_rows(T* row, std::int64_t rows, const Tensor& x) {
  for (std::int64_t i = 0; i < rows; ++i) std::fill_n(row + i * x.strides()[2], x.size(3), T(0));
}

/// For n keys: turns scores into weights p, and computes ds, the gradient of the scores, from dout · vᵀ.
template <typename T>
void turn_scores(T* p, T* ds, std::int64_t n, T logsumexp, T delta, T scale) {
  if (logsumexp == -std::numeric_limits<T>::infinity()) {
    std::fill_n(p, n, T(0));
    std::fill_n(ds, n, T(0));
    return;
  }
  cpu::exp_sum(p, logsumexp, p, n);
  for (std::int64_t j = 0; j < n; ++j) ds[j] = p[j] * (ds[j] - delta) * scale;
}

/// The gradients of q that the blocks of keys add to a query's, beside those of the first one it attends to, which are
/// in the result: [blocks of keys - 1, heads, queries, D].
template <typename T>
struct PartialGradients {
  PartialGradients(const Inputs& in, std::int64_t key_blocks, std::int64_t heads)
      : heads(heads),
        queries(in.queries),
        size(in.size),
        rows(static_cast<std::size_t>(std::max<std::int64_t>(0, key_blocks - 1) * heads * queries * size)) {}
  T* at(std::int64_t key_block, std::int64_t head_index, std::int64_t query) {
    return rows.data() + (((key_block - 1) * heads + head_index) * queries + query) * size;
  }

  const std::int64_t heads, queries, size;
  cpu::Scratch<T> rows;
};

/// Gradients by blocks of keys, each with the queries that attend to it: keys, values and their gradients stay in the
/// cache, and a single head is enough for several threads. What is added to what does not depend on their number.
template <typename T>
class CpuBackward {
 public:
  CpuBackward(const Inputs& in, const AttentionAttrs& attributes, const Kept& kept, const Gradients& g)
      : in_(in), attributes_(attributes), kept_(kept), g_(g) {}

  void run() {
    const std::int64_t groups = in_.batch * in_.groups;
    // More groups at once need more memory for partial gradients, fewer give fewer tasks.
    constexpr std::int64_t tasks = 64;
    const std::int64_t most = key_blocks_ == 1 ? groups : std::max<std::int64_t>(1, tasks / key_blocks_);
    for (std::int64_t first = 0; first < groups; first += most) {
      const std::int64_t count = std::min(most, groups - first), heads = count * heads_;
      PartialGradients<T> parts(in_, key_blocks_, heads);
      cpu::parallel_for(count * key_blocks_, 1, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t keys = std::min(in_.keys, kKeys);
        cpu::Scratch<T> p(static_cast<std::size_t>(kQueries * (keys + kGap))), ds(p.size());
        cpu::Scratch<T> derivatives(attributes_.softcap > 0 ? p.size() : 0);
        for (std::int64_t task = begin; task < end; ++task)
          keys_of_a_group(first + task / key_blocks_, task % key_blocks_, task / key_blocks_ * heads_, parts, p.data(),
                          ds.data(), derivatives.data());
      });
      if (key_blocks_ == 1) continue;
      cpu::parallel_for(heads * query_blocks_, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t task = begin; task < end; ++task)
          add_parts(first * heads_ + task / query_blocks_, task % query_blocks_, task / query_blocks_, parts);
      });
    }
  }

 private:
  /// @param all its index among the groups of all batches @param head_index of its first head in `parts`
  void keys_of_a_group(std::int64_t all, std::int64_t key_block, std::int64_t head_index, PartialGradients<T>& parts,
                       T* p, T* ds, T* derivatives) const {
    const std::int64_t b = all / in_.groups, group = all % in_.groups, d = in_.size;
    const std::int64_t first_key = key_block * kKeys, keys_end = std::min(in_.keys, first_key + kKeys);
    T *dk = head<T>(g_.k, b, group), *dv = head<T>(g_.v, b, group);
    const std::int64_t dk_row = g_.k.strides()[2], dv_row = g_.v.strides()[2];
    clear_rows(dk + first_key * dk_row, keys_end - first_key, g_.k);
    clear_rows(dv + first_key * dv_row, keys_end - first_key, g_.v);
    Block<T> block(in_, attributes_);
    for (std::int64_t step = 0; step < heads_ * query_blocks_; ++step) {
      const cpu::SignalsHeld once_for_all_products;
      const std::int64_t h = group * heads_ + step / query_blocks_;
      block.select(b, h, step % query_blocks_);
      T* dq = head<T>(g_.q, b, h) + block.first * g_.q.strides()[2];
      if (block.begin == block.end && key_block == 0) clear_rows(dq, block.rows, g_.q);
      const std::int64_t key = std::max(block.begin, first_key), n = std::min(block.end, keys_end) - key;
      if (n <= 0) continue;
      const bool to_result = key_block == block.begin / kKeys;
      if (!to_result) dq = parts.at(key_block, head_index + step / query_blocks_, block.first);

      const std::int64_t stride = n + kGap, dout_row = row_stride(kept_.dy);
      const T* dout = head<T>(kept_.dy, b, h) + block.first * kept_.dy.strides()[2];
      block.score(key, n, p, attributes_.softcap > 0 ? derivatives : nullptr);
      cpu::gemm_one_thread({false, true, block.rows, n, d, dout_row, row_stride(in_.v), stride}, T(1), dout,
                           block.v(key), T(0), ds);
      turn(block, b, h, n, p, ds, derivatives);
      cpu::gemm_one_thread(
          {false, false, block.rows, d, n, stride, row_stride(in_.k), to_result ? row_stride(g_.q) : d}, T(1), ds,
          block.k(key), T(0), dq);
      cpu::gemm_one_thread({true, false, n, d, block.rows, stride, row_stride(in_.q), row_stride(g_.k)}, T(1), ds,
                           block.q(), T(1), dk + key * dk_row);
      cpu::gemm_one_thread({true, false, n, d, block.rows, stride, dout_row, row_stride(g_.v)}, T(1), p, dout, T(1),
                           dv + key * dv_row);
    }
  }

  /// Turns the scores of a block into weights, and the gradients of weights into those of products.
  void turn(const Block<T>& block, std::int64_t b, std::int64_t h, std::int64_t n, T* p, T* ds,
            const T* derivatives) const {
    const T* logsumexp = kept_.logsumexp.host<T>() + block.row();
    for (std::int64_t i = 0; i < block.rows; ++i) {
      const T *out = head<T>(kept_.y, b, h) + (block.first + i) * kept_.y.strides()[2],
              *dout = head<T>(kept_.dy, b, h) + (block.first + i) * kept_.dy.strides()[2];
      T *row = p + i * (n + kGap), *gradient = ds + i * (n + kGap);
      turn_scores(row, gradient, n, logsumexp[i], static_cast<T>(cpu::dot(out, dout, in_.size)),
                  static_cast<T>(attributes_.scale));
      for (std::int64_t j = 0; attributes_.softcap > 0 && j < n; ++j) gradient[j] *= derivatives[i * (n + kGap) + j];
    }
  }

  /// @param all the head's index among those of all batches
  void add_parts(std::int64_t all, std::int64_t query_block, std::int64_t head_index,
                 PartialGradients<T>& parts) const {
    Block<T> block(in_, attributes_);
    block.select(all / in_.heads, all % in_.heads, query_block);
    if (block.begin == block.end) return;
    for (std::int64_t i = 0; i < block.rows; ++i) {
      T* dq = head<T>(g_.q, all / in_.heads, all % in_.heads) + (block.first + i) * g_.q.strides()[2];
      for (std::int64_t key_block = block.begin / kKeys + 1; key_block <= (block.end - 1) / kKeys; ++key_block) {
        const T* part = parts.at(key_block, head_index, block.first + i);
        for (std::int64_t j = 0; j < in_.size; ++j) dq[j] += part[j];
      }
    }
  }

  const Inputs& in_;
  const AttentionAttrs& attributes_;
  const Kept& kept_;
  const Gradients& g_;
  const std::int64_t query_blocks_ = ceil_div(in_.queries, kQueries),
                     key_blocks_ = std::max<std::int64_t>(1, ceil_div(in_.keys, kKeys)),
                     heads_ = in_.groups == 0 ? 0 : in_.heads_per_group();
};

/// x, or a copy if its rows overlap: the gemm requires a row stride of at least the row's length.
Tensor with_separate_rows(const Tensor& x) {
  return x.size(2) <= 1 || x.strides()[2] >= x.size(3) ? x : x.contiguous();
}

/// The call's inputs, with floating ones converted to T.
template <typename T>
Inputs wide_inputs(const OpCall& call) {
  TensorList wide(call.in.begin(), call.in.end());
  for (std::size_t i = 0; i < 4; ++i) {
    if (wide[i].defined() && wide[i].dtype() != boolean) wide[i] = wide[i].to(dtype_of<T>());
  }
  Inputs in = inputs({call.op, wide, call.attrs});
  in.q = with_separate_rows(in.q), in.k = with_separate_rows(in.k), in.v = with_separate_rows(in.v);
  return in;
}

template <typename T>
Inputs wide_packed_inputs(const OpCall& call) {
  Inputs in = packed_inputs(call.in[0].to(dtype_of<T>()), call.in[1], call.as<AttentionAttrs>());
  in.q = with_separate_rows(in.q), in.k = with_separate_rows(in.k), in.v = with_separate_rows(in.v);
  return in;
}

/// An output as T: the output itself, or a buffer that write_back() rounds into it.
template <typename T>
Tensor wide_output(const Tensor& out) {
  return out.dtype() == dtype_of<T>() ? out : empty(out.shape(), {dtype_of<T>(), kCPU});
}
void write_back(const Tensor& wide, Tensor& out) {
  if (wide.dtype() != out.dtype()) out.copy_(wide);
}

template <typename F>
void with_type(DType t, const F& f) {
  if (t == f64)
    f(double{});
  else
    f(float{});
}

}  // namespace

void forward_cpu(const OpCall& call, std::span<Tensor> out) {
  if (out[1].numel() == 0) return;
  if (call.in[0].size(-1) != call.in[2].size(-1)) {
    with_equal_heads(call, out,
                     [](const OpCall& c, std::span<Tensor> results) { return forward_cpu(c, results), true; });
    return;
  }
  with_type(call.in[0].dtype(), [&]<typename T>(T) {
    Inputs in = wide_inputs<T>(call);
    Tensor y = wide_output<T>(out[0]);
    attention_cpu_forward<T>(in, call.as<AttentionAttrs>(), merge_leading(y, in.batch), out[1].host<T>());
    write_back(y, out[0]);
  });
}

void self_forward_cpu(const OpCall& call, std::span<Tensor> out) {
  if (out[1].numel() == 0) return;
  with_type(call.in[0].dtype(), [&]<typename T>(T) {
    Inputs in = wide_packed_inputs<T>(call);
    Tensor y = wide_output<T>(out[0]);
    attention_cpu_forward<T>(in, call.as<AttentionAttrs>(), heads_of(y, in.batch, in.heads), out[1].host<T>());
    write_back(y, out[0]);
  });
}

void backward_cpu(const OpCall& call, std::span<Tensor> out) {
  if (call.in[0].size(-1) != call.in[2].size(-1)) {
    with_equal_heads(call, out,
                     [](const OpCall& c, std::span<Tensor> results) { return backward_cpu(c, results), true; });
    return;
  }
  with_type(call.in[0].dtype(), [&]<typename T>(T) {
    Inputs in = wide_inputs<T>(call);
    auto merged = [&](const Tensor& x) { return with_separate_rows(merge_leading(x.to(dtype_of<T>()), in.batch)); };
    Kept kept{merged(call.in[5]), call.in[6].contiguous(), merged(call.in[7])};
    Tensor q = wide_output<T>(out[0]), k = wide_output<T>(out[1]), v = wide_output<T>(out[2]);
    const Gradients g{merge_leading(q, in.batch), merge_leading(k, in.batch), merge_leading(v, in.batch)};
    CpuBackward<T>(in, call.as<AttentionAttrs>(), kept, g).run();
    write_back(q, out[0]), write_back(k, out[1]), write_back(v, out[2]);
  });
}

void self_backward_cpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return;
  with_type(call.in[0].dtype(), [&]<typename T>(T) {
    Inputs in = wide_packed_inputs<T>(call);
    auto heads = [&](const Tensor& x) {
      return with_separate_rows(heads_of(x.to(dtype_of<T>()).contiguous(), in.batch, in.heads));
    };
    Kept kept{heads(call.in[2]), call.in[3].contiguous(), heads(call.in[4])};
    Tensor all = wide_output<T>(out[0]);
    Inputs gradients = packed_inputs(all, {}, call.as<AttentionAttrs>());
    CpuBackward<T>(in, call.as<AttentionAttrs>(), kept, {gradients.q, gradients.k, gradients.v}).run();
    write_back(all, out[0]);
  });
}

}  // namespace etna::attention
