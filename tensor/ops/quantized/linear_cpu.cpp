#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <etna/device/internal/counting.h>
#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/activations/internal/cpu.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>
#include <etna/tensor/ops/quantized/internal/cpu_kernels.h>
#include <etna/tensor/ops/quantized/internal/expert_products.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// quantized_linear on the CPU. Few rows of x: each row of a weight is read once and multiplied in its block format;
// bound by memory. Many rows: weights are unpacked panel by panel and multiplied with quantized x, or dequantized for
// the gemm library (quantizes_prompts()).
namespace etna::quantized {
namespace {

/// With fewer rows of x, reading a weight's quants once for each eight rows is faster than dequantizing it.
constexpr std::int64_t kFewRows = kManyRowsOfExpert;
/// Rows of a weight that are dequantized, or multiplied in 8 bits, at a time.
constexpr std::int64_t kPanel = 512, kQuantizedPanel = 1024;
constexpr std::int64_t kGroupSize = 256;
/// A task quantizes at least so many elements of x.
constexpr std::int64_t kQuantizedAtLeast = 65536;
/// A task computes the lookup tables of at least so many groups of x.
constexpr std::int64_t kTablesAtLeast = 16;

struct Weight {
  const quant::BlockFormat* format;
  const CpuKernels* kernels;
  const std::byte* blocks;
  std::int64_t rows, columns;
  std::size_t row_bytes;
  float factor = 1;  ///< applies to all values
  Tensor bytes;

  Weight(const quant::BlockFormat& f, const Tensor& blocks_tensor, std::int64_t rows, std::int64_t columns)
      : format(&f),
        kernels(&cpu_kernels(f)),
        blocks(reinterpret_cast<const std::byte*>(blocks_tensor.host<std::uint8_t>())),
        rows(rows),
        columns(columns),
        row_bytes(static_cast<std::size_t>(columns / f.elements) * f.bytes),
        bytes(blocks_tensor) {
    if (f.tail != 0 && rows > 0)
      std::memcpy(&factor, blocks + static_cast<std::size_t>(rows) * row_bytes, sizeof factor);
    if (counting::on()) {
      const std::string kernel = fmt::format("quantized weight {}", f.name);
      counting::ran(counting::row({kCPU, kernel, capture_hooks::Running::name()},
                                  [] { return std::string(cpu_kernels_target()); }));
    }
  }
  const std::byte* row(std::int64_t r) const { return blocks + static_cast<std::size_t>(r) * row_bytes; }
  bool unquantized() const { return kernels->dot_unquantized != nullptr; }
};

/// Rows of x quantized to 8 bits; NaN and infinities make their scale NaN.
class QuantizedInput {
 public:
  /// @param quantizer null if no weight needs it
  QuantizedInput(decltype(CpuKernels::quantize_row) quantizer, const float* x, std::int64_t rows, std::int64_t columns)
      : groups_(static_cast<std::size_t>(quantizer == nullptr ? 0 : rows * ((columns + kGroupSize - 1) / kGroupSize))) {
    view = {rows, groups_.data()};
    if (quantizer == nullptr) return;
    cpu::parallel_for(rows, std::max<std::int64_t>(1, kQuantizedAtLeast / columns),
                      [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t r = begin; r < end; ++r)
                          quantizer(x + r * columns, columns, groups_.data() + r, rows);
                      });
  }

  QuantizedActivations view;

 private:
  cpu::Scratch<QuantizedGroup> groups_;
};

/// g = gate(g) · u.
void linear_cpu_apply_gate(Activation gate, float* g, const float* u, std::int64_t n) {
  cpu::activate(gate, g, g, n);
  for (std::int64_t i = 0; i < n; ++i) g[i] *= u[i];
}

/// Bias, gate and residual. Writes columns [begin, end) of every row of the result.
class Epilogue {
 public:
  Epilogue(const OpCall& call, const LinearAttrs& a, Tensor& out)
      : attrs_(a), out_(out), columns_(a.columns()), rows_(columns_ == 0 ? 0 : out.numel() / columns_) {
    if (call.in[kBias].defined()) bias_ = call.in[kBias].to(f32).contiguous();
    if (call.in[kResidual].defined()) residual_ = call.in[kResidual].contiguous();
  }
  std::int64_t rows() const { return rows_; }

