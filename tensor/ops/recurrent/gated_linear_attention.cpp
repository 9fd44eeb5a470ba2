#include <cmath>
#include <vector>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/recurrent/internal/recurrent.h>
#include <etna/tensor/ops/recurrent/internal/states.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// gated_linear_attention: a matrix of each head that decays, takes up k · vᵀ, and is asked by q. With β it is the gated
// delta rule, which writes what v differs from what k finds; without, the scan of Mamba-2.
namespace etna {
namespace {

using namespace recurrent;

enum LinearAttentionInput { kLinearQ, kLinearK, kLinearV, kLinearDecay, kLinearBeta, kLinearPlaces };

/// Steps that backward and the fallback compute by gemms.
constexpr std::int64_t kLinearChunk = 32;
/// Elements of a head's keys that the GPU's kernel keeps in registers of eight threads.
constexpr std::int64_t kMostKey = 512;

struct LinearSizes {
  std::int64_t batch, steps, key_heads, heads, key, value;

  explicit LinearSizes(const OpCall& call)
      : batch(call.in[kLinearV].size(0)),
        steps(call.in[kLinearV].size(1)),
        key_heads(call.in[kLinearK].size(2)),
        heads(call.in[kLinearV].size(2)),
        key(call.in[kLinearK].size(3)),
        value(call.in[kLinearV].size(3)) {}
};

std::vector<OutputSpec> gated_linear_attention_infer(const OpCall& call) {
  const Tensor &q = call.in[kLinearQ], &k = call.in[kLinearK], &v = call.in[kLinearV];
  const char* op = call.op.name;
  for (const Tensor* x : {&q, &k, &v}) {
    if (!is_floating(x->dtype()) || x->dtype() != q.dtype()) {
      throw DtypeError(fmt::format("{}: q is {}, k {} and v {}; wanted one floating dtype", op, name(q.dtype()),
                                   name(k.dtype()), name(v.dtype())));
    }
    if (x->dim() != 4) {
      throw ShapeError(fmt::format("{}: q is {}, k {} and v {}; wanted [B, T, G, N] twice and [B, T, H, P]", op,
                                   str(q.shape()), str(k.shape()), str(v.shape())));
    }
  }
  const LinearSizes size(call);
  const bool fits = q.shape() == k.shape() && k.size(0) == size.batch && k.size(1) == size.steps;
  if (!fits || size.key_heads < 1 || size.heads % size.key_heads != 0) {
    throw ShapeError(
        fmt::format("{}: q is {}, k {} and v {}; wanted [B, T, G, N] twice and [B, T, H, P], where G "
                    "divides H",
                    op, str(q.shape()), str(k.shape()), str(v.shape())));
  }
  const DType row = row_dtype(q.dtype());
  const Shape each{size.batch, size.steps, size.heads};
  for (const auto& [what, x] : {std::pair{"g", call.in[kLinearDecay]}, std::pair{"beta", call.in[kLinearBeta]}}) {
    if (x.defined() && (x.shape() != each || x.dtype() != row)) {
      throw ShapeError(fmt::format("{}: {} is {} {}; wanted {} {}", op, what, name(x.dtype()), str(x.shape()),
                                   name(row), str(each)));
    }
  }
  const StateRows places = state_rows_of(call, kLinearPlaces);
  check_places(call, places, size.batch, {size.heads, size.key, size.value}, row);
  std::vector<OutputSpec> specs = {{v.shape(), q.dtype()}};
  if (places.state.defined()) specs.push_back({places.state.shape(), row, kLinearPlaces + static_cast<int>(kState)});
  return specs;
}

/// The steps of a chunk at once, [B, H, L, ...].
struct LinearChunk {
  Tensor q, k, v, g, beta;

