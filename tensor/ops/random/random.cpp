#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/memory.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/internal/detours.h>
#include <etna/tensor/internal/kernels.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/random/internal/philox.h>
#include <etna/tensor/ops/random/random.h>

// Random numbers and dropout. This file is compiled without contraction into fused multiply-adds: it performs the same
// sequence of additions and multiplications as shaders/lib/philox.glsl, and gives the same bits.
namespace etna {
namespace {

using random::Stream;

struct Generator {
  std::mutex mutex;
  Stream next;
};
Generator& generator() {
  static Generator g;
  return g;
}
Stream take_stream() {
  std::lock_guard lock(generator().mutex);
  Stream s = generator().next;
  ++generator().next.offset;
  return s;
}

/// v · 2^-32 for v > 0, truncated to 24 bits.
float fraction(std::uint32_t v) {
  int top = 31 - std::countl_zero(v);
  std::uint32_t mantissa = v << (31 - top) >> 8;
  return std::bit_cast<float>((static_cast<std::uint32_t>(top + 95) << 23) | (mantissa & 0x7fffffu));
}

/// -ln q for 0 < q < 1. ln(1+g)/g is a minimax polynomial, fitted to 1e-8.
float negative_log(float q) {
  std::int32_t bits = std::bit_cast<std::int32_t>(q) - 0x3f3504f3;
  float g = std::bit_cast<float>((bits & 0x7fffff) + 0x3f3504f3) - 1.0f, exponent = static_cast<float>(bits >> 23);
  float l = 0.0872209668f;
  for (float c :
       {-0.143667385f, 0.149523199f, -0.165624127f, 0.199568301f, -0.250020742f, 0.333341867f, -0.499999881f, 1.0f})
    l = l * g + c;
  float high = exponent * 0.693359375f, low = exponent * -0.000212194442f;  // ln 2 as a sum of two numbers
  return -(high + (low + l * g));
}

/// Exponential with rate 1, never 0.
float standard_exponential(std::uint32_t bits) { return negative_log(fraction(bits | 1u)); }

/// The inverse of the normal distribution at one u32: a sign bit and 31 bits of the tail's probability t. With x = 1 -
/// 2t and w = -ln(1 - x²), z = x · f(w), where f is smooth: minimax polynomials, fitted to 1e-8, on the intervals w <
/// 5, < 11, < 22; w stays below 22, since |z| ≤ 6.3.
float standard_normal(std::uint32_t bits) {
  std::uint32_t v = ((bits & 0x7fffffffu) << 1) | 1u;
  float x = fraction(0u - v), tail = fraction(v);
  float q = tail * (1.0f + x);  // 1 - x²
  float w = negative_log(q);
  static constexpr float kPieces[3][11] = {
      {2.5f, -1.24323032e-08f, 3.28560219e-08f, 6.59263151e-07f, -4.89700506e-06f, -7.01922636e-06f, 0.000308785675f,
       -0.00177164457f, -0.00590771716f, 0.34880203f, 2.12331343f},
      {8.0f, 0.0f, 2.61281263e-09f, -3.31364944e-08f, 2.28834722e-07f, -6.67612824e-07f, -1.25999422e-05f,
       0.000347240304f, -0.00714946119f, 0.249406874f, 3.76384258f},
      {16.5f, 0.0f, -6.35135737e-12f, 2.06271125e-10f, -4.85502083e-09f, 1.14474446e-07f, -2.84069142e-06f,
       7.78855319e-05f, -0.00263928296f, 0.175755724f, 5.51882172f}};
  const float* piece = kPieces[w < 5.0f ? 0 : w < 11.0f ? 1 : 2];
  float d = w - piece[0], z = piece[1];
  for (int k = 2; k < 11; ++k) z = z * d + piece[k];
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(z * x) | (bits & 0x80000000u));
}

/// Calls put(i, random bits of element i) for i in [0, n), with W u32 per element.
template <int W, typename Put>
void each_element(Stream stream, std::int64_t n, const Put& put) {
  constexpr std::int64_t tile = 4 * random::kWide / W;
  cpu::parallel_for((n + tile - 1) / tile, 256, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t words[4 * random::kWide];
    for (std::int64_t t = begin; t < end; ++t) {
      random::blocks(stream, static_cast<std::uint64_t>(t) * random::kWide, words);
      std::int64_t count = std::min(tile, n - t * tile);
      for (std::int64_t i = 0; i < count; ++i) put(t * tile + i, words + i * W);
    }
  });
}