  /// @param first, second matmul results of these columns, [rows, end - begin]; second only for a gate
  /// @param bias_at index of the first column's bias
  void write(std::int64_t begin, std::int64_t end, std::int64_t bias_at, float* first, float* second) {
    const std::int64_t count = end - begin;
    const auto some_rows = [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t m = from; m < to; ++m)
        write_row(m, begin, count, bias_at, first + m * count, second == nullptr ? nullptr : second + m * count);
    };
    // With few rows, this already runs in one of many tasks.
    if (rows_ < kFewRows)
      some_rows(0, rows_);
    else
      cpu::parallel_for(rows_, std::max<std::int64_t>(1, rows::kGrain / count), some_rows);
  }

 private:
  void write_row(std::int64_t m, std::int64_t begin, std::int64_t count, std::int64_t bias_at, float* y, float* up) {
    const float* bias = bias_.defined() ? bias_.host<float>() + bias_at : nullptr;
    if (bias != nullptr) cpu::add_scaled(y, bias, 1, count);
    if (up != nullptr) {
      if (bias != nullptr) cpu::add_scaled(up, bias + attrs_.rows[0], 1, count);
      linear_cpu_apply_gate(attrs_.gate, y, up, count);
    }
    const std::int64_t at = m * columns_ + begin;
    if (residual_.defined()) {
      cpu::Scratch<float> row(static_cast<std::size_t>(count));
      cpu::add_scaled(y, rows::read(residual_, at, 1, count, row.data()), 1, count);
    }
    rows::write(out_, at, 1, count, y);
  }

  const LinearAttrs& attrs_;
  Tensor& out_;
  std::int64_t columns_, rows_;
  Tensor bias_, residual_;
};

/// Few rows of x in the forms that the kernels need: f32, quantized, packed for GEMV, and lookup tables for ternary
/// weights.
class FewRows {
 public:
  FewRows(std::span<const Weight> weights, const float* x, std::int64_t rows)
      : x_(x), rows_(rows), quantized_(quantizer_of(weights), x, rows, weights[0].columns) {
    if (rows == 1)
      for (const Weight& w : weights) pack(w);
    const auto w = std::find_if(weights.begin(), weights.end(), [&](const Weight& w) { return by_lookup(w); });
    if (w == weights.end()) return;
    const LookupTables& kernels = w->kernels->lookup;
    const std::int64_t groups = rows * ((w->columns + kGroupSize - 1) / kGroupSize);
    tables_.resize(static_cast<std::size_t>(groups) * kernels.bytes);
    cpu::parallel_for(groups, kTablesAtLeast, [&](std::int64_t begin, std::int64_t end) {
      kernels.fill(quantized_.view.groups + begin, end - begin,
                   tables_.data() + static_cast<std::size_t>(begin) * kernels.bytes);
    });
  }

  /// Calls body(begin, end) on ranges of rows of a weight, in tasks of some tens of kilobytes, so that all threads
  /// finish at about the same time.
  template <typename Body>
  void share(const Weight& w, int weights_at_once, const Body& body) const {
    const std::int64_t unit = this->unit(w);
    cpu::parallel_for((w.rows + unit - 1) / unit, grain(w, weights_at_once, unit),
                      [&](std::int64_t begin, std::int64_t end) { body(begin * unit, std::min(w.rows, end * unit)); });
  }
  /// Rows of a weight that are multiplied together.
  std::int64_t unit(const Weight& w) const { return by_lookup(w) ? w.kernels->lookup.rows : 1; }
  /// Units of a task.
  static std::int64_t grain(const Weight& w, int weights_at_once, std::int64_t unit) {
    const auto bytes = static_cast<std::int64_t>(std::max<std::size_t>(1, w.row_bytes));
    return std::max<std::int64_t>(1, std::max<std::int64_t>(4, 65536 / bytes) / weights_at_once / unit);
  }

