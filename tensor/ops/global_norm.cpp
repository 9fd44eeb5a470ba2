#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/shaders/shaders.h>
#include <etna/tensor/multi_tensor.h>
#include <etna/tensor/multi_tensor/pieces.h>
#include <etna/tensor/multi_tensor/table.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/vulkan.h>

namespace etna {
namespace {

using multi_tensor::Pieces;

/// Larger than an optimizer's: there is a sum over pieces to come.
constexpr std::int64_t kNormPiece = 8192;

DType widest(std::span<const Tensor> tensors) {
  bool f64_there = std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return x.dtype() == f64; });
  return f64_there ? f64 : f32;
}

void require_floating(const OpCall& call) {
  for (const Tensor& x : call.in) {
    if (!is_floating(x.dtype()))
      throw DtypeError(fmt::format("{}: a tensor {} holds {}; floating dtypes are wanted", call.op.name, str(x.shape()),
                                   name(x.dtype())));
  }
}

struct Push {
  vulkan::Word64 scalars, rows;
  std::uint32_t count, pieces;
  vulkan::Word64 partial, norm;
};

/// Tensors as rows of a table.
struct Rows {
  Pieces pieces{kNormPiece};
  std::vector<multi_tensor::Row> rows;
  std::vector<vulkan::Range> ranges;
  TensorList kept;

  explicit Rows(std::span<const Tensor> tensors) {
    for (const Tensor& tensor : tensors) {
      if (tensor.numel() == 0) continue;
      Tensor x = tensor.contiguous();
      multi_tensor::Row row;
      row.address[0] = x.address();
      row.elements = static_cast<std::uint32_t>(x.numel());
      row.first_piece = static_cast<std::uint32_t>(pieces.count());
      row.dtype[0] = vulkan::word(x.dtype());
      rows.push_back(row);
      pieces.add(x.numel());
      ranges.push_back(vulkan::range(x));
      kept.push_back(std::move(x));
    }
  }
};

// ---- global_norm

struct NormAttrs {
  double order;
};

std::uint32_t order_word(double order) { return order == 1 ? 1 : order == 2 ? 2 : 0; }

/// NaN wins.
double larger(double a, double b) { return a >= b || std::isnan(a) ? a : b; }

double add(double a, double b) { return a + b; }

/// Folds n values into several sums side by side, so that the loop is no chain of additions; then joins those.
template <typename S, typename Fold, typename Join>
double gather(const S* x, std::int64_t n, Fold fold, Join join) {
  constexpr std::int64_t kLanes = 16;
  double sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t k = 0; k < kLanes; ++k) sums[k] = fold(sums[k], static_cast<double>(x[i + k]));
  }
  for (; i < n; ++i) sums[0] = fold(sums[0], static_cast<double>(x[i]));
  double total = 0;
  for (double sum : sums) total = join(total, sum);
  return total;
}

std::vector<OutputSpec> norm_infer(const OpCall& call) {
  double order = call.as<NormAttrs>().order;
  if (order != 1 && order != 2 && order != HUGE_VAL)
    throw Error(fmt::format("{}: no norm of order {}; 1, 2 and infinity are there", call.op.name, order));
  require_floating(call);
  return {{Shape{}, widest(call.in)}};
}

void norm_cpu(const OpCall& call, std::span<Tensor> out) {
  double order = call.as<NormAttrs>().order;
  Pieces pieces(kNormPiece);
  TensorList list;
  for (const Tensor& x : call.in) {
    list.push_back(x.contiguous());
    pieces.add(x.numel());
  }
  std::vector<double> partial(static_cast<std::size_t>(pieces.count()));
  pieces.parallel([&](std::int64_t piece, std::size_t k, std::int64_t begin, std::int64_t end) {
    auto typed = [&](auto zero) {
      using S = decltype(zero);
      alignas(64) S buffer[kNormPiece];
      const S* x = multi_tensor::load(list[k], begin, end, buffer);
      std::int64_t n = end - begin;
      partial[static_cast<std::size_t>(piece)] =
          order == 2 ? gather(
                           x, n, [](double sum, double v) { return sum + v * v; }, add)
          : order == 1 ? gather(
                             x, n, [](double sum, double v) { return sum + std::abs(v); }, add)
                       : gather(
                             x, n, [](double sum, double v) { return larger(sum, std::abs(v)); }, larger);
    };
    if (list[k].dtype() == f64)
      typed(double{});
    else
      typed(float{});
  });
  double total = 0;
  for (double sum : partial) total = order == HUGE_VAL ? larger(total, sum) : add(total, sum);
  out[0].fill_(order == 2 ? std::sqrt(total) : total);
}

