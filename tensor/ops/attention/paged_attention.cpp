#include <etna/tensor/ops/attention/attention.h>

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/internal/attention.h>
#include <etna/tensor/ops/attention/internal/paged.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/quantized/internal/fusion.h>
#include <etna/tensor/quant/quantized_tensor.h>

// rotate_and_cache_, paged_attention, both in one, and cached_rows: a cache of keys and values in blocks.
namespace etna {
namespace {

using namespace attention::paged;

/// @param given the values; undefined: they are the keys
void check_cache(const OpCall& call, const Tensor& keys, const Tensor& given, std::int64_t size) {
  const Tensor& values = given.defined() ? given : keys;
  const bool dtype =
      keys.dtype() == f32 || keys.dtype() == f16 || keys.dtype() == bf16 || keys.dtype() == u8 || keys.dtype() == f64;
  if (!dtype || keys.dtype() != values.dtype()) {
    throw DtypeError(fmt::format("{}: the cache holds {} and {}; wanted f32, f16, bf16, or u8 for Q8_0", call.op.name,
                                 name(keys.dtype()), name(values.dtype())));
  }
  const std::int64_t row = keys.dtype() == u8 ? cache_row_bytes(size) : size;
  if (keys.dim() != 4 || keys.size(2) != kCacheBlock || keys.size(3) != row || keys.shape() != values.shape()) {
    throw ShapeError(fmt::format("{}: the cache is {} and {}; wanted [blocks, heads, {}, {}] for rows of {}",
                                 call.op.name, str(keys.shape()), str(values.shape()), kCacheBlock, row, size));
  }
  if (!keys.is_contiguous() || !values.is_contiguous())
    throw ShapeError(fmt::format("{}: the cache must be contiguous", call.op.name));
}

void check_places(const OpCall& call, const Tensor& table, const Tensor& positions, std::int64_t batch) {
  if (table.dtype() != i32 || positions.dtype() != i32) {
    throw DtypeError(fmt::format("{}: the table is {}, the positions are {}; both must be i32", call.op.name,
                                 name(table.dtype()), name(positions.dtype())));
  }
  if (table.dim() != 2 || table.size(0) != batch || positions.shape() != Shape{batch}) {
    throw ShapeError(fmt::format("{}: the table is {}, the positions are {}; wanted [{}, blocks] and [{}]",
                                 call.op.name, str(table.shape()), str(positions.shape()), batch, batch));
  }
}

void paged_attention_check_floating(const OpCall& call, const char* what, DType dtype) {
  if (!is_floating(dtype))
    throw DtypeError(fmt::format("{}: {} is {}; wanted a floating dtype", call.op.name, what, name(dtype)));
}

std::vector<OutputSpec> infer_new_rows(const OpCall& call, const WriteAttrs& a) {
  const Tensor& qkv = call.in[kQkv];
  paged_attention_check_floating(call, "qkv", qkv.dtype());
  const Tensor &keys = call.in[kKeysOut], &values = call.in[kValuesOut];
  if (qkv.dim() != 3 || a.heads < 1 || a.kv_heads < 1 || qkv.size(2) % a.all_heads() != 0) {
    throw ShapeError(fmt::format("{}: qkv is {}; wanted [B, T, ({} + {}{}) · D]", call.op.name, str(qkv.shape()),
                                 a.heads, a.has_values ? "2 · " : "", a.kv_heads));
  }
  if (const Tensor& f = call.in[kFrequencies];
      f.defined() && (f.dtype() != f32 || f.dim() != 1 || 2 * f.size(0) > a.size)) {
    throw ShapeError(fmt::format("{}: the frequencies are {} {}; wanted f32, at most {} of them", call.op.name,
                                 name(f.dtype()), str(f.shape()), a.size / 2));
  }
  for (const int i : {kQueryNorm, kKeyNorm}) {
    const Tensor& norm = call.in[static_cast<std::size_t>(i)];
    if (norm.defined() && norm.shape() != Shape{a.size})
      throw ShapeError(fmt::format("{}: a norm's weight is {}; wanted [{}]", call.op.name, str(norm.shape()), a.size));
  }
  check_cache(call, keys, values, a.size);
  if (keys.size(1) != a.kv_heads) {
    throw ShapeError(
        fmt::format("{}: the cache has {} heads, the keys have {}", call.op.name, keys.size(1), a.kv_heads));
  }
  check_places(call, call.in[kWriteTable], call.in[kWritePositions], qkv.size(0));
  paged_attention_check_floating(call, "queries", a.dtype);
  std::vector<OutputSpec> out{{Shape{qkv.size(0), qkv.size(1), a.heads, a.size}, a.dtype},
                              {keys.shape(), keys.dtype(), kKeysOut}};
  if (a.has_values) out.push_back({values.shape(), values.dtype(), kValuesOut});
  return out;
}

std::vector<OutputSpec> rotate_and_cache_infer(const OpCall& call) {
  return infer_new_rows(call, call.as<WriteAttrs>());
}

/// Positions of all rows, [B, T].
Tensor row_positions(const Tensor& positions, std::int64_t steps) {
  return positions.to(i64).unsqueeze(1) + arange(0, steps, 1, {i64, positions.device()}).unsqueeze(0);
}

TensorList paged_attention_vjp(const VjpCall& call) {
  throw Error(fmt::format("{} is not differentiable: train with scaled_dot_product_attention", call.op.name));
}

const OpDef kWrite = {.name = "rotate_and_cache",
                      .infer = rotate_and_cache_infer,
                      .cpu = rotate_and_cache_cpu,
                      .gpu = rotate_and_cache_gpu,
                      .vjp = paged_attention_vjp};

std::vector<OutputSpec> paged_attention_infer(const OpCall& call) {
  const Tensor &q = call.in[kQ], &keys = call.in[kKeys];
  paged_attention_check_floating(call, "q", q.dtype());
  if (q.dim() != 4) throw ShapeError(fmt::format("{}: q is {}; wanted [B, T, H, D]", call.op.name, str(q.shape())));
  check_cache(call, keys, call.in[kValues], q.size(3));
  if (keys.size(1) == 0 || q.size(2) % keys.size(1) != 0) {
    throw ShapeError(fmt::format("{}: {} heads of queries, {} of keys; the second must divide the first", call.op.name,
                                 q.size(2), keys.size(1)));
  }
  check_places(call, call.in[kTable], call.in[kPositions], q.size(0));
  if (call.in[kSinks].defined()) attention::checked_sinks(call.in[kSinks], q.size(2));
  return {{q.shape(), q.dtype()}};
}

TensorList paged_attention_reference(const OpCall& call) {
  const auto a = call.as<AttentionAttrs>();
  const Tensor &q = call.in[kQ], &table = call.in[kTable];
  if (q.numel() == 0 || table.size(1) == 0) return {zeros(q.shape(), {q.dtype(), q.device()})};
  const DType row = q.dtype() == f64 ? f64 : f32;
  const std::int64_t keys = table.size(1) * kCacheBlock;
  const Tensor at = row_positions(call.in[kPositions], q.size(1)).unsqueeze(-1);
  const Tensor key = arange(0, keys, 1, {i64, q.device()}).reshape({1, 1, keys});
  Tensor seen = key <= at;
  if (a.window > 0) seen = logical_and(seen, key > at - static_cast<double>(a.window));
  if (a.chunk > 0) seen = logical_and(seen, key >= at - at % static_cast<double>(a.chunk));
  const Tensor there = repeat_interleave(table >= 0.0, kCacheBlock, 1).unsqueeze(1);
  seen = logical_and(seen, there).unsqueeze(1);
  // A block that no sequence owns may hold NaN, which a weight of 0 would not hide.
  const Tensor any =
      amax(logical_and(there, key <= amax(at, {1}, true)).to(i32), {1}).reshape({q.size(0), 1, keys, 1}) > 0.0;
  const Tensor k = where(any, cached_rows(call.in[kKeys], table, keys, row), 0.0),
               v = call.in[kValues].defined() ? where(any, cached_rows(call.in[kValues], table, keys, row), 0.0) : k;
  const Tensor y =
      dot_product_attention(q.to(row).transpose(1, 2), k, v,
                            {.mask = seen, .scale = a.scale, .softcap = a.softcap, .sinks = call.in[kSinks]});
  return {y.transpose(1, 2).contiguous().to(q.dtype())};
}

const OpDef kPagedAttention = {.name = "paged_attention",
                               .infer = paged_attention_infer,
                               .cpu = paged_attention_cpu,
                               .gpu = paged_attention_gpu,
                               .reference = paged_attention_reference,
                               .vjp = paged_attention_vjp};

std::vector<OutputSpec> rotate_and_attend_infer(const OpCall& call) {
  const auto a = call.as<StepAttrs>().write;
  std::vector<OutputSpec> out = infer_new_rows(call, a);
  if (call.in[kQkv].size(1) != 1)
    throw ShapeError(
        fmt::format("{}: qkv is {}; wanted one row per sequence", call.op.name, str(call.in[kQkv].shape())));
  if (a.heads % a.kv_heads != 0) {
    throw ShapeError(fmt::format("{}: {} heads of queries, {} of keys; the second must divide the first", call.op.name,
                                 a.heads, a.kv_heads));
  }
  if (call.in[kStepSinks].defined()) attention::checked_sinks(call.in[kStepSinks], a.heads);
  const std::int64_t batch = call.in[kQkv].size(0), row = a.heads * a.size;
  out[0].shape = {batch, 1, row};
  if (call.as<StepAttrs>().quantizes) out.push_back({{batch, 1, quantized::activation_bytes(row)}, u8});
  return out;
}

void rotate_and_attend_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<StepAttrs>();
  // Queries stay in f32 or f64 until the attention; rounding them to 16 bits would lose digits.
  const DType dtype = out[0].dtype() == f64 ? f64 : f32;
  std::vector<Tensor> in(call.in.begin(), call.in.end());
  in[kQkv] = in[kQkv].to(dtype);
  Tensor rotated[] = {empty({out[0].size(0), 1, a.write.heads, a.write.size}, {dtype}), in[kKeysOut], in[kValuesOut]};
  rotate_and_cache_cpu({kWrite, in, Attrs::of(a.write)}, rotated);
  const Tensor rows[] = {rotated[0],      in[kKeysOut],        in[kValuesOut],
                         in[kWriteTable], in[kWritePositions], in[kStepSinks]};
  Tensor y[] = {out[0].dtype() == dtype ? out[0] : empty(out[0].shape(), {dtype})};
  paged_attention_cpu({kPagedAttention, rows, Attrs::of(a.attention)}, y);
  if (out[0].dtype() != dtype) out[0].copy_(y[0]);
}

/// Lets the attention write its result in the form that the next gemm reads: as quantized activations as well, or in 16
/// bits only.
bool fuse_step(fusion::Calls calls, fusion::Fused& fused) {
  const fusion::Call &step = calls[0], &linear = calls[1];
  const Tensor &y = step.out[0], &keys = step.in[kKeysOut];
  const auto refuse = [&](const char* why) {
    fused.why = why;
    return false;
  };
  if (y.dtype() != f32 || linear.in[0].impl() != y.impl() || step.out.size() != 3)
    return refuse("the linear layer does not read the attention's result in f32");
  const std::optional<DType> wanted = quantized::wanted_form(linear, keys.dtype() == f16);
  if (!wanted) return refuse("the linear layer reads f32");
  const bool read_once = fusion::dead(calls, 0);  // before `fused` refers to it
  auto a = step.attrs.as<StepAttrs>();
  fused.in = step.in;
  fused.out = step.out;
  fused.replaces = 1;
  if (*wanted == i8) {
    if (step.in[kStepSinks].defined() || !step_quantizes_gpu(step.in[kWriteTable], a.write.size))
      return refuse("the kernel for this many positions cannot quantize its result");
    a.quantizes = true;
    fused.out.push_back(empty({y.size(0), 1, quantized::activation_bytes(y.size(2))}, {u8, y.device()}));
    fused.forms.push_back(quantized::form_of(y, {fused.out[3], {}, true, false}));
  } else {
    if (!read_once) return refuse("the attention's result is read elsewhere");
    a.write.dtype = *wanted;
    fused.out[0] = empty(y.shape(), {*wanted, y.device()});
    fused.forms.push_back(quantized::form_of(y, fused.out[0]));
  }
  fused.attrs = Attrs::of(a);
  return true;
}
constexpr FusionPattern kStepThenProduct[] = {{"rotate_and_attend quantized_linear", fuse_step}};

const OpDef kStep = {.name = "rotate_and_attend",
                     .infer = rotate_and_attend_infer,
                     .cpu = rotate_and_attend_cpu,
                     .gpu = rotate_and_attend_gpu,
                     .vjp = paged_attention_vjp,
                     .replaces = kStepThenProduct};

std::vector<OutputSpec> cached_rows_infer(const OpCall& call) {
  const auto a = call.as<RowsAttrs>();
  const Tensor &cache = call.in[kCache], &table = call.in[kRowsTable];
  const std::int64_t blocks = (a.length + kCacheBlock - 1) / kCacheBlock;
  if (cache.dim() != 4 || cache.size(2) != kCacheBlock || table.dim() != 2 || a.length < 0 || blocks > table.size(1)) {
    throw ShapeError(
        fmt::format("{}: {} positions of a cache {} by a table {}; wanted [blocks, heads, {}, row] and a table that "
                    "has them",
                    call.op.name, a.length, str(cache.shape()), str(table.shape()), kCacheBlock));
  }
  if (table.dtype() != i32)
    throw DtypeError(fmt::format("{}: the table is {}; wanted i32", call.op.name, name(table.dtype())));
  paged_attention_check_floating(call, "rows", a.dtype);
  return {{Shape{table.size(0), cache.size(1), a.length, row_values(cache)}, a.dtype}};
}

TensorList cached_rows_reference(const OpCall& call) {
  const auto a = call.as<RowsAttrs>();
  const Tensor &cache = call.in[kCache], &table = call.in[kRowsTable];
  const std::int64_t batch = table.size(0), heads = cache.size(1), row = cache.size(3), size = row_values(cache);
  const std::int64_t blocks = (a.length + kCacheBlock - 1) / kCacheBlock;
  if (batch * blocks * cache.numel() == 0) return {zeros({batch, heads, a.length, size}, {a.dtype, cache.device()})};
  const Tensor own = table.slice(1, 0, blocks);
  const auto last = static_cast<double>(cache.size(0) - 1);
  const Tensor rows = index_select(cache, 0, clamp(own, 0.0, last).reshape({batch * blocks}));
  Tensor values = rows.reshape({batch, blocks, heads, kCacheBlock, row})
                      .permute({0, 2, 1, 3, 4})
                      .reshape({batch, heads, blocks * kCacheBlock, row});
  if (cache.dtype() == u8) {
    const QuantizedTensor packed(quant::format_named("Q8_0"), {batch, heads, blocks * kCacheBlock, size},
                                 values.contiguous().reshape({values.numel()}));
    values = dequantize(packed, a.dtype);
  }
  const Tensor known = logical_and(own >= 0.0, own <= last);
  const Tensor there = repeat_interleave(known, kCacheBlock, 1).reshape({batch, 1, blocks * kCacheBlock, 1});
  return {where(there, values.to(a.dtype), 0.0).slice(2, 0, a.length).contiguous()};
}

const OpDef kPagedAttentionRows = {.name = "cached_rows",
                                   .infer = cached_rows_infer,
                                   .gpu = cached_rows_gpu,
                                   .reference = cached_rows_reference,
                                   .vjp = paged_attention_vjp};

WriteAttrs write_attrs(const Tensor& qkv, const PagedCache& cache, const RotarySettings& settings) {
  WriteAttrs a;
  a.has_values = cache.values.defined();
  a.heads = settings.heads;
  a.kv_heads = settings.kv_heads;
  a.size = a.all_heads() > 0 && qkv.dim() > 0 ? qkv.size(-1) / a.all_heads() : 0;
  a.eps = static_cast<float>(settings.eps);
  a.magnitude = static_cast<float>(settings.magnitude);
  a.interleaved = settings.interleaved;
  a.dtype = settings.dtype.value_or(qkv.dtype());
  return a;
}

AttentionAttrs attention_attrs(std::int64_t size, const PagedAttentionSettings& settings) {
  const bool given = settings.scale > 0 || size == 0;
  if (settings.chunk < 0 || (settings.chunk > 0 && settings.window > 0))
    throw Error(fmt::format("paged_attention: got a chunk of {} and a window of {}; wanted one of them, or 0",
                            settings.chunk, settings.window));
  // Those longer than a sequence can be hide nothing.
  const auto held = [](std::int64_t limit) { return limit > std::numeric_limits<std::int32_t>::max() ? 0 : limit; };
  return {given ? settings.scale : 1 / std::sqrt(static_cast<double>(size)), settings.softcap, held(settings.window),
          held(settings.chunk)};
}

}  // namespace