  /// Multiplies rows [begin, end) of a weight with all rows of x: [rows, end - begin].
  void multiply(const Weight& w, std::int64_t begin, std::int64_t end, float* out) const {
    const std::int64_t count = end - begin;
    if (by_lookup(w)) {
      const LookupTables& kernels = w.kernels->lookup;
      for (std::int64_t r = begin; r < end; r += kernels.rows) {
        kernels.multiply(w.row(r), w.row_bytes, std::min(kernels.rows, end - r), w.columns, quantized_.view,
                         tables_.data(), out + (r - begin), count);
      }
      if (w.factor != 1) cpu::scale(out, w.factor, rows_ * count);
      return;
    }
    if (const std::byte* x = packed_for(w); x != nullptr) {
      w.kernels->gemv.multiply(w.row(begin), w.row_bytes, count, w.columns, x, out);
      if (w.factor != 1) cpu::scale(out, w.factor, count);
      return;
    }
    std::array<float, kRowsAtOnce> products;
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t m = 0; m < rows_; m += kRowsAtOnce) {
        const std::int64_t some = std::min(kRowsAtOnce, rows_ - m);
        if (w.unquantized())
          w.kernels->dot_unquantized(w.row(r), w.columns, x_ + m * w.columns, w.columns, some, products.data());
        else
          w.kernels->dot(w.row(r), w.columns, quantized_.view, m, some, products.data());
        for (std::int64_t i = 0; i < some; ++i)
          out[(m + i) * count + r - begin] = products[static_cast<std::size_t>(i)] * w.factor;
      }
    }
  }

 private:
  static decltype(CpuKernels::quantize_row) quantizer_of(std::span<const Weight> weights) {
    const auto blocks = std::find_if(weights.begin(), weights.end(), [](const Weight& w) { return !w.unquantized(); });
    return blocks == weights.end() ? nullptr : blocks->kernels->quantize_row;
  }
  bool by_lookup(const Weight& w) const { return w.kernels->lookup.least != 0 && rows_ >= w.kernels->lookup.least; }

  /// Packs the row of x for GEMV, once for each format.
  void pack(const Weight& w) {
    const GemvKernels& kernels = w.kernels->gemv;
    if (kernels.multiply == nullptr || by_lookup(w) || packed_for(w) != nullptr) return;
    const std::int64_t groups = (w.columns + kGroupSize - 1) / kGroupSize,
                       runs = (groups + kernels.groups - 1) / kernels.groups;
    PackedRow& made = *std::find_if(packed_.begin(), packed_.end(), [](const PackedRow& one) { return !one.kernels; });
    made.kernels = w.kernels;
    made.groups.resize(static_cast<std::size_t>(runs) * kernels.bytes);
    kernels.pack(quantized_.view.groups, groups, made.groups.data());
  }
  /// Null if the weight's format has no GEMV kernel.
  const std::byte* packed_for(const Weight& w) const {
    for (const PackedRow& one : packed_)
      if (one.kernels == w.kernels) return one.groups.data();
    return nullptr;
  }

  struct PackedRow {
    const CpuKernels* kernels = nullptr;
    cpu::Scratch<std::byte> groups;
  };

  const float* x_;
  std::int64_t rows_;
  QuantizedInput quantized_;
  std::array<PackedRow, kMostWeights> packed_;
  cpu::Scratch<std::byte> tables_;
};