bool norm_vulkan(const OpCall& call, std::span<Tensor> out) {
  if (widest(call.in) == f64) return false;
  Rows rows(call.in);
  if (rows.rows.empty()) {
    out[0].fill_(0);
    return true;
  }
  Device device = out[0].device();
  multi_tensor::Table table = multi_tensor::make_table(device, {}, rows.rows);
  Tensor partial = empty({rows.pieces.count()}, {f32, device});
  const std::uint32_t spec[] = {table.common_dtype[0], static_cast<std::uint32_t>(kNormPiece), table.width,
                                order_word(call.as<NormAttrs>().order)};
  Push push{table.scalars,     table.rows,      table.count, static_cast<std::uint32_t>(rows.pieces.count()),
            partial.address(), out[0].address()};
  const vulkan::Range sums = vulkan::range(partial), norm = vulkan::range(out[0]);
  rows.ranges.push_back(vulkan::range(table.storage));
  vulkan::record(device, {shaders::global_norm_pieces,
                          call.op.name,
                          spec,
                          vulkan::bytes_of(push),
                          vulkan::grid(rows.pieces.count()),
                          rows.ranges,
                          {&sums, 1}});
  vulkan::record(
      device,
      {shaders::global_norm_total, call.op.name, spec, vulkan::bytes_of(push), {1, 1, 1}, {&sums, 1}, {&norm, 1}});
  return true;
}

TensorList norm_reference(const OpCall& call) {
  double order = call.as<NormAttrs>().order;
  DType t = widest(call.in);
  Tensor total = zeros({}, {t, call.in[0].device()});
  for (const Tensor& x : call.in) {
    if (order == HUGE_VAL && x.numel() == 0) continue;  // max() of nothing is an error
    Tensor wide = x.to(t);
    if (order == HUGE_VAL)
      total = maximum(total, max(abs(wide)));
    else
      total = total + sum(order == 2 ? square(wide) : abs(wide));
  }
  return {order == 2 ? sqrt(total) : total};
}

const OpDef kGlobalNorm = {
    .name = "global_norm", .infer = norm_infer, .cpu = norm_cpu, .vulkan = norm_vulkan, .reference = norm_reference};

// ---- scale_to_norm_: inputs norm, tensors ...

struct ScaleAttrs {
  double max_norm;
};
constexpr double kNormEps = 1e-6;

std::vector<OutputSpec> scale_infer(const OpCall& call) {
  require_floating(call);
  if (call.in[0].numel() != 1)
    throw ShapeError(fmt::format("{}: the norm {} must have one element", call.op.name, str(call.in[0].shape())));
  std::vector<OutputSpec> out;
  for (std::size_t i = 1; i < call.in.size(); ++i)
    out.push_back({call.in[i].shape(), call.in[i].dtype(), static_cast<int>(i)});
  return out;
}

/// As a tensor, on the norm's device.
Tensor scale_factor(const OpCall& call, DType dtype) {
  return clamp(call.as<ScaleAttrs>().max_norm / (call.in[0].to(dtype) + kNormEps), {}, 1.0);
}

void scale_cpu(const OpCall& call, std::span<Tensor> out) {
  double factor = call.as<ScaleAttrs>().max_norm / (call.in[0].item<double>() + kNormEps);
  if (factor >= 1) return;
  for (Tensor& x : out) x.mul_(factor);
}

bool scale_vulkan(const OpCall& call, std::span<Tensor> out) {
  if (widest(call.in) == f64) return false;
  TensorList dense;
  for (Tensor& x : out) {
    if (x.is_contiguous())
      dense.push_back(x);
    else
      x.mul_(scale_factor(call, f32));  // the transposed view that a gradient may be
  }
  Rows rows(dense);
  if (rows.rows.empty()) return true;
  Device device = call.in[0].device();
  Tensor norm = call.in[0].to(f32);
  const float scalars[] = {static_cast<float>(call.as<ScaleAttrs>().max_norm)};
  multi_tensor::Table table = multi_tensor::make_table(device, scalars, rows.rows);
  const std::uint32_t spec[] = {table.common_dtype[0], static_cast<std::uint32_t>(kNormPiece), table.width};
  Push push{table.scalars, table.rows, table.count, static_cast<std::uint32_t>(rows.pieces.count()), 0, norm.address()};
  std::vector<vulkan::Range> reads = rows.ranges;
  reads.push_back(vulkan::range(table.storage));
  reads.push_back(vulkan::range(norm));
  vulkan::record(device, {shaders::scale_to_norm, call.op.name, spec, vulkan::bytes_of(push),
                          vulkan::grid(rows.pieces.count()), reads, rows.ranges});
  return true;
}

TensorList scale_reference(const OpCall& call) {
  DType t = widest(call.in);
  Tensor factor = scale_factor(call, t);
  TensorList out;
  for (const Tensor& x : call.in.subspan(1)) out.push_back((x.to(t) * factor).to(x.dtype()));
  return out;
}

const OpDef kScaleToNorm = {.name = "scale_to_norm_",
                            .infer = scale_infer,
                            .cpu = scale_cpu,
                            .vulkan = scale_vulkan,
                            .reference = scale_reference};

}  // namespace

Tensor global_norm(std::span<const Tensor> tensors, double order) {
  if (tensors.empty()) return zeros({});
  return apply(kGlobalNorm, tensors, Attrs::of(NormAttrs{order}))[0];
}

void scale_to_norm_(std::span<const Tensor> tensors, const Tensor& norm, double max_norm) {
  if (tensors.empty()) return;
  GradMode off(false);
  TensorList list = {norm};
  list.insert(list.end(), tensors.begin(), tensors.end());
  apply(kScaleToNorm, list, Attrs::of(ScaleAttrs{max_norm}));
}

std::span<const OpDef* const> ops_in_global_norm() {
  static const OpDef* const list[] = {&kGlobalNorm, &kScaleToNorm};
  return list;
}

}  // namespace etna