DType attention::paged::prompt_dtype(const PagedCache& cache) {
  const Device device = cache.keys.device();
  if (!gpu::runs_kernels(device) || !gpu::capabilities(device).cooperative_matrix) return f32;
  return cache.keys.dtype() == u8 ? bf16 : cache.keys.dtype();
}

std::int64_t cache_row_bytes(std::int64_t head_size) {
  if (head_size < 0 || head_size % 32 != 0) {
    throw ShapeError(fmt::format("a cache in Q8_0 has blocks of 32 elements; a head has {}; use f16", head_size));
  }
  return head_size / 32 * 34;
}

PagedCache paged_cache(std::int64_t blocks, std::int64_t kv_heads, std::int64_t head_size, TensorOptions options) {
  const std::int64_t row = options.dtype == u8 ? cache_row_bytes(head_size) : head_size;
  const Shape shape{blocks, kv_heads, kCacheBlock, row};
  return {zeros(shape, options), zeros(shape, options)};
}

Tensor rotate_and_cache_(const Tensor& qkv, PagedCache& cache, const CachePlaces& places,
                         const RotarySettings& settings) {
  detail::require_defined("rotate_and_cache_", qkv, cache.keys, places.table, places.positions);
  return apply(kWrite,
               {qkv, settings.frequencies, places.table, places.positions, settings.query_norm, settings.key_norm,
                cache.keys, cache.values},
               Attrs::of(write_attrs(qkv, cache, settings)))[0];
}

