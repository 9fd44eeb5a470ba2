#pragma once

#include <cstdint>
#include <vector>

#include <etna/device/arguments.h>
#include <etna/tensor/op.h>

/// Layers that keep a state of bounded size of what they have read, in place of all keys. Internal.
namespace etna {

/// Positions that a causal convolution spans at most.
inline constexpr std::int64_t kMostConvolution = 16;

/// States of sequences. A captured step reads the places at each replay.
struct StateRows {
  Tensor state = {};      ///< [S, ...] contiguous, f32 (f64 for f64); undefined: all begin, and nothing is kept
  Tensor rows = {};       ///< [B] i32: each sequence's row of `state`, all different
  Tensor positions = {};  ///< [B] i32: of the first of T new steps; 0: the state counts as 0; below 0: no step counts
  Tensor counts = {};     ///< [B] i32: how many of the steps count, the first ones; undefined: all
  bool updated = true;    ///< in place; false: the steps begin from the state, which stays as it is
};

/// Depthwise convolution over the last K steps: y[t, c] = bias[c] + Σ weight[c, k] · x[t - K + 1 + k, c]. Steps before
/// the first are those of the state. Differentiable where there is no state.
/// @param x [B, T, C] floating @param weight [C, K], K at most kMostConvolution @param bias [C] or undefined
/// @param silu applied to the result
/// @param places its state: [S, K, C], the last K steps, each at its position modulo K
/// @return [B, T, C] in the dtype of x; 0 at steps that do not count @throws ShapeError, DtypeError, IndexError
Tensor causal_conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, bool silu,
                     const StateRows& places = {});

/// What gated_delta_rule() does before the rule, as layers of Qwen3-Next's design do.
struct DeltaForm {
  bool normalize = false;  ///< q and k are divided by their lengths, √(Σ x² + 1e-6), q by √N as well
  bool tiled = false;      ///< the heads of values take those of keys in turns: h takes h mod G
  /// [H] both or neither. Then decay is -exp(log_decay) · softplus(g + step_bias), and what is given as beta goes
  /// through a sigmoid.
  Tensor step_bias = {}, log_decay = {};
};

/// The gated delta rule (Yang et al. 2024), head by head: S ← exp(g) · S, then S ← S + k · (β · (v - Sᵀ·k))ᵀ, and
/// y = Sᵀ·q. Sums are f32. Differentiable where there is no state. Many steps are computed by chunks on a GPU, and so
/// is backward.
/// @param q, k [B, T, G, N] floating, for heads of values in order: the first H / G share the first one
/// @param v [B, T, H, P] @param g, beta [B, T, H], decay as a logarithm, at most 0
/// @param places its state: [S, H, N, P] @return [B, T, H, P] in the dtype of q; 0 at steps that do not count
/// @throws ShapeError, DtypeError, IndexError
Tensor gated_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g, const Tensor& beta,
                        const StateRows& places = {}, const DeltaForm& form = {});

/// One step of each sequence through causal_conv1d() with silu and gated_delta_rule(): of a delta net, while a text is
/// generated. A GPU computes both in one dispatch.
/// @param x [B, 1, 2·G·N + H·P]: q, k and v in front of the convolution @param weight [C, K] @param g, beta [B, 1, H]
/// @param inputs the convolution's state, [S, K, C], at the same places as @param memory, the rule's
/// @param form with both gates @return [B, 1, H, P] @throws ShapeError, DtypeError, IndexError
Tensor delta_net_step(const Tensor& x, const Tensor& weight, const Tensor& g, const Tensor& beta, const Tensor& inputs,
                      const StateRows& memory, const DeltaForm& form);

/// The state space scan of Mamba-2 (Dao & Gu 2024), head by head: S ← exp(dt · a) · S + B · (dt · x)ᵀ, and
/// y = Sᵀ·C + d · x. As gated_delta_rule() otherwise.
/// @param x [B, T, H, P] floating @param dt [B, T, H], steps of time @param a [H], below 0
/// @param b, c [B, T, G, N] @param d [H]
Tensor state_space_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                        const Tensor& d, const StateRows& places = {});