void few_rows(const std::vector<Weight>& weights, const LinearAttrs& a, const float* x, Epilogue& epilogue) {
  const std::int64_t rows = epilogue.rows();
  const FewRows given(weights, x, rows);
  if (a.gate != Activation::none) {
    given.share(weights[0], 2, [&](std::int64_t begin, std::int64_t end) {
      cpu::Scratch<float> first(static_cast<std::size_t>(rows * (end - begin))), second(first.size());
      given.multiply(weights[0], begin, end, first.data());
      given.multiply(weights[1], begin, end, second.data());
      epilogue.write(begin, end, begin, first.data(), second.data());
    });
    return;
  }
  std::int64_t before = 0;
  for (const Weight& w : weights) {
    given.share(w, 1, [&](std::int64_t begin, std::int64_t end) {
      cpu::Scratch<float> products(static_cast<std::size_t>(rows * (end - begin)));
      given.multiply(w, begin, end, products.data());
      epilogue.write(before + begin, before + end, before + begin, products.data(), nullptr);
    });
    before += w.rows;
  }
}

/// The rows of x of several experts, each with weights of the same sizes.
class RowsOfExperts {
 public:
  /// @param weights of each expert, `each` in a row @param x the rows of all, sorted
  RowsOfExperts(std::span<const RowsOfExpert> experts, std::vector<Weight> weights, std::size_t each, const float* x)
      : weights_(std::move(weights)), each_(each) {
    for (std::size_t i = 0; i < experts.size(); ++i)
      rows_.emplace_back(of(i), x + experts[i].begin * weights_[0].columns, experts[i].count);
  }
  std::span<const Weight> of(std::size_t i) const { return std::span(weights_).subspan(i * each_, each_); }
  const FewRows& rows(std::size_t i) const { return rows_[i]; }

  /// Calls body(i, begin, end) on ranges of rows of the weights of the i-th expert.
  template <typename Body>
  void share(const Body& body) const {
    const Weight& w = weights_[0];
    std::int64_t unit = 1;
    for (const FewRows& rows : rows_) unit = std::max(unit, rows.unit(w));
    const std::int64_t units = (w.rows + unit - 1) / unit;
    const auto some = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end;) {
        const std::int64_t i = at / units, first = at % units, last = std::min(units, first + end - at);
        body(static_cast<std::size_t>(i), first * unit, std::min(w.rows, last * unit));
        at += last - first;
      }
    };
    cpu::parallel_for(units * static_cast<std::int64_t>(rows_.size()), FewRows::grain(w, static_cast<int>(each_), unit),
                      some);
  }

 private:
  const std::vector<Weight> weights_;
  const std::size_t each_;
  std::deque<FewRows> rows_;  // which stay where they are
};

/// Matmul with many rows of x in 8 bits, in f32, or in bf16 if the processor multiplies that.
class ManyRows {
 public:
  ManyRows(const Tensor& x, const std::vector<Weight>& weights) : x_(x) {
    const auto quantized =
        std::find_if(weights.begin(), weights.end(), [](const Weight& w) { return gemm_of(w) != nullptr; });
    const bool dense =
        std::any_of(weights.begin(), weights.end(), [](const Weight& w) { return gemm_of(w) == nullptr; });
    if (quantized != weights.end())
      quantized_.emplace(quantized->kernels->quantize_row_centered, x.host<float>(), x.size(0), x.size(1));
    bf16_ = dense && cpu::multiplies_bf16(x.size(0), kPanel);
    if (bf16_) x_bf16_ = x.to(bf16);
  }
  static std::int64_t rows_at_once(const Weight& w) { return gemm_of(w) != nullptr ? kQuantizedPanel : kPanel; }

