#include <algorithm>
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

enum LinearAttentionInput {
  kLinearQ,
  kLinearK,
  kLinearV,
  kLinearDecay,
  kLinearBeta,
  kLinearStepBias,
  kLinearLogDecay,
  kLinearPlaces
};
struct LinearFormAttrs {
  bool normalize = false, tiled = false;
  bool updates = true;  ///< the state
};
/// q, k, v, decay and beta as the rule reads them.
using LinearInputs = std::array<Tensor, kLinearStepBias>;

/// Steps of a chunk where the op is computed by chunks.
constexpr std::int64_t kLinearChunk = 64;
/// From so many steps on, a GPU computes by chunks: all whole blocks of a cache, so that a state has the same bits
/// however many of them are read at once.
constexpr std::int64_t kManySteps = kLinearChunk;

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
  for (const auto& [what, x] :
       {std::pair{"step_bias", call.in[kLinearStepBias]}, std::pair{"log_decay", call.in[kLinearLogDecay]}}) {
    const bool fits_gates = x.defined() == call.in[kLinearStepBias].defined() &&
                            (!x.defined() || (x.shape() == Shape{size.heads} && x.dtype() == row));
    if (!fits_gates)
      throw ShapeError(fmt::format("{}: {} is {}; wanted {} {}, or neither step_bias nor log_decay", op, what,
                                   x.defined() ? str(x.shape()) : "missing", name(row), str(Shape{size.heads})));
  }
  const StateRows places = state_rows_of(call, kLinearPlaces);
  check_places(call, places, size.batch, {size.heads, size.key, size.value}, row);
  std::vector<OutputSpec> specs = {{v.shape(), q.dtype()}};
  if (places.state.defined() && call.as<LinearFormAttrs>().updates)
    specs.push_back({places.state.shape(), row, kLinearPlaces + static_cast<int>(kState)});
  return specs;
}

/// All steps, by chunks: what each chunk needs is computed for all of them at once, but for the states between them.
/// @param x q, k, v, g and beta, which may be undefined, [B, T, H, ...] @return [B, T, H, P]
Tensor run_by_chunks(const LinearInputs& x, const StateRows& places) {
  const std::int64_t batch = x[kLinearV].size(0), steps = x[kLinearV].size(1), heads = x[kLinearV].size(2),
                     size = std::min(steps, kLinearChunk), chunks = (steps + size - 1) / size;
  // Steps that do not decay the state, nor write to it, fill the last chunk.
  const auto chunked = [&](LinearAttentionInput i) {
    if (!x[i].defined()) return Tensor();
    std::vector<std::int64_t> behind(static_cast<std::size_t>(2 * (x[i].dim() - 1)), 0);
    behind.back() = chunks * size - steps;
    const Tensor padded = (behind.back() == 0 ? x[i] : pad(x[i], behind)).transpose(1, 2);
    std::vector<std::int64_t> shape = {batch, heads, chunks, size};
    if (x[i].dim() == 4) shape.push_back(x[i].size(3));
    return padded.reshape(Shape(shape));
  };
  const Tensor q = chunked(kLinearQ), k = chunked(kLinearK), v = chunked(kLinearV), g = chunked(kLinearDecay),
               beta = chunked(kLinearBeta);
  // Of each step [L, 1] since each one before [1, L]: sums of the steps between, as a difference of sums cancels.
  const Tensor between = cumsum(tril(g.unsqueeze(-1).expand({batch, heads, chunks, size, size}), -1), -2);
  const Tensor decay = tril(exp(between)), since_first = exp(cumsum(g, -1)).unsqueeze(-1);
  const Tensor until_last = decay.select(-2, size - 1).unsqueeze(-1), turned = k.transpose(-2, -1);
  Tensor u = v, w;
  if (beta.defined()) {
    // What step t writes is β · (v - Sᵀ·k) with the writes of steps before t in S.
    const Tensor by = beta.unsqueeze(-1), found = tril(matmul(k, turned) * decay * by, -1);
    const Tensor both = linalg::solve_triangular(found, cat({k * since_first, v}, -1) * by, false, true, true);
    w = both.slice(-1, 0, k.size(-1));
    u = both.slice(-1, k.size(-1), both.size(-1));
  }
  const Tensor y = chunked_linear_attention(
      {q * since_first, w, matmul(q, turned) * decay, u, k * until_last, since_first.select(-2, size - 1).squeeze(-1)},
      places);
  return y.reshape({batch, heads, chunks * size, y.size(-1)}).slice(2, 0, steps).transpose(1, 2);
}