__extension__ typedef unsigned __int128 Wide;
std::uint64_t random_wide(const std::uint32_t* words) { return words[0] | static_cast<std::uint64_t>(words[1]) << 32; }

enum class RandomKind : std::uint32_t { uniform, normal, integer, exponential };

/// Integers [low, low + size).
struct Interval {
  std::int64_t low = 0;
  std::uint64_t size = 0;
};

struct FillAttrs {
  Stream stream;
  RandomKind kind;
  Interval interval;
};

/// While a step is captured: seed and offset of its numbers as an i64 [2] tensor, drawn again at each replay. Otherwise
/// undefined; then the attributes hold the stream.
Tensor each_step_stream(Device device) {
  if (!capturing()) return {};
  return detail::each_step_tensor({2}, {i64, device}, [](std::byte* to) {
    const Stream stream = take_stream();
    std::memcpy(to, &stream, sizeof(stream));
  });
}
static_assert(sizeof(Stream) == 16);

/// @param given from each_step_stream()
Stream stream_of(const Tensor& given, const Stream& otherwise) {
  if (!given.defined()) return otherwise;
  const auto* at = given.host<std::int64_t>();
  return {static_cast<std::uint64_t>(at[0]), static_cast<std::uint64_t>(at[1])};
}

/// The leading arguments of both variants of shaders/random/random.comp.
gpu::Kernel kernel(const gpu::Shader& shader, const OpCall& call, const Tensor& x, const Tensor& y,
                   const Stream& stream, const Tensor& given) {
  gpu::Kernel k(shader, call);
  k.write(y).read(x).u64(stream.seed).u64(stream.offset).read(given);
  return k;
}

/// in: the stream, or undefined
bool random_gpu(const OpCall& call, std::span<Tensor> out) {
  auto [stream, kind, interval] = call.as<FillAttrs>();
  Tensor& y = out[0];
  const bool two_words = kind == RandomKind::integer || (kind == RandomKind::uniform && y.dtype() == f64);
  kernel(shaders::random_fill, call, {}, y, stream, call.in[0])
      .spec(y.dtype(), kind)
      .u64(static_cast<std::uint64_t>(interval.low))
      .u64(interval.size)
      .u32(y.numel(), 0)
      .f32(0)
      .dispatch(gpu::grid(y.numel(), two_words ? 512 : 1024));
  return true;
}

void random_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto& attrs = call.as<FillAttrs>();
  const RandomKind kind = attrs.kind;
  const Interval interval = attrs.interval;
  const Stream stream = stream_of(call.in[0], attrs.stream);
  Tensor& y = out[0];
  visit(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = y.host<T>();
    auto convert = [](auto value) {
      if constexpr (sizeof(T) == 2)
        return T(static_cast<float>(value));
      else
        return static_cast<T>(value);
    };
    if (kind == RandomKind::integer) {
      const auto low = static_cast<std::uint64_t>(interval.low), size = interval.size;
      each_element<2>(stream, y.numel(), [&](std::int64_t i, const std::uint32_t* words) {
        auto picked = static_cast<std::uint64_t>(static_cast<Wide>(random_wide(words)) * size >> 64);
        to[i] = convert(static_cast<std::int64_t>(low + picked));
      });
    } else if (kind == RandomKind::normal) {
      each_element<1>(stream, y.numel(),
                      [&](std::int64_t i, const std::uint32_t* words) { to[i] = convert(standard_normal(*words)); });
    } else if (kind == RandomKind::exponential) {
      each_element<1>(stream, y.numel(), [&](std::int64_t i, const std::uint32_t* words) {
        to[i] = convert(standard_exponential(*words));
      });
    } else if (y.dtype() == f64) {
      each_element<2>(stream, y.numel(), [&](std::int64_t i, const std::uint32_t* words) {
        to[i] = convert(static_cast<double>(random_wide(words) >> 11) * 0x1p-53);
      });
    } else {
      // Keeps only as many bits as the type's significand, so that rounding never reaches 1.
      int kept = y.dtype() == f16 ? 11 : y.dtype() == bf16 ? 8 : 24;
      float scale = std::ldexp(1.0f, -kept);
      each_element<1>(stream, y.numel(), [&](std::int64_t i, const std::uint32_t* words) {
        to[i] = convert(static_cast<float>(*words >> (32 - kept)) * scale);
      });
    }
  });
}