  /// Rows [begin, end) of a weight. @return [rows of x, end - begin] f32
  Tensor multiply(const Weight& w, std::int64_t begin, std::int64_t end) {
    const std::int64_t count = end - begin;
    if (gemm_of(w) != nullptr) return quantized(w, begin, count);
    // A weight in the gemm's dtype is multiplied in place.
    const bool own = w.format->name == "F32" || (bf16_ && w.format->name == "BF16");
    if (own) {
      const DType dtype = w.format->name == "F32" ? f32 : bf16;
      const auto item = static_cast<std::int64_t>(item_size(dtype));
      const Tensor rows = detail::make_view(w.bytes.storage(), kCPU, dtype, {count, w.columns}, {w.columns, 1},
                                            w.bytes.offset() / item + begin * w.columns);
      return product(dtype == f32 ? x_ : x_bf16_, rows);
    }
    const Tensor panel = empty({count, w.columns}, bf16_ ? bf16 : f32);
    cpu::parallel_for(count, std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, w.columns)),
                      [&](std::int64_t first, std::int64_t last) { dequantize(w, begin, first, last, panel); });
    return product(bf16_ ? x_bf16_ : x_, panel);
  }

 private:
  static GemmKernel gemm_of(const Weight& w) { return quantizes_prompts() ? w.kernels->gemm : nullptr; }

  Tensor quantized(const Weight& w, std::int64_t begin, std::int64_t count) const {
    Tensor out = empty({x_.size(0), count}, f32);
    float* to = out.host<float>();
    const std::int64_t chunks = (count + kPanelRows - 1) / kPanelRows,
                       groups = (w.columns + kGroupSize - 1) / kGroupSize;
    cpu::parallel_for(chunks, 1, [&](std::int64_t first, std::int64_t last) {
      cpu::Scratch<std::byte> room(static_cast<std::size_t>(groups * kPanelRows / 8) * kPackedBytes);
      for (std::int64_t at = first * kPanelRows; at < std::min(count, last * kPanelRows); at += kPanelRows) {
        const std::int64_t some = std::min(kPanelRows, count - at);
        gemm_of(w)(w.row(begin + at), w.row_bytes, some, w.columns, quantized_->view, room.data(), to + at, count);
        if (w.factor == 1) continue;
        for (std::int64_t m = 0; m < x_.size(0); ++m) cpu::scale(to + m * count + at, w.factor, some);
      }
    });
    return out;
  }
  static Tensor product(const Tensor& x, const Tensor& rows) {
    return x.dtype() == f32 ? matmul(x, rows.t()) : matmul(x, rows.t(), f32);
  }
  void dequantize(const Weight& w, std::int64_t begin, std::int64_t first, std::int64_t last,
                  const Tensor& panel) const {
    cpu::Scratch<float> row(static_cast<std::size_t>((w.columns + kGroupSize - 1) / kGroupSize * kGroupSize));
    for (std::int64_t r = first; r < last; ++r) {
      const std::byte* from = w.row(begin + r);
      if (bf16_ && w.kernels->dequantize_bf16 != nullptr && w.factor == 1) {
        w.kernels->dequantize_bf16(from, w.columns, &panel.host<BFloat16>()[r * w.columns].bits);
        continue;
      }
      if (w.kernels->dequantize != nullptr)
        w.kernels->dequantize(from, w.columns, row.data());
      else
        w.format->decode(from, row.data(), w.columns / w.format->elements);
      if (w.factor != 1) cpu::scale(row.data(), w.factor, w.columns);
      if (bf16_)
        cpu::narrow_bf16(row.data(), &panel.host<BFloat16>()[r * w.columns].bits, w.columns);
      else
        std::copy_n(row.data(), w.columns, panel.host<float>() + r * w.columns);
    }
  }

  Tensor x_, x_bf16_;
  std::optional<QuantizedInput> quantized_;
  bool bf16_ = false;
};

void many_rows(const std::vector<Weight>& weights, const LinearAttrs& a, const Tensor& x, Epilogue& epilogue) {
  ManyRows products(x, weights);
  std::int64_t before = 0;
  for (const Weight& w : weights) {
    const std::int64_t at_once = ManyRows::rows_at_once(w);
    for (std::int64_t begin = 0; begin < w.rows; begin += at_once) {
      const std::int64_t end = std::min(w.rows, begin + at_once);
      Tensor first = products.multiply(w, begin, end);
      Tensor second = a.gate != Activation::none ? products.multiply(weights[1], begin, end) : Tensor();
      epilogue.write(before + begin, before + end, before + begin, first.host<float>(),
                     second.defined() ? second.host<float>() : nullptr);
    }
    if (a.gate != Activation::none) return;
    before += w.rows;
  }
}