/// No steps, which depend on all inputs as the result of some does. @return [B, 0, H, P]
Tensor of_no_steps(const LinearInputs& x) {
  const Tensor y = x[kLinearV] * x[kLinearDecay].unsqueeze(-1) + (x[kLinearQ] * x[kLinearK]).sum(-1, true);
  return x[kLinearBeta].defined() ? y * x[kLinearBeta].unsqueeze(-1) : y;
}

/// Rows divided by their length, √(Σ x² + 1e-6), and multiplied by a factor. @param x [..., N]
Tensor of_length_one(const Tensor& x, double factor) {
  const double size = static_cast<double>(std::max<std::int64_t>(1, x.size(-1)));
  return rms_norm(x, {}, 1e-6 / size) * (factor / std::sqrt(size));
}

/// All inputs in the dtype of sums, as the rule reads them, with the heads that they have.
LinearInputs prepared(const OpCall& call) {
  const auto form = call.as<LinearFormAttrs>();
  const DType row = row_dtype(call.in[kLinearQ].dtype());
  LinearInputs x;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = call.in[i].defined() ? call.in[i].to(row) : Tensor();
  if (form.normalize) {
    x[kLinearQ] = of_length_one(x[kLinearQ], 1 / std::sqrt(std::max(1.0, static_cast<double>(x[kLinearQ].size(-1)))));
    x[kLinearK] = of_length_one(x[kLinearK], 1);
  }
  if (call.in[kLinearStepBias].defined()) {
    x[kLinearDecay] = softplus(x[kLinearDecay] + call.in[kLinearStepBias]) * -exp(call.in[kLinearLogDecay]);
    x[kLinearBeta] = sigmoid(x[kLinearBeta]);
  }
  return x;
}

/// y; states are updated in their places.
Tensor linear_attention_by_chunks(const OpCall& call, const StateRows& places) {
  const LinearSizes size(call);
  const Tensor& q = call.in[kLinearQ];
  LinearInputs x = prepared(call);
  const std::int64_t times = size.heads / size.key_heads;
  for (Tensor* heads : {&x[kLinearQ], &x[kLinearK]}) {
    if (times == 1) break;
    *heads = call.as<LinearFormAttrs>().tiled ? cat(TensorList(static_cast<std::size_t>(times), *heads), 2)
                                              : repeat_interleave(*heads, times, 2);
  }
  if (size.steps == 0) return of_no_steps(x).to(q.dtype());
  if (!places.state.defined()) return run_by_chunks(x, places).to(q.dtype());
  // A step that does not count neither decays the state nor writes to it.
  const Tensor counted = counted_steps(places, size.steps, q.device()).unsqueeze(-1), of_row = counted.unsqueeze(-1);
  x[kLinearK] = x[kLinearK].where(of_row, 0.0);
  x[kLinearDecay] = x[kLinearDecay].where(counted, 0.0);
  return run_by_chunks(x, places).to(q.dtype()).where(of_row, 0.0);
}

