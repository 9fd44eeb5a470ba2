#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <etna/device/cpu/blas.h>
#include <etna/device/cpu/math.h>
#include <etna/device/cpu/parallel.h>
#include <etna/tensor/attention/attention.h>

// A task is a head and a block of queries (forward), or a group of heads (backward, where several heads add to one dk and dv).
// The scores of a block of 64 queries against all their keys are all that is ever held.
namespace etna::attention {
namespace {

constexpr std::int64_t kQueries = 64;

template <typename T>
T* head(const Tensor& x, std::int64_t b, std::int64_t h) {
  return x.data<T>() + b * x.strides()[0] + h * x.strides()[1];
}
std::int64_t row_stride(const Tensor& x) { return std::max(x.strides()[2], x.size(3)); }

/// One block of queries of one head.
template <typename T>
class Block {
 public:
  Block(const Inputs& in, const Attributes& attributes) : in_(in), attributes_(attributes) {}

  std::int64_t first = 0, rows = 0;  ///< its queries
  std::int64_t keys = 0;             ///< keys that any of them may attend to

  void select(std::int64_t batch, std::int64_t head_index, std::int64_t block) {
    batch_ = batch, head_ = head_index, group_ = head_index / in_.heads_per_group();
    first = block * kQueries;
    rows = std::min(kQueries, in_.queries - first);
    keys = attributes_.causal ? std::min(in_.keys, first + rows) : in_.keys;
  }

  const T* q() const { return head<T>(in_.q, batch_, head_) + first * in_.q.strides()[2]; }
  const T* k() const { return head<T>(in_.k, batch_, group_); }
  const T* v() const { return head<T>(in_.v, batch_, group_); }
  /// Position of the block's first row among all rows.
  std::int64_t row() const { return (batch_ * in_.heads + head_) * in_.queries + first; }

  /// scores [rows, keys] = scale · q · kᵀ, masked.
  void score(T* scores) const {
    cpu::gemm_one_thread({false, true, rows, keys, in_.size, row_stride(in_.q), row_stride(in_.k), keys},
                         static_cast<T>(attributes_.scale), q(), k(), T(0), scores);
    constexpr T minus_infinity = -std::numeric_limits<T>::infinity();
    for (std::int64_t i = 0; i < rows; ++i) {
      T* row = scores + i * keys;
      if (attributes_.causal) std::fill(row + std::min(keys, first + i + 1), row + keys, minus_infinity);
      if (!in_.mask.defined()) continue;
      const Strides& s = in_.mask.strides();
      std::int64_t at = batch_ * s[0] + head_ * s[1] + (first + i) * s[2];
      if (in_.mask.dtype() == boolean) {
        const bool* mask = in_.mask.data<bool>() + at;
        for (std::int64_t j = 0; j < keys; ++j) row[j] = mask[j * s[3]] ? row[j] : minus_infinity;
      } else {
        const T* mask = in_.mask.data<T>() + at;
        for (std::int64_t j = 0; j < keys; ++j) row[j] += mask[j * s[3]];
      }
    }
  }

