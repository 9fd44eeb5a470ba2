#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <etna/device/arguments.h>
#include <etna/device/device.h>
#include <etna/device/memory.h>

/// How ops see a GPU, whatever its backend: a shader, its specialization constants and its arguments.
namespace etna::gpu {

/// One compiled shader variant, embedded by the build. `words` is empty where the build's GLSL compiler lacks a
/// required extension.
struct Shader {
  const char* name;
  std::span<const std::uint32_t> words;
};

struct ElementwiseInfo;
struct PrologueFusion;

/// One dispatch. Spans only need to live until enqueue() returns.
struct Dispatch {
  const Shader& shader;
  std::string_view op;                              ///< for errors and the profiler
  std::span<const std::uint32_t> spec = {};         ///< specialization constants, constant_id 0, 1, 2 ... in order
  const Arguments& arguments;                       ///< in the order of the shader's push constants, at most 128 bytes
  std::array<std::uint32_t, 3> groups = {1, 1, 1};  ///< at most 65535 each
  const ElementwiseInfo* elementwise = nullptr;     ///< what it computes, if elementwise (graph/fusion_info.h)
  const PrologueFusion* through = nullptr;  ///< what it reads, if fusion may replace that read by a computed value
};

/// One kernel of a cubin: machine code for one generation of GPUs. `cubin` is empty where the build had no compiler for
/// it.
struct CubinKernel {
  const char* name;
  std::span<const std::byte> cubin;
  std::uint32_t architecture;  ///< 90: sm_90a
};

/// One launch of such a kernel, which takes one struct by value. Spans only need to live until enqueue() returns.
struct CubinDispatch {
  const CubinKernel& kernel;
  std::string_view op;
  const Arguments& arguments;  ///< the struct, without padding
  std::array<std::uint32_t, 3> groups = {1, 1, 1};
  std::uint32_t threads = 128;     ///< per group, in one dimension
  std::uint32_t shared_bytes = 0;  ///< in addition to what the kernel declares

  static constexpr std::size_t kMostParameters = 768;
};

/// Whether the device runs the GPU kernels of ops. If not, the functions below throw.
bool runs_kernels(Device device);

/// Queues a dispatch after everything queued before it on the device; a barrier goes between where ranges conflict.
/// While this thread captures a step (graph/graph.h), this function and those below queue for its replays instead, and
/// an update becomes a constant.
/// @throws DeviceLost, DeviceError (pipeline cannot be built, shared memory over the limit ...)
void enqueue(Device device, const Dispatch& dispatch);
void enqueue(Device device, const CubinDispatch& dispatch);

/// Queues a copy between two storages / a fill with a repeated u32 / an update with bytes stored in the command buffer
/// (a multiple of 4; for tables and small numbers; not counted as a transfer).
void enqueue_copy(Device device, const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset,
                  std::size_t bytes);
void enqueue_fill(Device device, Storage& to, std::size_t offset, std::size_t bytes, std::uint32_t word);
void enqueue_update(Device device, Storage& to, std::size_t offset, std::span<const std::byte> bytes);
/// The same for a table that contains addresses.
void enqueue_update(Device device, Storage& to, std::size_t offset, const Arguments& rows);

/// Element types of cooperative matrices: operands or sums.
enum class MatrixElement : std::uint8_t { f16, bf16, f32, i8, i32 };

/// A product that a subgroup's matrix units compute at once: sums [m, n] += a [m, k] · b [k, n].
struct MatrixShape {
  std::uint32_t m = 0, n = 0, k = 0;
  MatrixElement operands = MatrixElement::f16, sums = MatrixElement::f32;
  friend bool operator==(const MatrixShape&, const MatrixShape&) = default;
};

/// Features that a kernel may use.
struct Capabilities {
  bool float16 = false;  ///< arithmetic on f16 (storage of 8 and 16 bits is required of every device)
  bool int64 = false;
  bool float64 = false;
  bool packed_dot = false;  ///< dot product of four packed i8 in one instruction
  bool cooperative_matrix = false;
  std::uint32_t cubin = 0;           ///< the architecture whose machine code the device runs: 90 on Hopper; 0: none
  bool cooperative_matrix2 = false;  ///< VK_NV_cooperative_matrix2: reductions, conversions and per-element functions
  /// those of KHR_cooperative_matrix; bf16 and i8 only where shaders may use them
  std::vector<MatrixShape> matrix_shapes;
  bool has(const MatrixShape& shape) const;
  bool subgroup_arithmetic = false;
  std::uint32_t subgroup_size = 32;
  std::uint32_t shared_memory_bytes = 32768;
  std::uint32_t max_workgroup_size = 1024;  ///< invocations
  std::uint32_t max_subgroups = 32;         ///< of a workgroup whose kernel uses subgroups
  std::uint32_t compute_units = 1;  ///< estimated where the driver does not tell; used to choose how far to split work
  float timestamp_period_ns = 0;
  /// How often the loops of one invocation, all together, go round before the driver silently ends them; 0: forever.
  std::uint32_t most_iterations = 0;
};
const Capabilities& capabilities(Device device);

/// Where a kernel of this op reports an index outside its dimension (shaders/lib/index.glsl). The next call that waits
/// for the device throws IndexError. No barrier orders these reports. Null if the backend does not collect them.
Pointer index_errors(Device device, std::string_view op);

/// What a device's queue has done since the start of the process. For tests and reports.
struct QueueStats {
  std::uint64_t dispatches = 0, barriers = 0, submits = 0, pipelines = 0;
};
/// Zeros where the device does not run GPU kernels.
QueueStats queue_stats(Device device);

}  // namespace etna::gpu