TensorList gated_linear_attention_reference(const OpCall& call) {
  StateRows places = state_rows_of(call, kLinearPlaces);
  if (!places.state.defined()) return {linear_attention_by_chunks(call, places)};
  places.state = places.state.clone();
  const Tensor y = linear_attention_by_chunks(call, places);
  return call.as<LinearFormAttrs>().updates ? TensorList{y, places.state} : TensorList{y};
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
  const LinearInputs all = prepared(call);
  const bool tiled = call.as<LinearFormAttrs>().tiled, updates = out.size() > 1;
  const auto dense = [&](LinearAttentionInput i) { return all[i].defined() ? all[i].contiguous() : all[i]; };
  const Tensor q = dense(kLinearQ), k = dense(kLinearK), v = dense(kLinearV), g = dense(kLinearDecay),
               beta = dense(kLinearBeta);
  const std::vector<std::int64_t> counts = step_counts(places, size.batch, size.steps);
  Tensor y = out[0].dtype() == row ? out[0] : empty(out[0].shape(), row);
  const auto work = [&]<typename T>(T) {
    const std::int64_t cells = size.key * size.value;
    std::vector<T*> states(counts.size(), nullptr);
    for (std::size_t b = 0; b < counts.size(); ++b) {
      if (places.state.defined() && counts[b] > 0)
        states[b] = places.state.template host<T>() +
                    state_row(call, places, static_cast<std::int64_t>(b)) * size.heads * cells;
    }
    const std::int64_t grain = std::max<std::int64_t>(1, rows::kGrain / std::max<std::int64_t>(1, size.steps * cells));
    cpu::parallel_for(size.batch * size.heads, grain, [&](std::int64_t begin, std::int64_t end) {
      cpu::Scratch<T> own(static_cast<std::size_t>(cells)), scratch(static_cast<std::size_t>(size.value));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t b = i / size.heads, h = i % size.heads,
                           group = tiled ? h % size.key_heads : h / (size.heads / size.key_heads);
        const std::int64_t count = counts[static_cast<std::size_t>(b)];
        const std::int64_t key_at = (b * size.steps * size.key_heads + group) * size.key,
                           at = b * size.steps * size.heads + h;
        T* const first = states[static_cast<std::size_t>(b)];
        T* const kept = first == nullptr ? nullptr : first + h * cells;
        T* const state = kept != nullptr && updates ? kept : own.data();
        if (position_of(places, b) == 0 && count > 0)
          std::fill_n(state, cells, T(0));
        else if (kept != nullptr && kept != state)
          std::copy_n(kept, cells, state);
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

Tensor dense(const Tensor& x) { return x.defined() ? x.contiguous() : x; }

/// By chunks of 64 steps: a dispatch for all that a chunk computes by itself, and one from chunk to chunk.
/// @return false where the values between them take too much memory
bool run_chunks_gpu(const OpCall& call, std::span<Tensor> out) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 28;
  const LinearSizes size(call);
  const auto form = call.as<LinearFormAttrs>();
  const bool delta = call.in[kLinearBeta].defined();
  StateRows places = state_rows_of(call, kLinearPlaces);
  const bool kept = places.state.defined();
  const std::int64_t chunks = (size.steps + kLinearChunk - 1) / kLinearChunk, all = size.batch * size.heads * chunks,
                     rows = all * kLinearChunk;
  const std::int64_t total = rows * ((delta ? 3 : 2) * size.key + kLinearChunk + size.value) + all;
  if (total > kMostElements) return false;
  const auto q = pitched(call.in[kLinearQ]), k = pitched(call.in[kLinearK]), v = pitched(call.in[kLinearV]);
  bool by_fours = size.key % 4 == 0 && size.value % 4 == 0;
  for (const PitchedRows* x : {&q, &k, &v})
    by_fours = by_fours && x->pitch % 4 == 0 && x->x.address() % (4 * item_size(x->x.dtype())) == 0;
  const Tensor between = empty({total}, {f32, out[0].device()});
  gpu::Kernel(shaders::linear_attention_chunks, call)
      .on(out[0].device())
      .spec(q.x.dtype(), size.key, delta, kept, places.counts.defined())
      .spec(form.normalize, form.tiled, call.in[kLinearStepBias].defined(), size.heads, size.key_heads)
      .spec(by_fours ? 4 : 1)
      .read(q.x)
      .read(k.x)
      .read(v.x)
      .read(dense(call.in[kLinearDecay]))
      .read(dense(call.in[kLinearBeta]))
      .read(dense(call.in[kLinearStepBias]))
      .read(dense(call.in[kLinearLogDecay]))
      .read(dense(places.positions))
      .read(dense(places.counts))
      .write(between)
      .u32(size.steps, size.value, chunks, q.pitch, k.pitch, v.pitch)
      .dispatch({gpu::u32(chunks), gpu::u32(size.heads), gpu::u32(size.batch)});
  std::int64_t at = 0;
  const auto next = [&](std::int64_t columns) {
    const Tensor part = between.slice(0, at, at + rows * columns);
    at += rows * columns;
    return part.reshape({size.batch, size.heads, chunks, kLinearChunk, columns});
  };
  ChunkedSteps steps;
  steps.q = next(size.key);
  steps.k = next(size.key);
  steps.m = next(kLinearChunk);
  if (delta) steps.w = next(size.key);
  steps.u = next(size.value);
  steps.decay = between.slice(0, at, total).reshape({size.batch, size.heads, chunks});
  if (kept) places.state = out[1];
  run_chunked_steps(call, steps, places, out[0]);
  return true;
}

bool gated_linear_attention_gpu(const OpCall& call, std::span<Tensor> out) {
  constexpr std::int64_t kColumns = 16;
  const auto form = call.as<LinearFormAttrs>();
  const LinearSizes size(call);
  if (out[0].dtype() == f64 || size.key > kMostKey) return false;
  if (out[0].numel() == 0) return true;
  const StateRows places = state_rows_of(call, kLinearPlaces);
  const bool delta = call.in[kLinearBeta].defined(), kept = places.state.defined(), updates = out.size() > 1;
  const bool many = size.steps >= kManySteps && size.key > 0 && size.key <= kMostChunkKey && kept == updates;
  if (many && run_chunks_gpu(call, out)) return true;
  const auto [q, q_pitch] = pitched(call.in[kLinearQ]);
  const auto [k, k_pitch] = pitched(call.in[kLinearK]);
  const auto [v, v_pitch] = pitched(call.in[kLinearV]);
  const std::int64_t tiles = (size.value + kColumns - 1) / kColumns;
  gpu::Kernel(shaders::gated_linear_attention, call)
      .on(out[0].device())
      .spec(q.dtype(), size.key, delta, kept, places.counts.defined())
      .spec(form.normalize, form.tiled, call.in[kLinearStepBias].defined(), size.heads, size.key_heads, updates)
      .read(q)
      .read(k)
      .read(v)
      .read(dense(call.in[kLinearDecay]))
      .read(dense(call.in[kLinearBeta]))
      .read(dense(call.in[kLinearStepBias]))
      .read(dense(call.in[kLinearLogDecay]))
      .arguments(state_argument(places, updates))
      .read(dense(places.rows))
      .read(dense(places.positions))
      .read(dense(places.counts))
      .index_errors()
      .write(out[0])
      .u32(size.steps, size.value)
      .u32(q_pitch, k_pitch, v_pitch, kept ? places.state.size(0) : 0)
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
                        const StateRows& places, const DeltaForm& form = {}) {
  TensorList inputs = {q, k, v, g, beta, form.step_bias, form.log_decay};
  add_places(inputs, places);
  return etna::apply(kGatedLinearAttention, std::span<const Tensor>(inputs),
                     Attrs::of(LinearFormAttrs{form.normalize, form.tiled, places.updated}))[0];
}

}  // namespace

Tensor gated_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g, const Tensor& beta,
                        const StateRows& places, const DeltaForm& form) {
  detail::require_defined("gated_delta_rule", q, k, v, g, beta);
  const DType row = recurrent::row_dtype(q.dtype());
  DeltaForm in_row = form;
  for (Tensor* x : {&in_row.step_bias, &in_row.log_decay})
    if (x->defined()) *x = x->to(row);
  return linear_attention(q, k, v, g.to(row), beta.to(row), places, in_row);
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
