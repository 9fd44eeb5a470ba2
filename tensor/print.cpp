#include <algorithm>
#include <cmath>
#include <ostream>

#include <fmt/format.h>

#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/op.h>
#include <etna/tensor/tensor.h>

// Prints tensors as PyTorch does: four digits after the point, or scientific notation if the values span too wide a
// range; columns of equal width; above a thousand elements, only three at each end of a dimension.
namespace etna {
namespace {

constexpr std::int64_t kThreshold = 1000;  ///< up to this many elements are printed in full
constexpr std::int64_t kEdge = 3;          ///< elements shown at either end of a longer dimension
constexpr std::size_t kLineWidth = 80;
constexpr std::string_view kPrefix = "tensor(";

/// The printed elements of a tensor, on the host. For a long tensor, the two ends of each dimension, concatenated.
struct Excerpt {
  explicit Excerpt(const Tensor& x) : dtype(x.dtype()), shape(x.shape()), kept(x.shape()) {
    Dims cut;
    for (int d = 0; d < x.dim(); ++d) {
      if (x.numel() > kThreshold && shape[d] > 2 * kEdge) {
        kept[d] = 2 * kEdge;
        cut.push_back(d);
      }
    }
    Tensor host = empty(kept, {dtype, kCPU});
    for (int corner = 0; corner < 1 << cut.rank(); ++corner) {
      Tensor from = x.detach(), to = host;
      for (int c = 0; c < cut.rank(); ++c) {
        bool end = (corner >> c & 1) != 0;
        std::int64_t n = x.size(cut[c]);
        from = from.slice(cut[c], end ? n - kEdge : 0, end ? n : kEdge);
        to = to.slice(cut[c], end ? kEdge : 0, end ? 2 * kEdge : kEdge);
      }
      to.copy_(from);
    }
    if (is_floating(dtype))
      values = host.to_vector<double>();
    else
      integers = host.to_vector<std::int64_t>();
  }
  bool is_cut(int dim) const { return kept[dim] != shape[dim]; }

  DType dtype;
  Shape shape, kept;
  std::vector<double> values;
  std::vector<std::int64_t> integers;  ///< used instead of values if the dtype is not floating
};

/// The common number format of an excerpt's elements.
class ElementFormat {
 public:
  explicit ElementFormat(const Excerpt& excerpt) : excerpt_(excerpt) {
    double least = INFINITY, most = 0;
    std::vector<std::size_t> measured;
    for (std::size_t i = 0; i < excerpt.values.size(); ++i) {
      double v = std::abs(excerpt.values[i]);
      if (!std::isfinite(v) || v == 0) continue;
      least = std::min(least, v);
      most = std::max(most, v);
      whole_ = whole_ && v == std::floor(v);
      measured.push_back(i);
    }
    scientific_ = most > 0 && (most / least > 1000 || most > 1e8 || (!whole_ && least < 1e-4));
    for (std::size_t i = 0; i < excerpt.integers.size(); ++i) measured.push_back(i);
    for (std::size_t i : measured) width_ = std::max(width_, text(i).size());
  }

  std::size_t width() const { return width_; }
  std::string padded(std::size_t i) const { return fmt::format("{:>{}}", text(i), width_); }

 private:
  std::string text(std::size_t i) const {
    if (excerpt_.dtype == boolean) return excerpt_.integers[i] != 0 ? "True" : "False";
    if (!is_floating(excerpt_.dtype)) return fmt::format("{}", excerpt_.integers[i]);
    double v = excerpt_.values[i];
    if (!std::isfinite(v)) return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
    return scientific_ ? fmt::format("{:.4e}", v) : whole_ ? fmt::format("{:.0f}.", v) : fmt::format("{:.4f}", v);
  }

  const Excerpt& excerpt_;
  bool whole_ = true, scientific_ = false;
  std::size_t width_ = 1;
};

/// Prints the innermost dimension, with as many elements per line as fit.
std::string row(const Excerpt& excerpt, const ElementFormat& format, std::size_t first, std::size_t indent) {
  int dim = excerpt.shape.rank() - 1;
  std::vector<std::string> cells;
  for (std::int64_t i = 0; i < excerpt.kept[dim]; ++i) {
    if (i == kEdge && excerpt.is_cut(dim)) cells.emplace_back(" ...");
    cells.push_back(format.padded(first + static_cast<std::size_t>(i)));
  }
  std::size_t room = kLineWidth > indent ? kLineWidth - indent : 0,
              a_line = std::max<std::size_t>(1, room / (format.width() + 2));
  std::string line_break = ",\n";
  line_break.append(indent + 1, ' ');
  std::string text = "[";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) text += i % a_line == 0 ? line_break : ", ";
    text += cells[i];
  }
  return text + "]";
}

/// Prints dimension `dim` and those within it, starting at element `first` of the excerpt.
std::string block(const Excerpt& excerpt, const ElementFormat& format, int dim, std::size_t first, std::size_t indent) {
  int inner = excerpt.shape.rank() - 1 - dim;
  if (inner < 0) return format.padded(first);
  if (inner == 0) return row(excerpt, format, first, indent);
  std::size_t stride = 1;
  for (int d = dim + 1; d < excerpt.kept.rank(); ++d) stride *= static_cast<std::size_t>(excerpt.kept[d]);
  std::string between = ",";
  between.append(static_cast<std::size_t>(inner), '\n').append(indent + 1, ' ');
  std::string text = "[";
  for (std::int64_t i = 0; i < excerpt.kept[dim]; ++i) {
    if (i > 0) text += between;
    if (i == kEdge && excerpt.is_cut(dim)) text += "..." + between;
    text += block(excerpt, format, dim + 1, first + static_cast<std::size_t>(i) * stride, indent + 1);
  }
  return text + "]";
}

}  // namespace

std::string Tensor::str() const {
  capture_hooks::forbid("str", "values are read on the host");
  if (!defined()) return "tensor(undefined)";
  GradMode off(false);
  std::string text(kPrefix);
  std::vector<std::string> suffixes;
  bool is_default = dtype() == f32 || dtype() == boolean || dtype() == i64;
  if (!device().is_cpu()) suffixes.push_back(fmt::format("device='{}'", device().str()));
  if (impl_->storage == nullptr) {
    text += "...";
    suffixes.push_back(fmt::format("size={}", etna::str(shape())));
  } else if (numel() == 0) {
    text += "[]";
    if (dim() != 1) suffixes.push_back(fmt::format("size={}", etna::str(shape())));
    is_default = dtype() == f32;
  } else {
    Excerpt excerpt(*this);
    text += block(excerpt, ElementFormat(excerpt), 0, 0, kPrefix.size());
  }
  if (!is_default) suffixes.push_back(fmt::format("dtype={}", name(dtype())));
  if (requires_grad()) suffixes.emplace_back("requires_grad=True");
  std::size_t column = text.size() - (text.rfind('\n') + 1);  // npos + 1 is 0
  for (const std::string& suffix : suffixes) {
    if (column + suffix.size() + 2 > kLineWidth) {
      text.append(",\n").append(kPrefix.size(), ' ').append(suffix);
      column = kPrefix.size() + suffix.size();
    } else {
      text += ", " + suffix;
      column += suffix.size() + 2;
    }
  }
  return text + ")";
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << tensor.str(); }

}  // namespace etna
