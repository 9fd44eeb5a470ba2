#include <etna/models/internal/packed_adapter.h>

#include <algorithm>

#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

bool equal(const AdapterPart& x, const AdapterPart& y) {
  return x.scale == y.scale && x.a.shape() == y.a.shape() && x.a.to_vector<float>() == y.a.to_vector<float>();
}

}  // namespace

std::pair<Tensor, Tensor> packed_adapter(const std::vector<AdapterPart>& parts, std::int64_t rows, double alpha) {
  const bool shared =
      std::all_of(parts.begin(), parts.end(), [&](const AdapterPart& part) { return equal(part, parts[0]); });
  std::int64_t rank = 0;
  std::vector<Tensor> all;
  for (const AdapterPart& part : parts) {
    if (shared && rank > 0) break;
    all.push_back(part.a);
    rank += part.b.size(1);
  }
  const Tensor b = zeros({rows, rank});
  std::int64_t column = 0;
  for (const AdapterPart& part : parts) {
    const std::int64_t width = part.b.size(1);
    // Infinite factors are kept; the reader of the file rejects them.
    const double wanted = part.scale * static_cast<double>(rank);
    const Tensor values = wanted == alpha ? part.b : part.b * (wanted / alpha);
    std::int64_t own = 0;
    for (const RowRange& place : part.places) {
      const Tensor rows = values.slice(0, own, own + place.rows);
      b.slice(0, place.begin, place.begin + place.rows).slice(1, column, column + width).copy_(rows);
      own += place.rows;
    }
    if (!shared) column += width;
  }
  return {all.size() == 1 ? all[0] : cat(all), b};
}

}  // namespace etna::models