Tensor rotate_and_attend_(const Tensor& qkv, PagedCache& cache, const CachePlaces& places, const RotarySettings& rotary,
                          const PagedAttentionSettings& attention) {
  detail::require_defined("rotate_and_attend_", qkv, cache.keys, places.table, places.positions);
  const WriteAttrs a = write_attrs(qkv, cache, rotary);
  const auto merged = [&](const Tensor& y) { return y.to(a.dtype).reshape({y.size(0), y.size(1), a.heads * a.size}); };
  RotarySettings queries = rotary;
  queries.dtype = {};
  if (!qkv.device().is_cpu() && qkv.dim() == 3 && qkv.size(1) >= kPrompt && qkv.dtype() == f32 && a.size <= kMostSize)
    queries.dtype = prompt_dtype(cache);
  const bool one = qkv.dim() == 3 && qkv.size(1) == 1 && cache.keys.dim() == 4;
  if (!one || !(qkv.device().is_cpu() || has_step_gpu(qkv, cache, a.heads, a.size)))
    return merged(paged_attention(rotate_and_cache_(qkv, cache, places, queries), cache, places, attention));
  return apply(kStep,
               {qkv, rotary.frequencies, places.table, places.positions, rotary.query_norm, rotary.key_norm, cache.keys,
                cache.values, attention.sinks},
               Attrs::of(StepAttrs{a, attention_attrs(a.size, attention)}))[0];
}

Tensor cached_rows(const Tensor& cache, const Tensor& table, std::int64_t length, DType dtype) {
  detail::require_defined("cached_rows", cache, table);
  return apply1(kPagedAttentionRows, {cache, table}, Attrs::of(RowsAttrs{length, dtype}));
}

Tensor paged_attention(const Tensor& q, const PagedCache& cache, const CachePlaces& places,
                       const PagedAttentionSettings& settings) {
  detail::require_defined("paged_attention", q, cache.keys, places.table, places.positions);
  return apply1(kPagedAttention, {q, cache.keys, cache.values, places.table, places.positions, settings.sinks},
                Attrs::of(attention_attrs(q.dim() == 0 ? 0 : q.size(-1), settings)));
}

std::span<const OpDef* const> ops_in_paged_attention() {
  static const OpDef* const list[] = {&kPagedAttention, &kPagedAttentionRows, &kStep, &kWrite};
  return list;
}

}  // namespace etna
