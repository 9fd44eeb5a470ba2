#include <fmt/format.h>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/recurrent/internal/states.h>

// The part of gated_linear_attention that goes from chunk to chunk. All else is products of matrices, of all chunks at
// once.
namespace etna {
namespace {

using namespace recurrent;

enum ChunkInput { kChunkQ, kChunkW, kChunkM, kChunkU, kChunkK, kChunkDecay, kChunkInputs };
/// Inputs of the op's gradient: the same without u, then the gradient of y.
enum ChunkGradientInput { kOfQ, kOfW, kOfM, kOfK, kOfDecay, kOfY };

/// Steps of a chunk that the kernels have rows for.
constexpr std::int64_t kMostChunk = 64;

struct ChunkSizes {
  std::int64_t batch, heads, chunks, steps, key, value;

  /// @param u [B, H, C, L, P]
  ChunkSizes(const Tensor& k, const Tensor& u)
      : batch(u.size(0)), heads(u.size(1)), chunks(u.size(2)), steps(u.size(3)), key(k.size(4)), value(u.size(4)) {}

  Shape of(std::int64_t rows, std::int64_t columns) const { return {batch, heads, chunks, rows, columns}; }
};

/// Checks what both ops read. @param u [B, H, C, L, P] @param all q, w, m, k, decay
ChunkSizes checked(const OpCall& call, const Tensor& u, std::array<Tensor, 5> all) {
  const auto& [q, w, m, k, decay] = all;
  const DType t = u.dtype();
  const auto has_size = [&](const Tensor& x, std::int64_t rows, std::int64_t columns) {
    return x.dim() == 5 && x.dtype() == t && x.shape() == ChunkSizes(k, u).of(rows, columns);
  };
  if ((t != f32 && t != f64) || u.dim() != 5 || k.dim() != 5)
    throw ShapeError(fmt::format("{}: u is {} {} and k {}; wanted f32 or f64 [B, H, C, L, P] and [B, H, C, L, N]",
                                 call.op.name, name(t), str(u.shape()), str(k.shape())));
  const ChunkSizes size(k, u);
  const bool all_fit = has_size(q, size.steps, size.key) && (!w.defined() || has_size(w, size.steps, size.key)) &&
                       has_size(m, size.steps, size.steps) && has_size(k, size.steps, size.key);
  if (!all_fit || decay.dtype() != t || decay.shape() != Shape{size.batch, size.heads, size.chunks})
    throw ShapeError(fmt::format("{}: q is {}, m {}, k {}, decay {} and u {}; they do not fit each other", call.op.name,
                                 str(q.shape()), str(m.shape()), str(k.shape()), str(decay.shape()), str(u.shape())));
  return size;
}

ChunkSizes sizes_of(const OpCall& call) {
  const auto& in = call.in;
  return checked(call, in[kChunkU], {in[kChunkQ], in[kChunkW], in[kChunkM], in[kChunkK], in[kChunkDecay]});
}

std::vector<OutputSpec> chunked_linear_attention_infer(const OpCall& call) {
  const ChunkSizes size = sizes_of(call);
  const DType t = call.in[kChunkU].dtype();
  const StateRows places = state_rows_of(call, kChunkInputs);
  check_places(call, places, size.batch, {size.heads, size.key, size.value}, t);
  std::vector<OutputSpec> specs = {{size.of(size.steps, size.value), t}};
  if (places.state.defined()) specs.push_back({places.state.shape(), t, kChunkInputs + static_cast<int>(kState)});
  return specs;
}

/// The state before each chunk, and what each step writes to it.
std::vector<OutputSpec> chunked_linear_attention_states_infer(const OpCall& call) {
  const ChunkSizes size = sizes_of(call);
  const DType t = call.in[kChunkU].dtype();
  return {{size.of(size.key, size.value), t}, {size.of(size.steps, size.value), t}};
}

/// Chunk by chunk. The results are [B, H, C, ...].
struct ChunkRun {
  std::vector<Tensor> y, states, written;
  Tensor state;  ///< [B, H, N, P], behind the last