  /// What the steps write to the state that k finds: v, or by the delta rule β · (v - Sᵀ·k), where S holds what
  /// earlier steps wrote. @param state before the chunk, [B, H, N, P] @param decay of each step since an earlier one
  Tensor written(const Tensor& state, const Tensor& decay, const Tensor& since_first) const {
    if (!beta.defined()) return v;
    const Tensor by = beta.unsqueeze(-1);
    const Tensor found = matmul(k, k.transpose(2, 3)) * decay * by;
    const Tensor rest = (v - matmul(k * since_first, state)) * by;
    return linalg::solve_triangular(tril(found, -1), rest, false, true, true);
  }
  /// @return y [B, H, L, P]; `state` becomes that behind the chunk
  Tensor run(Tensor& state) const {
    const Tensor sum = cumsum(g, -1);
    const Tensor decay = tril(exp(tril(sum.unsqueeze(-1) - sum.unsqueeze(-2))));
    const Tensor since_first = exp(sum).unsqueeze(-1);
    const Tensor u = written(state, decay, since_first);
    const Tensor y = matmul(q * since_first, state) + matmul(matmul(q, k.transpose(2, 3)) * decay, u);
    const Tensor whole = sum.slice(-1, sum.size(-1) - 1, sum.size(-1));
    const Tensor until_last = exp(whole - sum).unsqueeze(-1);
    state = state * exp(whole).unsqueeze(-1) + matmul((k * until_last).transpose(2, 3), u);
    return y;
  }
};

/// All steps, chunk by chunk. @param all [B, H, T, ...] @param state as for LinearChunk::run() @return [B, T, H, P]
Tensor run_by_chunks(const LinearChunk& all, Tensor& state) {
  const std::int64_t steps = all.v.size(2);
  // Nothing, which depends on all inputs as the result of some steps does.
  if (steps == 0) {
    const Tensor y = all.v * all.g.unsqueeze(-1) + (all.q * all.k).sum(-1, true);
    return (all.beta.defined() ? y * all.beta.unsqueeze(-1) : y).transpose(1, 2);
  }
  std::vector<Tensor> parts;
  for (std::int64_t at = 0; at < steps; at += kLinearChunk) {
    const auto part = [&](const Tensor& x) {
      return x.defined() ? x.slice(2, at, std::min(at + kLinearChunk, steps)) : x;
    };
    parts.push_back(LinearChunk{part(all.q), part(all.k), part(all.v), part(all.g), part(all.beta)}.run(state));
  }
  return cat(parts, 2).transpose(1, 2);
}

TensorList gated_linear_attention_reference(const OpCall& call) {
  const LinearSizes size(call);
  const Tensor &q = call.in[kLinearQ], &beta = call.in[kLinearBeta];
  const StateRows places = state_rows_of(call, kLinearPlaces);
  const DType row = row_dtype(q.dtype());
  const std::int64_t shared = size.heads / size.key_heads;
  const auto by_head = [&](const Tensor& x) {
    const Tensor heads = x.size(2) == size.heads ? x : repeat_interleave(x, shared, 2);
    return heads.to(row).transpose(1, 2);
  };
  const Shape shape{size.heads, size.key, size.value};
  Tensor state = first_states(places, size.batch, shape, {row, q.device()});
  Tensor k = call.in[kLinearK], g = call.in[kLinearDecay], counted;
  if (places.state.defined()) {
    // A step that does not count neither decays the state nor writes to it.
    counted = counted_steps(places, size.steps, q.device());
    k = k.where(counted.unsqueeze(-1).unsqueeze(-1), 0.0);
    g = g.where(counted.unsqueeze(-1), 0.0);
  }
  const LinearChunk all{by_head(q), by_head(k), by_head(call.in[kLinearV]), g.transpose(1, 2),
                        beta.defined() ? beta.transpose(1, 2) : beta};
  const Tensor y = run_by_chunks(all, state).to(q.dtype());
  if (!places.state.defined()) return {y};
  return {y.where(counted.unsqueeze(-1).unsqueeze(-1), 0.0), replaced_states(places, state, counted)};
}

/// One head of one sequence, on the CPU.
template <typename T>
struct LinearHead {
  const T *q, *k, *v, *g, *beta;  ///< of the first step; beta null: no delta rule
  std::int64_t key_pitch, value_pitch, head_pitch, key, value;

