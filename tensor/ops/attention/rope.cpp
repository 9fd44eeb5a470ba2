#include <cmath>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// Rotary position embedding. Its gradient is the inverse rotation.
namespace etna {
namespace {

struct RopeAttrs {
  bool interleaved = false;
  bool back = false;  ///< rotate by the negative angles
};

enum RopeIn { kRopeX, kRopeFrequencies, kRopePositions };

std::vector<OutputSpec> rope_infer(const OpCall& call) {
  const Tensor &x = call.in[kRopeX], &frequencies = call.in[kRopeFrequencies], &positions = call.in[kRopePositions];
  if (!is_floating(x.dtype())) throw DtypeError(fmt::format("rope: x is {}; wanted a floating dtype", name(x.dtype())));
  if (x.dim() < 2 || frequencies.dim() != 1 || 2 * frequencies.size(0) > x.size(-1)) {
    throw ShapeError(fmt::format("rope: x is {}, the frequencies are {}; wanted [..., T, D] and at most D/2 of them",
                                 str(x.shape()), str(frequencies.shape())));
  }
  if (!is_floating(frequencies.dtype()))
    throw DtypeError(fmt::format("rope: the frequencies are {}; wanted f32", name(frequencies.dtype())));
  if (!positions.defined()) return {{x.shape(), x.dtype()}};
  if (positions.dtype() != i64 && positions.dtype() != i32)
    throw DtypeError(fmt::format("rope: the positions are {}; wanted i64 or i32", name(positions.dtype())));
  if (positions.dim() > 1 || (positions.dim() == 1 && positions.size(0) != x.size(-2))) {
    throw ShapeError(fmt::format("rope: the positions are {}, x is {}; wanted one number or [{}]",
                                 str(positions.shape()), str(x.shape()), x.size(-2)));
  }
  return {{x.shape(), x.dtype()}};
}

/// x as [A, B, T, D] with strides. Copies only if the leading dimensions do not merge or the elements of a row are not
/// adjacent.
Tensor four_dims(const Tensor& x) {
  const bool dense = x.size(-1) <= 1 || x.strides().back() == 1;
  Tensor y = x.dim() <= 4 && dense ? x : x.contiguous();
  while (y.dim() < 4) y = y.unsqueeze(0);
  return y.dim() == 4 ? y : y.reshape({-1, y.size(-3), y.size(-2), y.size(-1)});
}

void rope_cpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return;
  const auto a = call.as<RopeAttrs>();
  const Tensor x = four_dims(call.in[kRopeX]), &at = call.in[kRopePositions];
  const Tensor frequencies = call.in[kRopeFrequencies].to(x.dtype() == f64 ? f64 : f32).contiguous();
  const std::int64_t steps = x.size(2), size = x.size(3), pairs = frequencies.size(0), heads = x.size(0) * x.size(1);
  const std::vector<std::int64_t> given = at.defined() ? at.to_vector<std::int64_t>() : std::vector<std::int64_t>{0};
  const bool each = at.defined() && at.dim() == 1;
  rows::visit_compute(x.dtype(), [&](auto zero) {
    using T = std::conditional_t<std::is_same_v<decltype(zero), double>, double, float>;
    cpu::Scratch<T> table(static_cast<std::size_t>(2 * steps * pairs));
    const T* frequency = frequencies.host<T>();
    for (std::int64_t t = 0; t < steps; ++t) {
      const auto position = static_cast<T>(each ? given[static_cast<std::size_t>(t)] : given[0] + t);
      for (std::int64_t i = 0; i < pairs; ++i) {
        const T angle = position * frequency[i];
        table[static_cast<std::size_t>((t * pairs + i) * 2)] = std::cos(angle);
        table[static_cast<std::size_t>((t * pairs + i) * 2 + 1)] = a.back ? -std::sin(angle) : std::sin(angle);
      }
    }
    const std::int64_t distance = a.interleaved ? 1 : pairs, step = a.interleaved ? 2 : 1;
    const std::int64_t grain = std::max<std::int64_t>(1, rows::kGrain / size);
    cpu::parallel_for(heads * steps, grain, [&](std::int64_t begin, std::int64_t end) {
      cpu::Scratch<T> from(static_cast<std::size_t>(size)), to(static_cast<std::size_t>(size));
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t t = r % steps, head = r / steps;
        const std::int64_t offset =
            head / x.size(1) * x.strides()[0] + head % x.size(1) * x.strides()[1] + t * x.strides()[2];
        const T *in = rows::read(x, offset, 1, size, from.data()), *turn = table.data() + t * pairs * 2;
        for (std::int64_t i = 0; i < pairs; ++i) {
          const T u = in[i * step], v = in[i * step + distance];
          to[static_cast<std::size_t>(i * step)] = u * turn[2 * i] - v * turn[2 * i + 1];
          to[static_cast<std::size_t>(i * step + distance)] = v * turn[2 * i] + u * turn[2 * i + 1];
        }
        std::copy_n(in + 2 * pairs, size - 2 * pairs, to.data() + 2 * pairs);
        rows::write(out[0], r * size, 1, size, to.data());
      }
    });
  });
}

