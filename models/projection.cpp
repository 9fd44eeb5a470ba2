#include <etna/models/projection.h>

#include <cmath>
#include <vector>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/device/internal/host_import.h>
#include <etna/models/internal/table_rows.h>
#include <etna/nn/init.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/expert_linear.h>
#include <etna/tensor/ops/quantized/internal/expert_matmul.h>

namespace etna::models {

Tensor AdapterMasks::of(const Tensor& adapters, const std::vector<std::int32_t>& owners, const Tensor& owners_there,
                        std::int64_t dim) {
  for (const Known& known : known_)
    if (known.dim == dim && (known.owners == &owners || *known.owners == owners)) return known.mask;
  Shape each(std::vector<std::int64_t>(static_cast<std::size_t>(dim), 1));
  each[0] = adapters.numel();
  known_.push_back({&owners, dim, adapters.reshape(each) == owners_there});
  return known_.back().mask;
}

Projection::Projection(Weights& weights, const std::string& name, std::int64_t in, std::int64_t out, bool with_bias,
                       std::int64_t experts)
    : in(in), out(out), experts(experts) {
  Matrix matrix = weights.matrix(name + ".weight", out, in);
  weight = matrix.dense;
  if (matrix.blocks.defined()) {
    packed = matrix.blocks.blocks();
    format_ = &matrix.blocks.format();
    register_buffer("packed", &Projection::packed);
  }
  register_parameter("weight", &Projection::weight);
  if (with_bias) bias = weights.vector(name + ".bias", out);
  register_parameter("bias", &Projection::bias);
  if (frozen() && bias.defined()) bias.requires_grad_(false);
}

QuantizedTensor Projection::blocks() const {
  return frozen() ? QuantizedTensor(*format_, {out, in}, packed) : QuantizedTensor::unquantized(weight.detach());
}

void Projection::freeze(const QuantizedTensor& blocks) {
  if (blocks.shape() != Shape{out, in}) {
    throw ShapeError(fmt::format("Projection: the blocks are {}; wanted {}", str(blocks.shape()), str(Shape{out, in})));
  }
  unregister("weight");
  unregister("packed");
  weight = Tensor();
  packed = blocks.blocks();
  format_ = &blocks.format();
  register_buffer("packed", &Projection::packed);
  if (bias.defined()) bias.requires_grad_(false);
}

Tensor Projection::operator()(const Tensor& x, const ProjectionMode& mode) const {
  if (!hooked()) return project(x, mode);
  return call_hooked({x}, [&](const TensorList& in) { return TensorList{project(in[0], mode)}; })[0];
}

Tensor Projection::project(const Tensor& x, const ProjectionMode& mode) const {
  const bool in_blocks = frozen() || (mode.generates && autocast_dtype() == f32 && weight.dtype() != f64);
  const Tensor added = lora_magnitude.defined() ? Tensor() : bias;
  const Tensor y = in_blocks ? quantized_linear(x, blocks(), {.bias = added}) : linear(x, weight, added);
  const Tensor z = has_adapter() ? adapted(x, y) : y;
  return stacked_a_.defined() && mode.adapters.defined() ? z + chosen(x, mode) : z;
}

/// @param y the layer's result without the adapter; where there are magnitudes, without the bias, too
Tensor Projection::adapted(const Tensor& x, const Tensor& y) const {
  const Tensor in = lora_dropout > 0 && training() ? dropout(x, lora_dropout) : x;
  const Tensor z = y + linear(linear(in, lora_a), lora_b) * lora_scale;
  if (!lora_magnitude.defined()) return z;
  const Tensor scaled = z * row_factors().to(z.dtype());
  return bias.defined() ? scaled + bias.to(z.dtype()) : scaled;
}

Tensor Projection::of_experts(const Tensor& x, const Tensor& expert, const ProjectionMode& mode, bool summed) const {
  const bool in_blocks = frozen() || (mode.generates && autocast_dtype() == f32 && weight.dtype() != f64);
  // Magnitudes scale the result of each choice.
  const ExpertMatmulOptions options{.summed = summed && !lora_magnitude.defined()};
  const Tensor y = in_blocks ? expert_linear(x, blocks(), expert, experts, options)
                             : expert_matmul(x, weight, expert, experts, options);
  if (!has_adapter()) return y;
  const Tensor in = lora_dropout > 0 && training() ? dropout(x, lora_dropout) : x;
  const Tensor low = expert_matmul(in, lora_a, expert, experts);
  const Tensor z = y + expert_matmul(low, lora_b, expert, experts, options) * lora_scale;
  if (!lora_magnitude.defined()) return z;
  const Tensor factors = row_factors().reshape({experts, -1});
  const Tensor scaled = z * embedding(factors, expert).to(z.dtype());
  return summed ? scaled.sum(1) : scaled;
}

/// W·Aᵀ, of each expert with its own A. @return [out, rank]
Tensor Projection::crossed_with(const Tensor& a) const {
  if (experts == 1) return (frozen() ? quantized_linear(a, blocks()) : linear(a, weight.detach())).t();
  const std::int64_t rank = a.size(0) / experts;
  const Tensor expert = arange(0, experts, 1, {i64, a.device()}).unsqueeze(1).expand({experts, rank}).reshape({-1, 1});
  const Tensor rows =
      frozen() ? expert_linear(a, blocks(), expert, experts) : expert_matmul(a, weight.detach(), expert, experts);
  return rows.reshape({experts, rank, -1}).transpose(1, 2).reshape({out, rank});
}

/// The norms of the rows of W + B·A · scale, without gradients. W is not decoded for them: of its products there is
/// only W·Aᵀ. @return [out] f32
Tensor Projection::row_norms() const {
  const NoGrad no_grad;
  const auto exact = autocast(f32);
  if (squares_.device() != device()) squares_ = squares_.to(device());
  const Tensor a = lora_a.detach(), b = lora_b.detach(), matrices = a.reshape({experts, rank(), in});
  const Tensor own = matmul(b.reshape({experts, -1, rank()}), matmul(matrices, matrices.transpose(1, 2)));
  const Tensor inner = crossed_with(a) * (2 * lora_scale) + own.reshape({out, rank()}) * (lora_scale * lora_scale);
  return sqrt(clamp(squares_ + (b * inner).sum(-1), 1e-24, std::nullopt));
}

Tensor Projection::row_factors() const { return lora_magnitude.defined() ? lora_magnitude / row_norms() : Tensor(); }

std::vector<LowRankPart> Projection::low_rank_parts(const ProjectionMode& mode, std::int64_t dim) const {
  std::vector<LowRankPart> parts;
  if (has_adapter()) parts.push_back({lora_a, lora_b, lora_scale, {}});
  if (!stacked_a_.defined() || !mode.adapters.defined()) return parts;
  AdapterMasks own;
  AdapterMasks& masks = mode.masks == nullptr ? own : *mode.masks;
  parts.push_back({stacked_a_, stacked_b_, 1, masks.of(mode.adapters, stacked_owners_, stacked_of_, dim)});
  return parts;
}

/// What the stacked adapters add. Each row passes all of them, and only the ranks of its own count: two products,
/// whatever the rows chose, and a row's bits do not depend on what others chose.
Tensor Projection::chosen(const Tensor& x, const ProjectionMode& mode) const {
  const LowRankPart part = low_rank_parts(mode, x.dim()).back();
  const auto times = [](const Tensor& rows, const Tensor& matrix) {
    return quantized_linear(rows, QuantizedTensor::unquantized(matrix));
  };
  return times(times(x, part.a).where(part.kept, 0.0), part.b);
}

std::string Projection::extra_repr() const {
  std::string text =
      fmt::format("in_features={}, out_features={}, bias={}", in, out, bias.defined() ? "True" : "False");
  if (experts > 1) text += fmt::format(", experts={}", experts);
  if (frozen()) text += fmt::format(", format={}", format_->name);
  if (has_adapter()) text += fmt::format(", rank={}", rank());
  if (lora_magnitude.defined()) text += ", magnitudes=True";
  return text;
}

void Projection::add_adapter(std::int64_t rank, double alpha) {
  nn::checked_size("Projection", "rank", rank, 1);
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  set_adapter(nn::init::uniform_(empty({experts * rank, in}), -bound, bound), zeros({out, rank}),
              alpha / static_cast<double>(rank));
}

void Projection::set_adapter(const Tensor& a, const Tensor& b, double scale) {
  if (has_adapter()) throw Error("Projection: there is an adapter already; merge it first");
  check_adapter(a, b);
  const Device device = this->device();
  lora_a = a.to(device);
  lora_b = b.to(device);
  lora_scale = scale;
  if (!frozen()) weight.requires_grad_(false);
  if (bias.defined()) bias.requires_grad_(false);
  register_parameter("lora_a", &Projection::lora_a);
  register_parameter("lora_b", &Projection::lora_b);
}

std::int64_t Projection::rank() const {
  if (!has_adapter()) throw Error("Projection: there is no adapter, and so no rank; add one first");
  return lora_a.size(0) / experts;
}

void Projection::set_magnitudes(const Tensor& magnitudes) {
  if (!has_adapter()) throw Error("Projection: magnitudes belong to an adapter; add one first");
  if (magnitudes.defined() && magnitudes.shape() != Shape{out})
    throw ShapeError(fmt::format("Projection: the magnitudes are {}; wanted [{}]", str(magnitudes.shape()), out));
  {
    const NoGrad no_grad;
    const Tensor base = frozen() ? dequantize(blocks()) : weight.detach().to(f32);
    squares_ = (base * base).sum(-1);
  }
  lora_magnitude = magnitudes.defined() ? magnitudes.to(device(), f32) : row_norms();
  register_parameter("lora_magnitude", &Projection::lora_magnitude);
}

void Projection::stack_adapter(std::int64_t index, const Tensor& a, const Tensor& b, double scale) {
  if (experts > 1) throw Error("Projection: adapters of experts cannot be stacked; set one alone, or merge it");
  check_adapter(a, b);
  const NoGrad no_grad;
  const Device device = this->device();
  const Tensor down = a.to(device, f32), up = (b.to(f32) * scale).to(device),
               of = full({a.size(0)}, static_cast<double>(index), {i32, device});
  const auto stacked = [](const Tensor& old, const Tensor& more, std::int64_t dim) {
    if (!old.defined()) return more.contiguous();
    return cat({old, more}, dim);
  };
  stacked_a_ = stacked(stacked_a_, down, 0);
  stacked_b_ = stacked(stacked_b_, up, 1);
  stacked_of_ = stacked(stacked_of_, of, 0);
  stacked_owners_.resize(static_cast<std::size_t>(stacked_of_.numel()), static_cast<std::int32_t>(index));
}

void Projection::check_adapter(const Tensor& a, const Tensor& b) const {
  if (a.dim() == 2 && a.size(1) == in && a.size(0) % experts == 0 && b.shape() == Shape{out, a.size(0) / experts})
    return;
  throw ShapeError(fmt::format("Projection: the adapter is {} and {}; wanted [{}rank, {}] and [{}, rank]",
                               str(a.shape()), str(b.shape()), experts > 1 ? fmt::format("{} · ", experts) : "", in,
                               out));
}

void Projection::merge_adapter() {
  if (!has_adapter()) return;
  const Tensor base = frozen() ? dequantize(blocks()) : weight.detach();
  const Tensor product =
      matmul(lora_b.detach().reshape({experts, -1, rank()}), lora_a.detach().reshape({experts, rank(), in}));
  Tensor merged = base + product.reshape({out, in}).to(base.dtype()) * lora_scale;
  if (lora_magnitude.defined())
    merged = merged * (lora_magnitude.detach() / row_norms()).to(base.dtype()).unsqueeze(-1);
  for (const char* name : {"lora_a", "lora_b", "lora_magnitude"}) unregister(name);
  lora_a = lora_b = lora_magnitude = squares_ = Tensor();
  lora_dropout = 0;
  if (frozen()) {
    unregister("packed");
    packed = Tensor();
    format_ = nullptr;
    weight = merged;
    register_parameter("weight", &Projection::weight);
  } else {
    weight.detach().copy_(merged);
    weight.requires_grad_();
  }
}

Tensor table_rows(const Projection& table, const Tensor& indices) {
  return table.frozen() ? quantized_embedding(indices, table.blocks()) : embedding(table.weight, indices);
}

void concat_weights(std::initializer_list<Projection*> layers) {
  std::vector<Tensor> all;
  const quant::BlockFormat* format = nullptr;
  for (const Projection* layer : layers) {
    if (layer == nullptr || !layer->frozen() || layer->packed.device().is_cpu()) return;
    if (is_imported(*layer->packed.storage())) return;  // a copy is what that saves
    const QuantizedTensor blocks = layer->blocks();
    const quant::BlockFormat& own = blocks.format();
    // Rows are read by wide loads, which ask for their alignment.
    if ((format != nullptr && format != &own) || own.tail != 0 || layer->packed.numel() % 16 != 0) return;
    format = &own;
    all.push_back(layer->packed);
  }
  const Tensor together = cat(all);
  std::int64_t at = 0;
  for (Projection* layer : layers) {
    const std::int64_t size = layer->packed.numel();
    layer->freeze({*format, {layer->out, layer->in}, together.slice(0, at, at + size)});
    at += size;
  }
  std::vector<Tensor> biases;
  for (const Projection* layer : layers)
    if (layer->bias.defined()) biases.push_back(layer->bias.detach());
  if (biases.size() != layers.size()) return;
  const Tensor joined = cat(biases);
  at = 0;
  for (Projection* layer : layers) {
    layer->bias = joined.slice(0, at, at + layer->out);
    at += layer->out;
  }
}

}  // namespace etna::models