 private:
  const Inputs& in_;
  const Attributes& attributes_;
  std::int64_t batch_ = 0, head_ = 0, group_ = 0;
};

/// exp(row - logsumexp) in place; returns the logsumexp. A row of nothing but -inf becomes 0.
template <typename T>
T normalize(T* row, std::int64_t n) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  T largest = -infinity, nan = T(0);
  for (std::int64_t j = 0; j < n; ++j) {
    largest = row[j] > largest ? row[j] : largest;
    nan = row[j] != row[j] ? row[j] : nan;
  }
  if (largest == -infinity && nan == T(0)) {
    std::fill_n(row, n, T(0));
    return -infinity;
  }
  for (std::int64_t j = 0; j < n; ++j) row[j] = m::exp(row[j] - largest);
  double sum = 0;
  for (std::int64_t begin = 0; begin < n; begin += 256) {
    T lanes[16] = {};
    std::int64_t end = std::min(begin + 256, n), j = begin;
    for (; j + 16 <= end; j += 16) {
      for (std::int64_t l = 0; l < 16; ++l) lanes[l] += row[j + l];
    }
    for (; j < end; ++j) lanes[0] += row[j];
    for (T lane : lanes) sum += lane;
  }
  T inverse = static_cast<T>(1 / sum);
  for (std::int64_t j = 0; j < n; ++j) row[j] *= inverse;
  return largest + static_cast<T>(std::log(sum));
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// @param out [B, H, T, D], rows anywhere
template <typename T>
void forward(const Inputs& in, const Attributes& attributes, const Tensor& out, T* lse) {
  std::int64_t blocks = ceil_div(in.queries, kQueries);
  cpu::parallel_for(in.batch * in.heads * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> scores(static_cast<std::size_t>(kQueries * in.keys));
    Block<T> block(in, attributes);
    for (std::int64_t task = begin; task < end; ++task) {
      block.select(task / blocks / in.heads, task / blocks % in.heads, task % blocks);
      block.score(scores.data());
      for (std::int64_t i = 0; i < block.rows; ++i)
        lse[block.row() + i] = normalize(scores.data() + i * block.keys, block.keys);
      T* y = head<T>(out, task / blocks / in.heads, task / blocks % in.heads) + block.first * out.strides()[2];
      cpu::gemm_one_thread(
          {false, false, block.rows, in.size, block.keys, block.keys, row_stride(in.v), row_stride(out)}, T(1),
          scores.data(), block.v(), T(0), y);
    }
  });
}

/// [B, H, T, D] and twice [B, G, S, D], rows anywhere.
struct Gradients {
  Tensor q, k, v;
};

template <typename T>
void clear(const Tensor& x, std::int64_t b, std::int64_t h) {
  for (std::int64_t i = 0; i < x.size(2); ++i) std::fill_n(head<T>(x, b, h) + i * x.strides()[2], x.size(3), T(0));
}

template <typename T>
void backward(const Inputs& in, const Attributes& attributes, const Kept& kept, const Gradients& g) {
  std::int64_t blocks = ceil_div(in.queries, kQueries), d = in.size;
  std::int64_t per_group = in.groups == 0 ? 0 : in.heads_per_group();
  const T* lse = kept.logsumexp.data<T>();
  std::int64_t dout_row = row_stride(kept.dy);
  cpu::parallel_for(in.batch * in.groups, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> p(static_cast<std::size_t>(kQueries * in.keys)), ds(p.size());
    Block<T> block(in, attributes);
    for (std::int64_t task = begin; task < end; ++task) {
      std::int64_t b = task / in.groups, group = task % in.groups;
      clear<T>(g.k, b, group);
      clear<T>(g.v, b, group);
      for (std::int64_t step = 0; step < per_group * blocks; ++step) {
        std::int64_t h = group * per_group + step / blocks;
        block.select(b, h, step % blocks);
        std::int64_t rows = block.rows, keys = block.keys;
        const T* dout = head<T>(kept.dy, b, h) + block.first * kept.dy.strides()[2];
        const T* out = head<T>(kept.y, b, h) + block.first * kept.y.strides()[2];
        block.score(p.data());
        cpu::gemm_one_thread({false, true, rows, keys, d, dout_row, row_stride(in.v), keys}, T(1), dout, block.v(),
                             T(0), ds.data());
        for (std::int64_t i = 0; i < rows; ++i) {
          T *p_row = p.data() + i * keys, *ds_row = ds.data() + i * keys, row_lse = lse[block.row() + i];
          const T *o = out + i * kept.y.strides()[2], *go = dout + i * kept.dy.strides()[2];
          T delta = 0;
          for (std::int64_t j = 0; j < d; ++j) delta += o[j] * go[j];
          bool nothing = row_lse == -std::numeric_limits<T>::infinity();
          for (std::int64_t j = 0; j < keys; ++j) {
            p_row[j] = nothing ? T(0) : m::exp(p_row[j] - row_lse);
            ds_row[j] = p_row[j] * (ds_row[j] - delta) * static_cast<T>(attributes.scale);
          }
        }
        cpu::gemm_one_thread({false, false, rows, d, keys, keys, row_stride(in.k), row_stride(g.q)}, T(1), ds.data(),
                             block.k(), T(0), head<T>(g.q, b, h) + block.first * g.q.strides()[2]);
        cpu::gemm_one_thread({true, false, keys, d, rows, keys, row_stride(in.q), row_stride(g.k)}, T(1), ds.data(),
                             block.q(), T(1), head<T>(g.k, b, group));
        cpu::gemm_one_thread({true, false, keys, d, rows, keys, dout_row, row_stride(g.v)}, T(1), p.data(), dout, T(1),
                             head<T>(g.v, b, group));
      }
    }
  });
}