/// Parts of ops with a StateRows.
namespace recurrent {

/// What an op knows of the places, in this order among its inputs.
enum PlaceInput : std::uint8_t { kState, kStateRows, kStatePositions, kStateCounts, kPlaceInputs };

void add_places(TensorList& inputs, const StateRows& places);
/// @param first input of the places
StateRows state_rows_of(const OpCall& call, std::size_t first);
/// Checks dtypes and shapes. @param wanted of one row of the state @param row its dtype
void check_places(const OpCall& call, const StateRows& places, std::int64_t batch, const Shape& wanted, DType row);

/// The state as an argument of a kernel. @param updated whether the kernel writes to it
Arguments state_argument(const StateRows& places, bool updated);

/// How many steps of each sequence count, on the CPU.
std::vector<std::int64_t> step_counts(const StateRows& places, std::int64_t batch, std::int64_t steps);
/// The row of a sequence's state, on the CPU. @throws IndexError
std::int64_t state_row(const OpCall& call, const StateRows& places, std::int64_t sequence);
/// Of a sequence's first step, on the CPU; 0 where there is no state.
std::int64_t position_of(const StateRows& places, std::int64_t sequence);

/// For references: true where a step counts, [B, T]; there is a state.
Tensor counted_steps(const StateRows& places, std::int64_t steps, Device device);
/// For references: the rows of sequences, [B, ...], as they are. @param wanted of one row
Tensor own_states(const StateRows& places, std::int64_t batch, const Shape& wanted, const TensorOptions& options);
/// For references: the states before the first step, [B, ...]; of sequences of which no step counts, any.
/// @param wanted of one row
Tensor first_states(const StateRows& places, std::int64_t batch, const Shape& wanted, const TensorOptions& options);
/// For references: the state with the rows of those sequences replaced of which a step counts. @param after [B, ...]
Tensor replaced_states(const StateRows& places, const Tensor& after, const Tensor& counted);

/// Elements of a head's keys that the GPU's kernel for single steps keeps in registers of eight threads.
inline constexpr std::int64_t kMostKey = 512;
/// Elements of a key up to which a GPU goes from chunk to chunk in one kernel.
inline constexpr std::int64_t kMostChunkKey = 256;

/// Steps of heads in C chunks of L, L at most 64 on a GPU, with f32 (or f64) elements.
struct ChunkedSteps {
  Tensor q;      ///< [B, H, C, L, N], what the state before the chunk is asked by
  Tensor w;      ///< [B, H, C, L, N], what it is multiplied by in what is written; undefined: nothing
  Tensor m;      ///< [B, H, C, L, L], how much of what each step writes is in each step's result
  Tensor u;      ///< [B, H, C, L, P], what is written where the state is 0
  Tensor k;      ///< [B, H, C, L, N], by which it is written to the state behind the chunk
  Tensor decay;  ///< [B, H, C], of the state over the chunk
};
/// From chunk to chunk: written = u - w · S, y = q · S + m · written, S ← decay · S + kᵀ · written.
/// @param places as for gated_delta_rule(); `counts` only tells whether any step counts @return y [B, H, C, L, P]
Tensor chunked_linear_attention(const ChunkedSteps& steps, const StateRows& places = {});
/// The same by the kernel alone, on a GPU and for chunks of 64 with keys of at most kMostChunkKey elements: y is
/// [B, T, H, P] of any floating dtype, 0 at steps that do not count, and the state of the places is updated.
void run_chunked_steps(const OpCall& call, const ChunkedSteps& steps, const StateRows& places, const Tensor& y);

/// Rows of equal distance, as kernels read them.
struct PitchedRows {
  Tensor x;
  std::int64_t pitch = 0;  ///< elements between the steps
};
/// x [B, T, ...] as it lies, where all steps are dense and equally far from each other; else a copy.
PitchedRows pitched(const Tensor& x);

}  // namespace recurrent
}  // namespace etna
