#include <etna/tensor/ops/einsum/einsum.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

// einsum, lowered to one matmul for each pair of operands. A pair's labels are of four kinds: batch (in both operands
// and needed later), rows (only in a), columns (only in b), and contracted (in both, not needed later). Each kind
// becomes one dimension of a [batch, rows, columns] matmul after a permute and a reshape, which are views if strides
// allow. A pair without a contracted label is multiplied elementwise.
namespace etna {
namespace {

/// A letter, or kEllipsis + i for the i-th dimension of "...", counted from its last.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 256;

bool contains(const Labels& labels, Label l) { return std::find(labels.begin(), labels.end(), l) != labels.end(); }
int position(const Labels& labels, Label l) {
  return static_cast<int>(std::find(labels.begin(), labels.end(), l) - labels.begin());
}
std::string word(Label l) { return l < kEllipsis ? std::string(1, static_cast<char>(l)) : "..."; }

struct Term {
  Tensor x;
  Labels labels;  ///< of x's dimensions
  std::int64_t size(Label l) const { return x.shape()[position(labels, l)]; }
};

class Equation {
 public:
  Equation(std::string_view text, const TensorList& operands) : text_(text) {
    std::string_view inputs = text, output;
    const std::size_t arrow = text.find("->");
    if (arrow != std::string_view::npos) inputs = text.substr(0, arrow), output = text.substr(arrow + 2);
    std::size_t begin = 0;
    for (const Tensor& x : operands) {
      if (begin > inputs.size())
        fail(fmt::format("it names {} operands, {} were given", terms_.size(), operands.size()));
      const std::size_t comma = std::min(inputs.find(',', begin), inputs.size());
      add_operand(inputs.substr(begin, comma - begin), x);
      begin = comma + 1;
    }
    if (begin <= inputs.size()) fail(fmt::format("it names more operands than the {} given", operands.size()));
    output_ = arrow != std::string_view::npos ? explicit_output(output) : implicit_output();
  }

  const std::vector<Term>& terms() const { return terms_; }
  const Labels& output() const { return output_; }

  [[noreturn]] void fail(const std::string& why) const {
    throw ShapeError(fmt::format("einsum(\"{}\"): {}", text_, why));
  }

 private:
  /// Parses letters in order; `dots` becomes the position of "..." among them, or -1.
  Labels letters(std::string_view part, int& dots) const {
    Labels list;
    dots = -1;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const char c = part[i];
      if (c == ' ') continue;
      if (c == '.') {
        if (part.substr(i, 3) != "..." || dots >= 0) fail("'...' may stand once in each operand, and '.' nowhere else");
        dots = static_cast<int>(list.size());
        i += 2;
      } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        list.push_back(c);
      } else {
        fail(fmt::format("'{}' is no letter; dimensions are named a to z and A to Z", c));
      }
    }
    return list;
  }

  void add_operand(std::string_view part, const Tensor& x) {
    int dots = 0;
    Labels labels = letters(part, dots);
    const int rest = x.dim() - static_cast<int>(labels.size()), operand = static_cast<int>(terms_.size());
    if (rest < 0 || (rest > 0 && dots < 0)) {
      fail(fmt::format("operand {} is {}, which has {} dimensions, not {}{}", operand, str(x.shape()), x.dim(),
                       labels.size(), dots < 0 && rest > 0 ? "; '...' stands for further ones" : ""));
    }
    if (dots >= 0) {
      for (int i = 0; i < rest; ++i) labels.insert(labels.begin() + dots, kEllipsis + i);
      ellipsis_ = std::max(ellipsis_, rest);
    }
    for (int d = 0; d < x.dim(); ++d) {
      const Label l = labels[static_cast<std::size_t>(d)];
      auto [at, added] = sizes_.try_emplace(l, x.shape()[d]);
      if (!added && at->second == 1) at->second = x.shape()[d];
      if (x.shape()[d] != at->second && x.shape()[d] != 1) {
        fail(fmt::format("'{}' is {} in operand {} {}, but {} before", word(l), x.shape()[d], operand, str(x.shape()),
                         at->second));
      }
      ++seen_[l];
    }
    terms_.push_back(on_diagonals({x, labels}, operand));
  }