  /// @param state [N, P] @param y rows at `value_pitch` @param scratch [P]
  void run(std::int64_t steps, T* state, T* y, T* scratch) const {
    for (std::int64_t t = 0; t < steps; ++t) {
      const T *now_q = q + t * key_pitch, *now_k = k + t * key_pitch, *now_v = v + t * value_pitch;
      const T decay = std::exp(g[t * head_pitch]);
      T* to = y + t * value_pitch;
      std::fill_n(scratch, value, T(0));
      for (std::int64_t i = 0; i < key; ++i) decay_and_find(state + i * value, decay, now_k[i], scratch);
      const T by = beta == nullptr ? T(1) : beta[t * head_pitch];
      for (std::int64_t j = 0; j < value; ++j) scratch[j] = beta == nullptr ? now_v[j] : (now_v[j] - scratch[j]) * by;
      std::fill_n(to, value, T(0));
      for (std::int64_t i = 0; i < key; ++i) write_and_ask(state + i * value, now_k[i], scratch, now_q[i], to);
    }
  }

 private:
  void decay_and_find(T* row, T decay, T by, T* found) const {
    if (beta == nullptr) {
      for (std::int64_t j = 0; j < value; ++j) row[j] *= decay;
      return;
    }
    for (std::int64_t j = 0; j < value; ++j) {
      row[j] *= decay;
      found[j] += by * row[j];
    }
  }
  void write_and_ask(T* row, T by, const T* written, T asked, T* to) const {
    for (std::int64_t j = 0; j < value; ++j) {
      row[j] += by * written[j];
      to[j] += asked * row[j];
    }
  }
};

void gated_linear_attention_cpu(const OpCall& call, std::span<Tensor> out) {
  const LinearSizes size(call);
  const StateRows places = state_rows_of(call, kLinearPlaces);
  const DType row = row_dtype(call.in[kLinearQ].dtype());
  if (size.batch * size.steps * size.heads == 0) return;
  const auto dense = [&](LinearAttentionInput i) {
    const Tensor& x = call.in[i];
    return x.defined() ? x.to(row).contiguous() : x;
  };
  const Tensor q = dense(kLinearQ), k = dense(kLinearK), v = dense(kLinearV), g = dense(kLinearDecay),
               beta = dense(kLinearBeta);
  const std::vector<std::int64_t> counts = step_counts(places, size.batch, size.steps);
  Tensor y = out[0].dtype() == row ? out[0] : empty(out[0].shape(), row);
  const auto work = [&]<typename T>(T) {
    const std::int64_t cells = size.key * size.value;
    std::vector<T*> states(counts.size(), nullptr);
    for (std::size_t b = 0; b < counts.size(); ++b) {
      if (places.state.defined() && counts[b] > 0)
        states[b] =
            out[1].template host<T>() + state_row(call, places, static_cast<std::int64_t>(b)) * size.heads * cells;
    }
    const std::int64_t grain = std::max<std::int64_t>(1, rows::kGrain / std::max<std::int64_t>(1, size.steps * cells));
    cpu::parallel_for(size.batch * size.heads, grain, [&](std::int64_t begin, std::int64_t end) {
      cpu::Scratch<T> own(static_cast<std::size_t>(cells)), scratch(static_cast<std::size_t>(size.value));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t b = i / size.heads, h = i % size.heads, group = h / (size.heads / size.key_heads);
        const std::int64_t count = counts[static_cast<std::size_t>(b)];
        const std::int64_t key_at = (b * size.steps * size.key_heads + group) * size.key,
                           at = b * size.steps * size.heads + h;
        T* state = states[static_cast<std::size_t>(b)];
        state = state == nullptr ? own.data() : state + h * cells;
        if (begins_at_zero(places, b) && count > 0) std::fill_n(state, cells, T(0));
        const LinearHead<T> head{q.template host<T>() + key_at,
                                 k.template host<T>() + key_at,
                                 v.template host<T>() + at * size.value,
                                 g.template host<T>() + at,
                                 beta.defined() ? beta.template host<T>() + at : nullptr,
                                 size.key_heads * size.key,
                                 size.heads * size.value,
                                 size.heads,
                                 size.key,
                                 size.value};
        T* to = y.template host<T>() + at * size.value;
        head.run(count, state, to, scratch.data());
        for (std::int64_t t = count; t < size.steps; ++t) std::fill_n(to + t * head.value_pitch, size.value, T(0));
      }
    });
  };
  row == f64 ? work(double{}) : work(float{});
  if (y.impl() != out[0].impl()) out[0].copy_(y);
}

bool gated_linear_attention_gpu(const OpCall& call, std::span<Tensor> out) {
  constexpr std::int64_t kColumns = 16, kParts = 8;
  const LinearSizes size(call);
  if (out[0].dtype() == f64 || size.key > kMostKey) return false;
  if (out[0].numel() == 0) return true;
  const StateRows places = state_rows_of(call, kLinearPlaces);
  const auto [q, q_pitch] = pitched(call.in[kLinearQ]);
  const auto [k, k_pitch] = pitched(call.in[kLinearK]);
  const auto [v, v_pitch] = pitched(call.in[kLinearV]);
  const auto dense = [](const Tensor& x) { return x.defined() ? x.contiguous() : x; };
  const bool delta = call.in[kLinearBeta].defined(), kept = places.state.defined();
  const std::int64_t tiles = (size.value + kColumns - 1) / kColumns;
  gpu::Kernel(shaders::gated_linear_attention, call)
      .on(out[0].device())
      .spec(q.dtype(), std::max<std::int64_t>(1, (size.key + kParts - 1) / kParts), delta, kept,
            places.counts.defined())
      .read(q)
      .read(k)
      .read(v)
      .read(dense(call.in[kLinearDecay]))
      .read(dense(call.in[kLinearBeta]))
      .read_write(kept ? out[1] : Tensor())
      .read(dense(places.rows))
      .read(dense(places.positions))
      .read(dense(places.counts))
      .index_errors()
      .write(out[0])
      .u32(size.steps, size.heads, size.heads / size.key_heads, size.key, size.value)
      .u32(q_pitch, k_pitch, v_pitch, kept ? out[1].size(0) : 0)
      .dispatch({gpu::u32(tiles), gpu::u32(size.heads), gpu::u32(size.batch)});
  return true;
}

const OpDef kGatedLinearAttention = {.name = "gated_linear_attention",
                                     .infer = gated_linear_attention_infer,
                                     .cpu = gated_linear_attention_cpu,
                                     .gpu = gated_linear_attention_gpu,
                                     .reference = gated_linear_attention_reference,
                                     .saved = Saved::inputs};

Tensor linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g, const Tensor& beta,
                        const StateRows& places) {
  TensorList inputs = {q, k, v, g, beta};
  add_places(inputs, places);
  return etna::apply(kGatedLinearAttention, std::span<const Tensor>(inputs))[0];
}

}  // namespace

