#include <etna/tensor/ops/loss/internal/linear_cross_entropy.h>

#include <algorithm>

#include <etna/device/internal/memory_settings.h>
#include <etna/device/internal/rounding.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>

namespace etna::loss::chunked {
namespace {

/// Most 16-byte vectors of a row that a thread keeps in registers: 80 registers.
constexpr std::int64_t kMostVectorsPerThread = 20;
/// Vectors that a thread has of a tile.
constexpr std::int64_t kTileVectorsPerThread = 4, kTileThreads = 256;
/// Most vectors that a thread loads at a time where the states of tiles are there.
constexpr std::int64_t kMostVectorsAtATime = 9;

struct Chunk {
  std::int64_t begin, end;
  Tensor of(const Tensor& x) const { return x.slice(0, begin, end); }
};

std::vector<Chunk> chunks(std::int64_t rows, std::int64_t each) {
  std::vector<Chunk> all;
  for (std::int64_t begin = 0; begin < rows; begin += each) all.push_back({begin, std::min(rows, begin + each)});
  return all;
}

/// Vectors of a row that each thread loads at a time, in as few turns as there can be.
std::int64_t at_a_time(std::int64_t vectors) {
  const std::int64_t of_thread = std::max<std::int64_t>(1, ceil_div(vectors, kTileThreads));
  return ceil_div(of_thread, ceil_div(of_thread, kMostVectorsAtATime));
}

std::int64_t padded(std::int64_t classes, DType t) {
  auto per = static_cast<std::int64_t>(16 / item_size(t));
  return (classes + per - 1) / per * per;
}

/// Adds a chunk's contribution, computed from its gradient of the logits, to the wanted gradients.
/// @param multiply gemm (a, b, epilogue, y) @param scale factor @param scale_by a further factor on the device, or
/// undefined
void add_gradients(const LinearCrossEntropyAttrs& a, const Outputs& out, const Chunk& chunk, const Tensor& x,
                   const Tensor& weight, const Tensor& dlogits, float scale, const Tensor& scale_by,
                   const auto& multiply) {
  auto into = [&](const Tensor& y) {
    return gemm::Epilogue{.scale = scale, .scale_by = scale_by, .residual = chunk.begin > 0 ? y : Tensor()};
  };
  if (a.wants_x) {
    Tensor y = chunk.of(out.x);
    multiply(dlogits, weight, gemm::Epilogue{.scale = scale, .scale_by = scale_by}, y);
  }
  if (a.wants_weight) {
    Tensor y = out.weight;
    multiply(dlogits.t(), chunk.of(x), into(y), y);
  }
  if (a.wants_bias) {
    Tensor y = out.bias.unsqueeze(0);
    multiply(ones({1, dlogits.size(0)}, {dlogits.dtype(), dlogits.device()}), dlogits, into(y), y);
  }
}

/// Bytes of logits at a time: a 64th of the memory that may be used, so that the weight's gradient, which each chunk
/// reads and writes, costs little. The same in every run on a device, and so are the bits of the sums.
std::int64_t chunk_bytes(Device device) {
  constexpr std::uint64_t least = std::uint64_t{128} << 20, most = std::uint64_t{1} << 30;
  return static_cast<std::int64_t>(std::clamp(memory_of(device) / 64, least, most));
}

}  // namespace

std::int64_t rows_of_chunk(std::int64_t rows, std::int64_t row_bytes, std::int64_t most_bytes) {
  // Two chunks at least where that saves memory worth saving, each with enough rows for an efficient gemm.
  constexpr std::int64_t least = 256, whole_bytes = std::int64_t{128} << 20;
  const std::int64_t fitting = std::max(least, most_bytes / std::max<std::int64_t>(1, row_bytes) / least * least);
  const std::int64_t halves =
      rows * row_bytes <= whole_bytes ? rows : std::max(least, ((rows + 1) / 2 + least - 1) / least * least);
  return std::max<std::int64_t>(1, std::min(fitting, halves));
}

bool gpu(const OpCall& call, std::span<Tensor> out) {
  const DType t = call.in[0].dtype();
  if (t == f64) return false;
  auto a = call.as<LinearCrossEntropyAttrs>();
  Outputs to(a, out);
  const Tensor x = call.in[0].contiguous(), &weight = call.in[1], &bias = call.in[2], target = call.in[3].contiguous();
  const std::int64_t rows = x.size(0), classes = weight.size(0), stride = padded(classes, t);
  const Device device = x.device();
  const auto vector_bytes = std::int64_t{16}, row_bytes = stride * static_cast<std::int64_t>(item_size(t));
  const std::vector<Chunk> all = chunks(rows, rows_of_chunk(rows, row_bytes, chunk_bytes(device)));

  const Tensor losses = empty({rows}, {f32, device}), divisor = empty({2}, {f32, device});
  const Tensor room = empty({all.empty() ? 0 : all.front().end, stride}, {t, device});
  const bool wide = gpu::capabilities(device).max_workgroup_size >= 512;
  const std::int64_t threads = wide ? 512 : 256, each = (row_bytes / vector_bytes + threads - 1) / threads;
  const bool mean = a.loss.reduction == Reduction::mean;
  // All kernels share one argument list; `memory` adds the addresses, null where a kernel does not use one.
  auto dispatch = [&](const gpu::Shader& shader, std::int64_t vectors, std::int64_t first, std::int64_t count,
                      std::int64_t tiles, std::array<std::uint32_t, 3> groups, const auto& memory) {
    gpu::Kernel kernel(shader, call);
    kernel.spec(t, target.dtype(), mean, a.loss.label_smoothing != 0, a.wants_any());
    kernel.spec(vectors);
    memory(kernel);
    kernel.index_errors()
        .u64(static_cast<std::uint64_t>(a.loss.ignore_index))
        .u32(count, classes, stride, first, tiles)
        .f32(static_cast<float>(a.loss.label_smoothing))
        .f32(stored_factor(t))
        .dispatch(groups);
  };
  const Tensor unused;
  auto multiply = [&](const Tensor& l, const Tensor& r, const gemm::Epilogue& e, Tensor& y) {
    gemm::on_gpu(call, l, r, e, y);
  };

  dispatch(shaders::linear_cross_entropy_count, 1, 0, rows, 0, {1, 1, 1}, [&](gpu::Kernel& kernel) {
    kernel.read(unused).read(target).read(unused).write(divisor).read(unused).read(unused);
  });
  for (const Chunk& chunk : all) {
    Tensor logits = room.slice(0, 0, chunk.end - chunk.begin).slice(1, 0, classes);
    gemm::SoftmaxTiles softmax;
    multiply(chunk.of(x), weight.t(), {.bias = bias, .softmax = &softmax}, logits);
    const std::int64_t count = chunk.end - chunk.begin;
    Tensor& tiles = softmax.states;
    // The gemm does not add up logits.
    if (a.loss.label_smoothing != 0) tiles = {};
    if (!tiles.defined() && each > kMostVectorsPerThread) {
      const std::int64_t a_row = ceil_div(row_bytes / vector_bytes, kTileThreads * kTileVectorsPerThread);
      tiles = empty({count, a_row, 3}, {f32, device});
      dispatch(shaders::linear_cross_entropy_tiles, kTileVectorsPerThread, chunk.begin, count, a_row,
               gpu::grid(count * a_row), [&](gpu::Kernel& kernel) {
                 kernel.read(room).read(unused).read(unused).read(unused).read(unused).write(tiles);
               });
    }
    const gpu::Shader& shader = tiles.defined() ? shaders::linear_cross_entropy_from_tiles
                                : wide          ? shaders::linear_cross_entropy
                                                : shaders::linear_cross_entropy_narrow;
    dispatch(shader, tiles.defined() ? at_a_time(row_bytes / vector_bytes) : each, chunk.begin, count,
             tiles.defined() ? tiles.size(1) : 0, gpu::grid(count), [&](gpu::Kernel& kernel) {
               if (a.wants_any()) {
                 kernel.read_write(room);
               } else {
                 kernel.read(room);
               }
               kernel.read(chunk.of(target)).write(chunk.of(losses)).read(unused).read(unused).read(tiles);
             });
    add_gradients(a, to, chunk, x, weight, logits, 1 / stored_factor(t), divisor.select(0, 0), multiply);
  }
  dispatch(shaders::linear_cross_entropy_total, 1, 0, rows, 0, {1, 1, 1}, [&](gpu::Kernel& kernel) {
    kernel.read(unused).read(unused).read(losses).read(divisor).write(to.loss).read(unused);
  });
  if (all.empty()) {
    for (Tensor& gradient_of_none : out.subspan(1)) gradient_of_none.zero_();
  }
  return true;
}

}  // namespace etna::loss::chunked