/// Rows apart by at least their length, as matrix products want them.
Tensor apart(const Tensor& x) { return x.size(2) <= 1 || x.strides()[2] >= x.size(3) ? x : x.contiguous(); }

/// The call's inputs with floating ones as T.
template <typename T>
Inputs wide_inputs(const OpCall& call) {
  TensorList wide(call.in.begin(), call.in.end());
  for (std::size_t i = 0; i < 4; ++i) {
    if (wide[i].defined() && wide[i].dtype() != boolean) wide[i] = wide[i].to(dtype_of<T>());
  }
  Inputs in = inputs({call.op, wide, call.attrs});
  in.q = apart(in.q), in.k = apart(in.k), in.v = apart(in.v);
  return in;
}

template <typename T>
Inputs wide_packed_inputs(const OpCall& call) {
  Inputs in = packed_inputs(call.in[0].to(dtype_of<T>()), call.as<Attributes>());
  in.q = apart(in.q), in.k = apart(in.k), in.v = apart(in.v);
  return in;
}

/// An output as T: itself, or another that write_back() rounds into it.
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

void cpu_forward(const OpCall& call, std::span<Tensor> out) {
  if (out[1].numel() == 0) return;
  with_type(call.in[0].dtype(), [&]<typename T>(T) {
    Inputs in = wide_inputs<T>(call);
    Tensor y = wide_output<T>(out[0]);
    forward<T>(in, call.as<Attributes>(), merge_leading(y, in.batch), out[1].data<T>());
    write_back(y, out[0]);
  });
}

void cpu_self_forward(const OpCall& call, std::span<Tensor> out) {
  if (out[1].numel() == 0) return;
  with_type(call.in[0].dtype(), [&]<typename T>(T) {
    Inputs in = wide_packed_inputs<T>(call);
    Tensor y = wide_output<T>(out[0]);
    forward<T>(in, call.as<Attributes>(), heads_of(y, in.batch, in.heads), out[1].data<T>());
    write_back(y, out[0]);
  });
}

void cpu_backward(const OpCall& call, std::span<Tensor> out) {
  with_type(call.in[0].dtype(), [&]<typename T>(T) {
    Inputs in = wide_inputs<T>(call);
    auto merged = [&](const Tensor& x) { return apart(merge_leading(x.to(dtype_of<T>()), in.batch)); };
    Kept kept{merged(call.in[4]), call.in[5].contiguous(), merged(call.in[6])};
    Tensor q = wide_output<T>(out[0]), k = wide_output<T>(out[1]), v = wide_output<T>(out[2]);
    backward<T>(in, call.as<Attributes>(), kept,
                {merge_leading(q, in.batch), merge_leading(k, in.batch), merge_leading(v, in.batch)});
    write_back(q, out[0]), write_back(k, out[1]), write_back(v, out[2]);
  });
}

void cpu_self_backward(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return;
  with_type(call.in[0].dtype(), [&]<typename T>(T) {
    Inputs in = wide_packed_inputs<T>(call);
    auto heads = [&](const Tensor& x) { return apart(heads_of(x.to(dtype_of<T>()).contiguous(), in.batch, in.heads)); };
    Kept kept{heads(call.in[1]), call.in[2].contiguous(), heads(call.in[3])};
    Tensor all = wide_output<T>(out[0]);
    Inputs gradients = packed_inputs(all, call.as<Attributes>());
    backward<T>(in, call.as<Attributes>(), kept, {gradients.q, gradients.k, gradients.v});
    write_back(all, out[0]);
  });
}

}  // namespace etna::attention