Tensor gated_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g, const Tensor& beta,
                        const StateRows& places) {
  detail::require_defined("gated_delta_rule", q, k, v, g, beta);
  const DType row = recurrent::row_dtype(q.dtype());
  return linear_attention(q, k, v, g.to(row), beta.to(row), places);
}

Tensor state_space_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                        const Tensor& d, const StateRows& places) {
  detail::require_defined("state_space_scan", x, dt, a, b, c, d);
  const DType row = recurrent::row_dtype(x.dtype());
  if (x.dim() != 4 || dt.dim() != 3 || a.shape() != Shape{x.size(2)} || d.shape() != a.shape()) {
    throw ShapeError(
        fmt::format("state_space_scan: x is {}, dt {}, a {} and d {}; wanted [B, T, H, P], [B, T, H], [H] "
                    "and [H]",
                    str(x.shape()), str(dt.shape()), str(a.shape()), str(d.shape())));
  }
  const Tensor step = dt.to(row);
  const Tensor v = (x.to(row) * step.unsqueeze(-1)).to(x.dtype());
  const Tensor y = linear_attention(c, b, v, step * a.to(row), {}, places);
  return y + (x.to(row) * d.to(row).unsqueeze(-1)).to(x.dtype());
}

std::span<const OpDef* const> ops_in_gated_linear_attention() {
  static const OpDef* const list[] = {&kGatedLinearAttention};
  return list;
}

}  // namespace etna
