#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>
#include <etna/tensor/ops/attention/internal/attention.h>

// Which keys a query may attend to by its triangle, its window and its document, in words of base ops.
namespace etna {
namespace {

/// 0 ... n - 1, i32, without a transfer.
Tensor positions_on(Device device, std::int64_t n) { return cumsum(ones({n}, {i32, device}), 0).to(i32) - 1; }

}  // namespace

Tensor document_bounds(const Tensor& lengths, std::int64_t positions) {
  detail::require_defined("document_bounds", lengths);
  if (lengths.dtype() != i32 && lengths.dtype() != i64)
    throw DtypeError(fmt::format("document_bounds: lengths hold {}; wanted i32 or i64", name(lengths.dtype())));
  if (lengths.dim() < 1 || lengths.size(-1) < 1 || positions < 0) {
    throw ShapeError(
        fmt::format("document_bounds: got lengths {} and {} positions; wanted lengths [..., N], N at least 1",
                    str(lengths.shape()), positions));
  }
  const Tensor ends = cumsum(lengths, -1).to(i32).unsqueeze(-2);
  const Tensor over = ends <= positions_on(lengths.device(), positions).unsqueeze(-1);
  const Tensor begin = max(masked_fill(ends, logical_not(over), 0), {-1});
  const Tensor end = min(masked_fill(ends, over | (ends > positions), static_cast<double>(positions)), {-1});
  return stack({begin, end}, -1);
}

namespace attention {

AttentionSettings with_chunk_as_documents(const char* op, const AttentionSettings& settings, const Shape& leading,
                                          std::int64_t queries, std::int64_t keys, Device device) {
  AttentionSettings s = settings;
  s.chunk = 0;
  if (settings.chunk == 0) return s;
  if (settings.chunk < 0 || !(s.causal || s.causal_from_end)) {
    throw Error(
        fmt::format("{}: got a chunk of {}; wanted at least 1, or 0 for none, with causal", op, settings.chunk));
  }
  if (queries != keys)
    throw ShapeError(fmt::format("{}: got a chunk, {} queries and {} keys; wanted as many", op, queries, keys));
  if (settings.chunk >= queries) return s;
  const auto size = static_cast<double>(settings.chunk), last = static_cast<double>(queries);
  const Tensor at = positions_on(device, queries);
  if (s.documents.defined()) {  // each has chunks of its own
    const Tensor first = s.documents.select(-1, 0).to(at.dtype()), end = s.documents.select(-1, 1).to(at.dtype());
    const Tensor begin = at - (at - first) % size;
    s.documents = stack({begin, minimum(begin + size, end)}, -1).to(s.documents.dtype());
    return s;
  }
  const Tensor begin = at - at % size;
  Shape all = leading;
  all.push_back(queries);
  all.push_back(2);
  s.documents = stack({begin, clamp_max(begin + size, last)}, -1).expand(all);
  return s;
}

void check_limits(const char* op, const AttentionAttrs& attributes, const Tensor& documents, const Shape& leading,
                  std::int64_t queries, std::int64_t keys) {
  if (attributes.window < 0)
    throw Error(fmt::format("{}: the window is {}; wanted at least 1, or 0 for none", op, attributes.window));
  if (attributes.window > 0 && !attributes.causal)
    throw Error(fmt::format("{}: got a window of {} without causal; set causal, too", op, attributes.window));
  if (!(attributes.softcap >= 0) || !std::isfinite(attributes.softcap))
    throw Error(fmt::format("{}: softcap {} must not be negative, and finite; 0 for none", op, attributes.softcap));
  if (!documents.defined()) return;
  if (documents.dtype() != i32)
    throw DtypeError(
        fmt::format("{}: documents hold {}; wanted i32, as of document_bounds()", op, name(documents.dtype())));
  Shape wanted = leading;
  wanted.push_back(queries);
  wanted.push_back(2);
  if (documents.shape() != wanted)
    throw ShapeError(fmt::format("{}: got documents {}; wanted {}, as of document_bounds()", op, str(documents.shape()),
                                 str(wanted)));
  if (queries != keys)
    throw ShapeError(fmt::format("{}: got documents, {} queries and {} keys; wanted as many", op, queries, keys));
}

Tensor attended(const AttentionAttrs& attributes, const Tensor& documents, std::int64_t queries, std::int64_t keys,
                std::int64_t past, Device device) {
  if (!attributes.causal && !documents.defined()) return {};
  Tensor seen;
  if (attributes.causal) seen = tril(ones({queries, keys}, {f32, device}), past);
  if (attributes.window > 0) seen = triu(seen, std::max(past + 1 - attributes.window, -queries));
  if (seen.defined()) seen = ne(seen, 0.0);
  if (!documents.defined()) return seen;
  const Tensor bounds = documents.unsqueeze(-3), key = positions_on(device, keys);
  const Tensor within = (key >= bounds.slice(-1, 0, 1)) & (key < bounds.slice(-1, 1, 2));
  return seen.defined() ? seen & within : within;
}

}  // namespace attention
}  // namespace etna