  Term on_diagonals(Term term, int operand) const {
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      const Label l = term.labels[i];
      const auto again = std::find(term.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, term.labels.end(), l);
      if (again == term.labels.end()) continue;
      const auto j = static_cast<int>(again - term.labels.begin());
      if (term.x.shape()[static_cast<int>(i)] != term.x.shape()[j]) {
        fail(fmt::format("operand {} {} repeats '{}' for different sizes", operand, str(term.x.shape()), word(l)));
      }
      term.x = detail::equal_indices(term.x, static_cast<int>(i), j);
      term.labels.erase(again);
      term.labels.erase(term.labels.begin() + static_cast<std::ptrdiff_t>(i));
      term.labels.push_back(l);
      return on_diagonals(std::move(term), operand);
    }
    return term;
  }

  Labels explicit_output(std::string_view part) const {
    int dots = 0;
    Labels labels = letters(part, dots);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (sizes_.find(labels[i]) == sizes_.end())
        fail(fmt::format("no operand has the output's '{}'", word(labels[i])));
      if (position(labels, labels[i]) != static_cast<int>(i))
        fail(fmt::format("the output repeats '{}'", word(labels[i])));
    }
    for (int i = 0; dots >= 0 && i < ellipsis_; ++i) labels.insert(labels.begin() + dots, kEllipsis + i);
    return labels;
  }

  Labels implicit_output() const {
    Labels labels;
    for (int i = ellipsis_; i > 0; --i) labels.push_back(kEllipsis + i - 1);
    for (const auto& [label, count] : seen_) {
      if (label < kEllipsis && count == 1) labels.push_back(label);
    }
    return labels;
  }

  std::string text_;
  std::vector<Term> terms_;
  Labels output_;
  std::map<Label, std::int64_t> sizes_;
  std::map<Label, int> seen_;
  int ellipsis_ = 0;
};

Term permuted(const Term& term, const Labels& order) {
  if (term.labels == order) return term;
  Dims dims;
  for (Label l : order) dims.push_back(position(term.labels, l));
  return {term.x.permute(dims), order};
}

/// Sums over the labels that `drop` accepts. Within a pair the dtype stays, so i32 operands are summed in i32.
template <typename Drop>
Term summed(Term term, const Drop& drop, bool keep_dtype) {
  Dims dims;
  Labels kept;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (drop(term.labels[i]))
      dims.push_back(static_cast<std::int64_t>(i));
    else
      kept.push_back(term.labels[i]);
  }
  if (dims.empty()) return term;
  Tensor y = sum(term.x, dims);
  return {keep_dtype ? y.to(term.x.dtype()) : y, kept};
}