bool rope_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[0].numel() == 0) return true;
  const auto a = call.as<RopeAttrs>();
  const Tensor x = four_dims(call.in[kRopeX]), frequencies = call.in[kRopeFrequencies].to(f32).contiguous();
  const Tensor positions = call.in[kRopePositions].defined() ? call.in[kRopePositions].contiguous() : Tensor();
  const std::int64_t size = x.size(3), pairs = frequencies.size(0), threads = (size + 1) / 2;
  const std::int64_t count = checked_product(out[0].numel() / size, threads, "rope");
  gpu::Kernel(shaders::rope, call)
      .spec(out[0].dtype(), a.interleaved, a.back, positions.defined() ? gpu::u32(positions.dtype()) : 99u)
      .read(x)
      .read(frequencies)
      .read(positions)
      .write(out[0])
      .u32(count, x.size(1), x.size(2), size, pairs)
      .u32(x.strides()[0], x.strides()[1], x.strides()[2])
      .u32(positions.defined() && positions.dim() == 1)
      .dispatch(gpu::grid(count, 256));
  return true;
}

TensorList rope_reference(const OpCall& call) {
  const auto a = call.as<RopeAttrs>();
  const Tensor &x = call.in[kRopeX], &given = call.in[kRopePositions];
  const DType row = x.dtype() == f64 ? f64 : f32;
  if (x.numel() == 0) return {x.clone()};
  Tensor at = cumsum(ones({x.size(-2)}, {row, x.device()}), 0) - 1.0;
  if (given.defined()) at = given.dim() == 1 ? given.to(row) : at + given.to(row);
  const Tensor angle = at.unsqueeze(1) * call.in[kRopeFrequencies].to(row);
  return {apply_rotary(x.to(row), cos(angle), a.back ? -sin(angle) : sin(angle), a.interleaved).to(x.dtype())};
}

TensorList rope_vjp(const VjpCall& call);

const OpDef kRope = {.name = "rope",
                     .infer = rope_infer,
                     .cpu = rope_cpu,
                     .gpu = rope_gpu,
                     .reference = rope_reference,
                     .vjp = rope_vjp,
                     .saved = Saved::inputs,
                     .saved_inputs = 1u << kRopeFrequencies | 1u << kRopePositions};

TensorList rope_vjp(const VjpCall& call) {
  auto a = call.as<RopeAttrs>();
  a.back = !a.back;
  return {apply1(kRope, {call.grad[0], call.in[kRopeFrequencies], call.in[kRopePositions]}, Attrs::of(a)), {}, {}};
}

}  // namespace

Tensor rope(const Tensor& x, const Tensor& frequencies, const Tensor& positions, bool interleaved) {
  detail::require_defined("rope", x, frequencies);
  return apply1(kRope, {x, frequencies.detach(), positions}, Attrs::of(RopeAttrs{.interleaved = interleaved}));
}

Tensor rotary_frequencies(std::int64_t size, double base, Device device) {
  if (size < 0 || size % 2 != 0 || !(base > 0)) {
    throw ShapeError(
        fmt::format("rotary_frequencies: size {}, base {}; wanted an even size and a base above 0", size, base));
  }
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < size / 2; ++i) {
    const double exponent = -2 * static_cast<double>(i) / static_cast<double>(size);
    frequencies.push_back(static_cast<float>(std::pow(base, exponent)));
  }
  return from_vector(frequencies, device);
}

Tensor apply_rotary(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  detail::require_defined("apply_rotary", x, cos, sin);
  if (x.dim() < 2 || cos.dim() < 1 || cos.shape() != sin.shape() || 2 * cos.size(-1) > x.size(-1)) {
    throw ShapeError(fmt::format("apply_rotary: x {}, cos {}, sin {}; wanted [..., T, D] and [T, R/2] with R at most D",
                                 str(x.shape()), str(cos.shape()), str(sin.shape())));
  }
  const std::int64_t pairs = cos.size(-1), size = x.size(-1);
  const Tensor rotated = x.slice(-1, 0, 2 * pairs);
  Shape split = rotated.shape();
  split.back() = interleaved ? pairs : 2;
  split.push_back(interleaved ? 2 : pairs);
  const std::int64_t dim = interleaved ? -1 : -2;
  const Tensor both = rotated.reshape(split), u = both.select(dim, 0), v = both.select(dim, 1);
  const Tensor y = stack({u * cos - v * sin, v * cos + u * sin}, dim).reshape(rotated.shape());
  if (2 * pairs == size) return y;
  return cat({y, x.slice(-1, 2 * pairs, size)}, -1);
}

std::span<const OpDef* const> ops_in_rope() {
  static const OpDef* const list[] = {&kRope};
  return list;
}

}  // namespace etna