  ChunkRun(const OpCall& call, Tensor first) : state(std::move(first)) {
    const auto chunk_of = [&](ChunkInput i, std::int64_t c) {
      return call.in[i].defined() ? call.in[i].select(2, c) : Tensor();
    };
    for (std::int64_t c = 0; c < call.in[kChunkU].size(2); ++c) {
      const Tensor w = chunk_of(kChunkW, c), u = chunk_of(kChunkU, c);
      states.push_back(state);
      written.push_back(w.defined() ? u - matmul(w, state) : u);
      y.push_back(matmul(chunk_of(kChunkQ, c), state) + matmul(chunk_of(kChunkM, c), written.back()));
      state = state * chunk_of(kChunkDecay, c).unsqueeze(-1).unsqueeze(-1) +
              matmul(chunk_of(kChunkK, c).transpose(-2, -1), written.back());
    }
  }
};

/// Chunks side by side; without any, no elements of this shape.
Tensor stacked(const std::vector<Tensor>& chunks, const OutputSpec& wanted, Device device) {
  return chunks.empty() ? zeros(wanted.shape, {wanted.dtype, device}) : stack(chunks, 2);
}

TensorList chunked_linear_attention_reference(const OpCall& call) {
  const ChunkSizes size = sizes_of(call);
  const StateRows places = state_rows_of(call, kChunkInputs);
  const Tensor& u = call.in[kChunkU];
  const ChunkRun run(call,
                     first_states(places, size.batch, {size.heads, size.key, size.value}, {u.dtype(), u.device()}));
  TensorList out = {stacked(run.y, chunked_linear_attention_infer(call)[0], u.device())};
  if (places.state.defined())
    out.push_back(replaced_states(places, run.state, counted_steps(places, size.chunks, u.device())));
  return out;
}

TensorList chunked_linear_attention_states_reference(const OpCall& call) {
  const ChunkSizes size = sizes_of(call);
  const Tensor& u = call.in[kChunkU];
  const ChunkRun run(call, zeros({size.batch, size.heads, size.key, size.value}, {u.dtype(), u.device()}));
  const std::vector<OutputSpec> specs = chunked_linear_attention_states_infer(call);
  return {stacked(run.states, specs[0], u.device()), stacked(run.written, specs[1], u.device())};
}

/// Rows of q, w, k or u as the kernel reads them: chunks one behind the other. @return them and the elements between
PitchedRows rows_of(const Tensor& x) {
  return x.defined() ? pitched(x.reshape({x.size(0) * x.size(1) * x.size(2), x.size(3), x.size(4)})) : PitchedRows{};
}

/// How many elements the kernel loads at once of rows that it reads by fours.
std::uint32_t load_width(std::initializer_list<PitchedRows> all) {
  for (const PitchedRows& rows : all) {
    if (rows.x.defined() && (rows.x.size(2) % 4 != 0 || rows.pitch % 4 != 0 || rows.x.address() % 16 != 0)) return 1;
  }
  return 4;
}

bool fits(const ChunkSizes& size) { return size.steps <= kMostChunk && size.key <= kMostChunkKey; }
/// Writes what a reference computes: on the CPU, and for sizes beyond the kernels'.
bool compose(const TensorList& results, std::span<Tensor> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i].copy_(results[i]);
  return true;
}
std::array<std::uint32_t, 3> column_groups(const ChunkSizes& size) {
  return {gpu::u32((size.value + 15) / 16), gpu::u32(size.heads), gpu::u32(size.batch)};
}

/// What a call of the kernel writes.
struct ChunkResults {
  Tensor y;      ///< or, of `keeps`, the states before the chunks
  Tensor state;  ///< of the places, or of `keeps` what is written; undefined: none
  bool keeps = false;
  std::int64_t steps = 0;  ///< if not 0: y is [B, steps, H, P], of any floating dtype
};

void run_chunks(const OpCall& call, const ChunkedSteps& x, const StateRows& places, const ChunkResults& out) {
  const ChunkSizes size(x.k, x.u);
  const bool kept = places.state.defined();
  const auto dense = [](const Tensor& t) { return t.defined() ? t.contiguous() : t; };
  const Tensor q = dense(x.q), k = dense(x.k), m = dense(x.m);
  const auto w = rows_of(x.w), u = rows_of(x.u);
  gpu::Kernel(shaders::chunked_linear_attention, call)
      .on(out.y.device())
      .spec(size.key, w.x.defined(), kept, places.counts.defined(), out.keeps, load_width({rows_of(q), w, rows_of(k)}),
            out.steps > 0, out.y.dtype(), load_width({rows_of(m)}))
      .read(q)
      .read(w.x)
      .read(m)
      .read(u.x)
      .read(k)
      .read(dense(x.decay))
      .read_write(out.state)
      .read(dense(places.rows))
      .read(dense(places.positions))
      .read(dense(places.counts))
      .index_errors()
      .write(out.y)
      .u32(size.chunks, size.heads, size.steps, size.value)
      .u32(w.pitch, u.pitch, kept ? out.state.size(0) : 0, out.steps > 0 ? out.steps : size.chunks * size.steps)
      .dispatch(column_groups(size));
}

bool run_op(const OpCall& call, std::span<Tensor> out, bool keeps) {
  const ChunkSizes size = sizes_of(call);
  if (out[0].dtype() != f32) return false;
  if (!fits(size))
    return compose(keeps ? chunked_linear_attention_states_reference(call) : chunked_linear_attention_reference(call),
                   out);
  if (size.batch * size.heads * size.value == 0) return true;
  const auto& in = call.in;
  run_chunks(call, {in[kChunkQ], in[kChunkW], in[kChunkM], in[kChunkU], in[kChunkK], in[kChunkDecay]},
             keeps ? StateRows() : state_rows_of(call, kChunkInputs),
             {out[0], out.size() > 1 ? out[1] : Tensor(), keeps});
  return true;
}
void chunked_linear_attention_cpu(const OpCall& call, std::span<Tensor> out) {
  compose(chunked_linear_attention_reference(call), out);
}
bool chunked_linear_attention_gpu(const OpCall& call, std::span<Tensor> out) { return run_op(call, out, false); }
bool chunked_linear_attention_states_gpu(const OpCall& call, std::span<Tensor> out) { return run_op(call, out, true); }

// ---- the gradient, from the last chunk to the first

std::vector<OutputSpec> chunked_linear_attention_backward_infer(const OpCall& call) {
  const auto& in = call.in;
  const ChunkSizes size = checked(call, in[kOfY], {in[kOfQ], in[kOfW], in[kOfM], in[kOfK], in[kOfDecay]});
  const DType t = in[kOfY].dtype();
  return {{size.of(size.steps, size.value), t}, {size.of(size.key, size.value), t}};
}

TensorList chunked_linear_attention_backward_reference(const OpCall& call) {
  const Tensor& dy = call.in[kOfY];
  const ChunkSizes size(call.in[kOfK], dy);
  const auto chunk_of = [&](ChunkGradientInput i, std::int64_t c) { return call.in[i].select(2, c); };
  const auto slots = static_cast<std::size_t>(size.chunks);
  std::vector<Tensor> u(slots), states(slots);
  Tensor state = zeros({size.batch, size.heads, size.key, size.value}, {dy.dtype(), dy.device()});
  for (std::int64_t c = size.chunks; c-- > 0;) {
    const auto at = static_cast<std::size_t>(c);
    const Tensor y = chunk_of(kOfY, c);
    states[at] = state;
    u[at] = matmul(chunk_of(kOfM, c).transpose(-2, -1), y) + matmul(chunk_of(kOfK, c), state);
    state = state * chunk_of(kOfDecay, c).unsqueeze(-1).unsqueeze(-1) + matmul(chunk_of(kOfQ, c).transpose(-2, -1), y);
    if (call.in[kOfW].defined()) state = state - matmul(chunk_of(kOfW, c).transpose(-2, -1), u[at]);
  }
  const std::vector<OutputSpec> specs = chunked_linear_attention_backward_infer(call);
  return {stacked(u, specs[0], dy.device()), stacked(states, specs[1], dy.device())};
}

bool chunked_linear_attention_backward_gpu(const OpCall& call, std::span<Tensor> out) {
  const ChunkSizes size(call.in[kOfK], call.in[kOfY]);
  if (out[0].dtype() != f32) return false;
  if (!fits(size)) return compose(chunked_linear_attention_backward_reference(call), out);
  if (size.batch * size.heads * size.chunks * size.value == 0) return true;
  const Tensor q = call.in[kOfQ].contiguous(), k = call.in[kOfK].contiguous();
  const auto w = rows_of(call.in[kOfW]);
  gpu::Kernel(shaders::chunked_linear_attention_backward, call)
      .spec(std::max<std::int64_t>(32, (size.key + 31) / 32 * 32), w.x.defined(),
            load_width({rows_of(q), w, rows_of(k)}))
      .read(q)
      .read(w.x)
      .read(call.in[kOfM].contiguous())
      .read(k)
      .read(call.in[kOfDecay].contiguous())
      .read(call.in[kOfY].contiguous())
      .write(out[0])
      .write(out[1])
      .u32(size.chunks, size.heads, size.steps, size.key, size.value, w.pitch)
      .dispatch(column_groups(size));
  return true;
}

/// Both have no gradient of their own: second derivatives go through the references.
const OpDef kChunkStates = {.name = "chunked_linear_attention_states",
                            .infer = chunked_linear_attention_states_infer,
                            .gpu = chunked_linear_attention_states_gpu,
                            .reference = chunked_linear_attention_states_reference,
                            .saved = Saved::inputs};
const OpDef kChunkedBackward = {.name = "chunked_linear_attention_backward",
                                .infer = chunked_linear_attention_backward_infer,
                                .gpu = chunked_linear_attention_backward_gpu,
                                .reference = chunked_linear_attention_backward_reference,
                                .saved = Saved::inputs};

TensorList chunked_linear_attention_vjp(const VjpCall& call) {
  const auto in = call.in.first(kChunkInputs);
  const Tensor& dy = call.grad[0];
  const TensorList kept = apply(kChunkStates, in);
  const TensorList gradients =
      apply(kChunkedBackward, {in[kChunkQ], in[kChunkW], in[kChunkM], in[kChunkK], in[kChunkDecay], dy});
  const auto &states = kept[0], &written = kept[1], &du = gradients[0], &later = gradients[1];
  const auto product = [&](ChunkInput i, const Tensor& a, const Tensor& b) {
    return in[i].defined() && call.needs[i] ? matmul(a, b.transpose(-2, -1)) : Tensor();
  };
  TensorList result(call.in.size());
  result[kChunkQ] = product(kChunkQ, dy, states);
  result[kChunkW] = product(kChunkW, -du, states);
  result[kChunkM] = product(kChunkM, dy, written);
  result[kChunkU] = du;
  result[kChunkK] = product(kChunkK, written, later);
  if (call.needs[kChunkDecay]) result[kChunkDecay] = (states * later).sum({-2, -1});
  return result;
}

const OpDef kChunked = {.name = "chunked_linear_attention",
                        .infer = chunked_linear_attention_infer,
                        .cpu = chunked_linear_attention_cpu,
                        .gpu = chunked_linear_attention_gpu,
                        .reference = chunked_linear_attention_reference,
                        .vjp = chunked_linear_attention_vjp,
                        .saved = Saved::inputs};

}  // namespace

Tensor recurrent::chunked_linear_attention(const ChunkedSteps& steps, const StateRows& places) {
  TensorList inputs = {steps.q, steps.w, steps.m, steps.u, steps.k, steps.decay};
  add_places(inputs, places);
  return etna::apply(kChunked, std::span<const Tensor>(inputs))[0];
}

void recurrent::run_chunked_steps(const OpCall& call, const ChunkedSteps& steps, const StateRows& places,
                                  const Tensor& y) {
  run_chunks(call, steps, places, {y, places.state, false, y.size(1)});
}

std::span<const OpDef* const> ops_in_chunked_linear_attention() {
  static const OpDef* const list[] = {&kChunked, &kChunkStates, &kChunkedBackward};
  return list;
}

}  // namespace etna