void by_reference(const OpCall& call, std::span<Tensor> out) {
  const Tensor y = call.op.reference(call)[0].contiguous();
  std::memcpy(out[0].raw_host(), y.raw_data(), static_cast<std::size_t>(y.numel()) * item_size(y.dtype()));
}

/// x in f32, [rows, columns], normed if the call has a norm.
Tensor linear_cpu_prepared(const OpCall& call, const LinearAttrs& a) {
  const Tensor& given = call.in[kX];
  const Tensor x = given.to(f32).contiguous().reshape({-1, given.size(-1)});
  return call.in[kNorm].defined() ? rms_norm(x, call.in[kNorm].to(f32), a.eps) : x;
}

}  // namespace

void linear_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<LinearAttrs>();
  if (out[0].numel() == 0) return;
  const std::int64_t columns = call.in[kX].size(-1);
  std::vector<Weight> weights;
  bool known = columns > 0 && call.in[kX].dtype() != f64 && a.dtype != f64;
  for (int i = 0; i < a.weights; ++i) {
    weights.emplace_back(a.block_format(i), call.in[static_cast<std::size_t>(kBlocks + i)], a.rows[i], columns);
    known = known && (weights.back().unquantized() || weights.back().kernels->dot != nullptr);
  }
  if (!known) return by_reference(call, out);
  const Tensor x = linear_cpu_prepared(call, a);
  Epilogue epilogue(call, a, out[0]);
  if (epilogue.rows() < kFewRows)
    few_rows(weights, a, x.host<float>(), epilogue);
  else
    many_rows(weights, a, x, epilogue);
}

bool feed_forward_cpu(const ExpertFeedForward& f, std::span<const RowsOfExpert> experts, const Tensor& x, Tensor& y) {
  if (experts.empty()) return true;
  std::vector<Weight> first, second;
  const auto add = [](std::vector<Weight>& all, const ExpertMatrices& w, std::int64_t expert) {
    all.emplace_back(*w.format, w.of(expert).blocks(), w.rows, w.columns);
    return w.columns > 0 && (all.back().unquantized() || all.back().kernels->dot != nullptr);
  };
  for (const RowsOfExpert& own : experts) {
    const bool gate = add(first, f.gate, own.expert), up = add(first, f.up, own.expert);
    if (!gate || !up || !add(second, f.down, own.expert)) return false;
  }
  const std::int64_t hidden = f.gate.rows, width = f.down.rows;
  cpu::Scratch<float> h(static_cast<std::size_t>(x.size(0) * hidden));
  // Results of each row go where its others are.
  const auto place = [](const float* from, std::int64_t count, std::int64_t rows, float* to, std::int64_t stride) {
    for (std::int64_t m = 0; m < rows; ++m) std::copy_n(from + m * count, count, to + m * stride);
  };
  const RowsOfExperts given(experts, std::move(first), 2, x.host<float>());
  given.share([&](std::size_t i, std::int64_t begin, std::int64_t end) {
    const std::int64_t count = end - begin, rows = experts[i].count;
    cpu::Scratch<float> g(static_cast<std::size_t>(rows * count)), u(g.size());
    given.rows(i).multiply(given.of(i)[0], begin, end, g.data());
    given.rows(i).multiply(given.of(i)[1], begin, end, u.data());
    linear_cpu_apply_gate(f.activation, g.data(), u.data(), rows * count);
    place(g.data(), count, rows, h.data() + experts[i].begin * hidden + begin, hidden);
  });
  const RowsOfExperts between(experts, std::move(second), 1, h.data());
  float* const out = y.host<float>();
  between.share([&](std::size_t i, std::int64_t begin, std::int64_t end) {
    const std::int64_t count = end - begin, rows = experts[i].count;
    cpu::Scratch<float> products(static_cast<std::size_t>(rows * count));
    between.rows(i).multiply(between.of(i)[0], begin, end, products.data());
    place(products.data(), count, rows, out + experts[i].begin * width + begin, width);
  });
  return true;
}

}  // namespace etna::quantized