/// Drops dimensions of size 1 that broadcast to a larger dimension of the other operand.
Term without_broadcast(Term term, const Term& other) {
  for (std::size_t i = term.labels.size(); i-- > 0;) {
    const Label l = term.labels[i];
    if (!contains(other.labels, l) || term.x.shape()[static_cast<int>(i)] != 1) continue;
    if (other.size(l) == 1 && !contains(term.labels, l)) continue;
    term.x = term.x.squeeze(static_cast<std::int64_t>(i));
    term.labels.erase(term.labels.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return term;
}

struct Kinds {
  Labels batch, rows, columns, contracted;
};

Kinds kinds_of(const Term& a, const Term& b, const Labels& wanted) {
  Kinds kinds;
  for (Label l : a.labels) {
    if (!contains(b.labels, l))
      kinds.rows.push_back(l);
    else
      (contains(wanted, l) ? kinds.batch : kinds.contracted).push_back(l);
  }
  for (Label l : b.labels) {
    if (!contains(a.labels, l)) kinds.columns.push_back(l);
  }
  return kinds;
}

Labels concatenated(Labels a, const Labels& b, const Labels& c = {}) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}

std::int64_t elements(const Term& term, const Labels& labels) {
  std::int64_t n = 1;
  for (Label l : labels) n = checked_product(n, term.size(l), "einsum");
  return n;
}

Term elementwise_product(const Term& a, const Term& b, const Kinds& kinds) {
  const Labels result = concatenated(kinds.batch, kinds.rows, kinds.columns);
  Tensor x = permuted(a, concatenated(kinds.batch, kinds.rows)).x,
         y = permuted(b, concatenated(kinds.batch, kinds.columns)).x;
  for (std::size_t i = 0; i < kinds.columns.size(); ++i) x = x.unsqueeze(-1);
  for (std::size_t i = 0; i < kinds.rows.size(); ++i) y = y.unsqueeze(static_cast<std::int64_t>(kinds.batch.size()));
  return {mul(x, y), result};
}

/// @param wanted labels of the output and of the remaining operands
Term contract(const Equation& equation, Term a, Term b, const Labels& wanted) {
  const auto drop_of = [&wanted](const Term& other) {
    return [&wanted, &other](Label l) { return !contains(other.labels, l) && !contains(wanted, l); };
  };
  a = without_broadcast(a, b);
  b = without_broadcast(b, a);
  a = summed(a, drop_of(b), true);
  b = summed(b, drop_of(a), true);
  const Kinds kinds = kinds_of(a, b, wanted);
  const Labels result = concatenated(kinds.batch, kinds.rows, kinds.columns);
  if (result.size() > kMaxRank) {
    equation.fail(
        fmt::format("a product of two operands has {} dimensions, at most {} are possible", result.size(), kMaxRank));
  }
  if (kinds.contracted.empty()) return elementwise_product(a, b, kinds);
  const std::int64_t batch = elements(a, kinds.batch), m = elements(a, kinds.rows), n = elements(b, kinds.columns),
                     k = elements(a, kinds.contracted);
  Shape shape;
  for (Label l : concatenated(kinds.batch, kinds.rows)) shape.push_back(a.size(l));
  for (Label l : kinds.columns) shape.push_back(b.size(l));
  Tensor x = permuted(a, concatenated(kinds.batch, kinds.rows, kinds.contracted)).x;
  Tensor y = permuted(b, concatenated(kinds.batch, kinds.contracted, kinds.columns)).x;
  if (kinds.batch.empty()) return {matmul(x.reshape({m, k}), y.reshape({k, n})).reshape(shape), result};
  return {matmul(x.reshape({batch, m, k}), y.reshape({batch, k, n})).reshape(shape), result};
}

Labels wanted_besides(const std::vector<Term>& terms, std::size_t i, std::size_t j, const Labels& output) {
  Labels wanted = output;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    if (t != i && t != j) wanted = concatenated(wanted, terms[t].labels);
  }
  return wanted;
}

/// The number of elements that contracting a and b adds. A negative number frees memory.
double growth(const Term& a, const Term& b, const Labels& wanted) {
  double result = 1;
  for (Label l : a.labels) {
    if (contains(wanted, l)) {
      result *= static_cast<double>(contains(b.labels, l) ? std::max(a.size(l), b.size(l)) : a.size(l));
    }
  }
  for (Label l : b.labels) {
    if (contains(wanted, l) && !contains(a.labels, l)) result *= static_cast<double>(b.size(l));
  }
  return result - static_cast<double>(a.x.numel()) - static_cast<double>(b.x.numel());
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  if (operands.empty()) throw ShapeError(fmt::format("einsum(\"{}\"): no operands were given", equation));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].defined()) throw UndefinedTensor("einsum", i + 1);
  }
  const Equation parsed(equation, operands);
  std::vector<Term> terms = parsed.terms();
  const Labels& output = parsed.output();
  while (terms.size() > 1) {
    std::size_t first = 0, second = 1;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < terms.size() && terms.size() > 2; ++i) {
      for (std::size_t j = i + 1; j < terms.size(); ++j) {
        const double added = growth(terms[i], terms[j], wanted_besides(terms, i, j, output));
        if (added < least) least = added, first = i, second = j;
      }
    }
    Term product = contract(parsed, terms[first], terms[second], wanted_besides(terms, first, second, output));
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(second));
    terms[first] = std::move(product);
  }
  const Term result = summed(
      terms[0], [&output](Label l) { return !contains(output, l); }, operands.size() > 1);
  return permuted(result, output).x;
}

}  // namespace etna