/// The op that the functions below call; not in all_ops(), since it takes no tensors.
const OpDef kRandom = {.name = "random", .cpu = random_cpu, .gpu = random_gpu};

Tensor random_filled(const char* op, RandomKind kind, const Shape& shape, TensorOptions options,
                     Interval interval = {}) {
  if (kind == RandomKind::integer ? !is_integral(options.dtype) : !is_floating(options.dtype)) {
    throw DtypeError(fmt::format("{}: got dtype {}; it makes {} numbers", op, name(options.dtype),
                                 kind == RandomKind::integer ? "integer" : "floating"));
  }
  Tensor y = detail::empty(op, shape, options);
  if (y.numel() > std::int64_t{0x7fffffff})
    throw ShapeError(fmt::format("{}: {} has more than 2^31 elements", op, str(shape)));
  const Tensor given = each_step_stream(options.device);
  const Attrs attrs = Attrs::of(FillAttrs{given.defined() ? Stream() : take_stream(), kind, interval});
  if (y.numel() == 0) return y;
  const OpCall call{kRandom, std::span(&given, 1), attrs};
  if (options.device.is_cpu()) {
    capture_hooks::run_cpu_kernel(call, std::span(&y, 1));
    return y;
  }
  capture_hooks::observe(options.device);
  if (run_kernel(call, options.device, std::span(&y, 1))) return y;
  detail::count_fallback(op, fmt::format("no kernel on {}, computed on the CPU", options.device.str()));
  detail::count_detour(Detour::fallback, options.device, op);
  detail::count_cpu_kernel(op);
  Tensor host = empty(shape, {options.dtype, kCPU});
  random_cpu(call, std::span(&host, 1));
  detail::write_back(host, y);
  return y;
}

struct DropoutAttrs {
  Stream stream;
  std::uint32_t threshold;  ///< elements whose random u32 is at least this are kept
  double scale;             ///< factor of the elements kept; 0 keeps nothing
};

std::vector<OutputSpec> dropout_infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  if (!is_floating(x.dtype()))
    throw DtypeError(fmt::format("dropout: the input is {}, it must be floating", name(x.dtype())));
  return {{x.shape(), x.dtype()}};
}

void dropout_cpu(const OpCall& call, std::span<Tensor> out) {
  auto a = call.as<DropoutAttrs>();
  const Stream stream = stream_of(call.in[1], a.stream);
  Tensor x = call.in[0].contiguous();
  auto run = [&](auto zero, auto scale) {
    using T = decltype(zero);
    using Compute = decltype(scale);
    const T* from = x.host<T>();
    T* to = out[0].host<T>();
    each_element<1>(stream, x.numel(), [&](std::int64_t i, const std::uint32_t* words) {
      bool keep = *words >= a.threshold && scale != 0;
      to[i] = keep ? T(static_cast<Compute>(from[i]) * scale) : T(Compute(0));
    });
  };
  switch (x.dtype()) {
    case f64:
      run(double{}, a.scale);
      break;
    case f32:
      run(float{}, static_cast<float>(a.scale));
      break;
    case f16:
      run(Half{}, static_cast<float>(a.scale));
      break;
    default:
      run(BFloat16{}, static_cast<float>(a.scale));
      break;
  }
}

