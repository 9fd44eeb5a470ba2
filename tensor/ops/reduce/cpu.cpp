#include <etna/device/internal/cpu/scratch.h>
#include <etna/tensor/ops/reduce/internal/reduce.h>
#include <etna/tensor/ops/reduce/internal/states.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// Each output combines, in order, the states of fixed chunks of its reduction, so that the bits do not depend on the
// number of threads. If outputs are adjacent in memory, a block of columns is reduced together.
namespace etna::reduce {
namespace {

constexpr std::int64_t kRowChunk = 1 << 15;      ///< reduced elements per chunk, for rows
constexpr std::int64_t kColumnChunk = 1 << 9;    ///< the same for columns
constexpr std::int64_t kReduceCpuColumns = 128;  ///< outputs reduced together
constexpr std::int64_t kChunk = 1024;            ///< elements converted at a time

/// The state of elements [begin, end) of one output's reduction.
template <typename State, typename T>
void reduce_row(const Tensor& x, const Plan& plan, std::int64_t base, std::int64_t begin, std::int64_t end,
                State& state) {
  T buffer[kChunk];
  std::int64_t inner = plan.reduced.empty() ? 1 : plan.reduced.back();
  std::int64_t step = plan.reduced.empty() ? 0 : plan.reduced_strides.back();
  for (std::int64_t i = begin; i < end;) {
    std::int64_t n = std::min({end - i, inner - i % inner, kChunk});
    std::int64_t offset = base + rows::offset_of(plan.reduced, plan.reduced_strides, i);
    state.take(rows::read(x, offset, n == 1 ? 1 : step, n, buffer), n, i);
    i += n;
  }
}

/// The same for `n` neighbouring outputs.
template <typename State, typename T>
void reduce_columns(const Tensor& x, const Plan& plan, std::int64_t base, std::int64_t n, std::int64_t begin,
                    std::int64_t end, State* states) {
  T buffer[kReduceCpuColumns];
  // Rows may be as short as a few channels, so everything that is the same for all rows is computed outside the loop.
  const T* elements = x.dtype() == dtype_of<T>() ? x.host<T>() : nullptr;
  const std::int64_t step = plan.reduced.rank() == 1 ? plan.reduced_strides[0] : 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t at =
        base + (plan.reduced.rank() == 1 ? i * step : rows::offset_of(plan.reduced, plan.reduced_strides, i));
    const T* row = elements != nullptr ? elements + at : rows::read(x, at, 1, n, buffer);
    if constexpr (std::is_same_v<State, Sum<T>> && std::is_floating_point_v<T>) {
      static_assert(sizeof(State) == sizeof(double));
      cpu::add_products(&states->total, row, static_cast<const T*>(nullptr), n);
    } else {
      for (std::int64_t c = 0; c < n; ++c) states[c].add(row[c], i);
    }
  }
}

/// @param finish converts a State to the result, in a type that holds it exactly
template <typename State, typename T, typename Finish>
void run(const Tensor& x, const Plan& plan, Tensor& y, const Finish& finish) {
  bool columns = plan.columns();
  std::int64_t width = columns ? plan.kept.back() : 1;      // adjacent outputs
  std::int64_t block = std::min(width, kReduceCpuColumns);  // outputs reduced together
  std::int64_t blocks = (width + block - 1) / block * (plan.outputs / width);
  std::int64_t chunk_length = columns ? kColumnChunk : kRowChunk;
  std::int64_t chunks = std::max<std::int64_t>(1, (plan.length + chunk_length - 1) / chunk_length);
  // Chunk 0 of every output, then chunk 1 of every output ...
  cpu::Scratch<State> states(static_cast<std::size_t>(plan.outputs * chunks), State());
  std::int64_t work = std::max<std::int64_t>(1, std::min(chunk_length, plan.length) * block);
  cpu::parallel_for(blocks * chunks, std::max<std::int64_t>(1, rows::kGrain / work),
                    [&](std::int64_t first, std::int64_t last) {
                      for (std::int64_t task = first; task < last; ++task) {
                        std::int64_t b = task % blocks, p = task / blocks, per_row = (width + block - 1) / block;
                        std::int64_t output = b / per_row * width + b % per_row * block;
                        std::int64_t n = std::min(block, width - b % per_row * block);
                        std::int64_t begin = p * chunk_length, end = std::min(begin + chunk_length, plan.length);
                        std::int64_t base = rows::offset_of(plan.kept, plan.kept_strides, output);
                        State* state = states.data() + p * plan.outputs + output;
                        if (columns)
                          reduce_columns<State, T>(x, plan, base, n, begin, end, state);
                        else
                          reduce_row<State, T>(x, plan, base, begin, end, *state);
                      }
                    });
  visit(y.dtype(), [&](auto zero) {
    using S = decltype(zero);
    S* to = y.host<S>();
    for (std::int64_t i = 0; i < plan.outputs; ++i) {
      State& state = states[static_cast<std::size_t>(i)];
      for (std::int64_t p = 1; p < chunks; ++p) state.merge(states[static_cast<std::size_t>(p * plan.outputs + i)]);
      to[i] = rows::convert<S>(finish(state));
    }
  });
}

template <typename T>
void run_kind(const Tensor& x, const Plan& plan, Tensor& y, const ReduceAttrs& a) {
  auto n = static_cast<double>(plan.length);
  auto signed_if_whole = [](auto total) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<std::int64_t>(total);
    else
      return total;
  };
  switch (a.kind) {
    case Kind::sum:
      return run<Sum<T>, T>(x, plan, y, [&](const auto& s) { return signed_if_whole(s.total); });
    case Kind::prod:
      return run<Prod<T>, T>(x, plan, y, [&](const auto& s) { return signed_if_whole(s.total); });
    case Kind::max:
      return run<Extreme<T, true>, T>(x, plan, y, [](const auto& s) { return s.best; });
    case Kind::min:
      return run<Extreme<T, false>, T>(x, plan, y, [](const auto& s) { return s.best; });
    case Kind::argmax:
      return run<ArgExtreme<T, true>, T>(x, plan, y, [](const auto& s) { return s.at; });
    case Kind::argmin:
      return run<ArgExtreme<T, false>, T>(x, plan, y, [](const auto& s) { return s.at; });
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (a.kind == Kind::mean) run<Sum<T>, T>(x, plan, y, [n](const auto& s) { return s.total / n; });
    if (a.kind == Kind::logsumexp) run<LogSumExp<T>, T>(x, plan, y, [](const auto& s) { return s.value(); });
    if (a.kind == Kind::norm) run<Norm<T>, T>(x, plan, y, [](const auto& s) { return std::sqrt(s.squares); });
    if (a.kind == Kind::var || a.kind == Kind::std) {
      const double divisor = std::max(0.0, n - a.correction);
      const bool root = a.kind == Kind::std;
      run<Variance<T>, T>(x, plan, y, [divisor, root](const auto& s) {
        return root ? std::sqrt(s.squares / divisor) : s.squares / divisor;
      });
    }
  }
}

}  // namespace

void cpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return;
  auto a = call.as<ReduceAttrs>();
  Plan plan(call.in[0], a.dims);
  rows::visit_compute(call.in[0].dtype(), [&](auto zero) { run_kind<decltype(zero)>(call.in[0], plan, out[0], a); });
}

}  // namespace etna::reduce