bool dropout_gpu(const OpCall& call, std::span<Tensor> out) {
  auto a = call.as<DropoutAttrs>();
  Tensor& y = out[0];
  if (y.dtype() == f64) return false;
  if (y.numel() == 0) return true;
  Tensor x = call.in[0].contiguous();
  const std::uint64_t four = 4 * item_size(y.dtype());
  const bool aligned = x.address() % four == 0 && y.address() % four == 0;
  // Four blocks per thread hide more memory latency; used only if that still leaves eight workgroups for each compute
  // unit.
  const std::int64_t units = gpu::capabilities(y.device()).compute_units;
  const std::int64_t blocks = y.numel() >= 8 * units * 4096 ? 4 : 1, a_group = 1024 * blocks;
  kernel(shaders::dropout, call, x, y, a.stream, call.in[1])
      .spec(y.dtype(), aligned ? 4 : 1, blocks)
      .u64(0)
      .u64(0)
      .u32(y.numel(), a.threshold)
      .f32(static_cast<float>(a.scale))
      .dispatch(gpu::grid(y.numel(), a_group));
  return true;
}

TensorList dropout_vjp(const VjpCall& call) {
  return {apply1(call.op, {call.grad[0], call.in[1]}, call.attrs), Tensor()};
}
/// in: x, and the stream or undefined
const OpDef kDropout = {.name = "dropout",
                        .infer = dropout_infer,
                        .cpu = dropout_cpu,
                        .gpu = dropout_gpu,
                        .vjp = dropout_vjp,
                        .saved = Saved::inputs,
                        .saved_inputs = 0b10};

}  // namespace

void manual_seed(std::uint64_t seed) {
  std::lock_guard lock(generator().mutex);
  generator().next = {seed, 0};
}

RandomState random_state() {
  std::lock_guard lock(generator().mutex);
  return {generator().next.seed, generator().next.offset};
}
void set_random_state(const RandomState& state) {
  std::lock_guard lock(generator().mutex);
  generator().next = {state.seed, state.offset};
}

std::uint64_t current_seed() {
  std::lock_guard lock(generator().mutex);
  return generator().next.seed;
}

Tensor rand(Shape shape, TensorOptions options) { return random_filled("rand", RandomKind::uniform, shape, options); }
Tensor randn(Shape shape, TensorOptions options) { return random_filled("randn", RandomKind::normal, shape, options); }

Tensor detail::standard_exponential(const Shape& shape, TensorOptions options) {
  return random_filled("exponential", RandomKind::exponential, shape, options);
}

Tensor randint(std::int64_t low, std::int64_t high, Shape shape, TensorOptions options) {
  if (low >= high) throw ShapeError(fmt::format("randint: [{}, {}) is empty; high must be above low", low, high));
  if (is_integral(options.dtype)) {
    auto [least, most] = visit(options.dtype, [](auto zero) -> std::pair<std::int64_t, std::int64_t> {
      using T = decltype(zero);
      if constexpr (std::is_integral_v<T>)
        return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
      else
        return {0, 0};
    });
    if (low < least || high - 1 > most)
      throw DtypeError(fmt::format("randint: {} does not hold all of [{}, {})", name(options.dtype), low, high));
  }
  return random_filled("randint", RandomKind::integer, shape, options,
                       {low, static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low)});
}

Tensor dropout(const Tensor& x, double p, bool training) {
  detail::require_defined("dropout", x);
  if (!(p >= 0 && p <= 1)) throw ShapeError(fmt::format("dropout: p is {}, a probability lies in [0, 1]", p));
  if (!training || p == 0) return x;
  auto threshold = static_cast<std::uint32_t>(std::min(p * 0x1p32, 4294967295.0));
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  const Tensor given = each_step_stream(x.device());
  const Stream stream = given.defined() ? Stream() : take_stream();
  return apply1(kDropout, {x, given}, Attrs::of(DropoutAttrs{stream, threshold, scale}));
}

std::span<const OpDef* const> ops_in_random() {
  static const OpDef* const list[] = {&kDropout};
  return list;
}

}  // namespace etna
