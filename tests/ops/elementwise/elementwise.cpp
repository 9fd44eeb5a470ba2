#include <algorithm>
#include <limits>
#include <string_view>

#include <conformance/samples.h>
#include <etna/tensor/ops.h>

// Samples of every row of the elementwise table, drawn from the row's domain, and of cast and copy. The machinery that
// rows share (dtypes, strides, broadcasting, vectors) is tested with some of them; of the others, only what is theirs.
namespace etna::conformance {
namespace {

enum class Result { same, real, truth, bits };

struct Row {
  std::string name;
  Result result;
  double lo, hi;

  /// A number for a scalar operand: inside the domain, and unlikely to equal a drawn value.
  double number() const { return lo + 0.6180339887 * (hi - lo); }
  bool differentiable() const { return result != Result::truth && result != Result::bits && name != "nextafter"; }
  bool in_every_way() const {
    static constexpr std::string_view list[] = {"neg",
                                                "abs",
                                                "square",
                                                "relu",
                                                "add",
                                                "sub",
                                                "mul",
                                                "div",
                                                "pow",
                                                "minimum",
                                                "where",
                                                "add_scaled",
                                                "exp",
                                                "log",
                                                "sigmoid",
                                                "gelu",
                                                "maximum",
                                                "eq",
                                                "lt",
                                                "logical_or",
                                                "isnan",
                                                "logical_not",
                                                "silu",
                                                "relu_backward",
                                                "sign",
                                                "tanh",
                                                "sin",
                                                "clamp_min",
                                                "clamp_max",
                                                "larger_share",
                                                "log1p",
                                                "sqrt",
                                                "rsqrt",
                                                "reciprocal",
                                                "cos",
                                                "gelu_tanh",
                                                "softplus",
                                                "erf",
                                                "tanh_backward",
                                                "sigmoid_backward",
                                                "silu_backward",
                                                "gelu_backward",
                                                "ne",
                                                "le",
                                                "gt",
                                                "ge",
                                                "logical_and",
                                                "isfinite"};
    return std::find(std::begin(list), std::end(list), name) != std::end(list);
  }
  std::vector<DType> floats() const {
    if (name == "nextafter") return {f64, f32};
    return in_every_way() ? kFloats : std::vector<DType>{f64, f32, f16};
  }
  /// Integers, if the row computes in them; one dtype is enough to see that others become floats.
  std::vector<DType> integers() const {
    return in_every_way() || result == Result::same || result == Result::bits ? kIntegers : std::vector<DType>{i32};
  }
  /// Points where the row's gradient jumps: where an operand is 0 or equals the number.
  std::vector<double> corners() const {
    if (name == "floor" || name == "ceil" || name == "trunc" || name == "frac") return {-3, -2, -1, 0, 1, 2, 3};
    if (name == "round") return {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5};
    if (name == "relu6") return {0, 6};
    if (name.starts_with("hards") || name == "softshrink") return {-3, 3, number(), -number(), 0};
    return lo < 0 ? std::vector<double>{0.0, number()} : std::vector<double>{number()};
  }
  Sample sample(const char* what) const {
    Sample s(name, what);
    if (!differentiable()) s.gradients(Gradients::none);
    // Their gradients come from the rounded result.
    if (name == "tanh" || name == "tan" || name == "erfinv" || name == "expm1") s.looser_halves(4);
    return s;
  }
};

constexpr double kElementwiseNaN = std::numeric_limits<double>::quiet_NaN(),
                 kInfinity = std::numeric_limits<double>::infinity();

/// A shape that spreads over several workgroups, with an odd end.
const Shape kPrime = {1031};

/// Rows of integers: the walk's oracle computes in the same dtype, since f64 has no bits to combine.
template <typename F>
void bits(std::vector<Sample>& all, const Row& row, int arity, F f) {
  auto add = [&](const std::string& what, const Shape& shape, DType t) {
    Sample s = row.sample("");
    s.name = what;
    for (int k = 0; k < arity; ++k) s.index(shape, row.lo, row.hi, t);
    all.push_back(s.calls(f).in_dtypes({t}));
  };
  for (DType t : kIntegers) add("of " + std::string(etna::name(t)), {4, 9}, t);
  add("nothing", {3, 0}, i32);
  if (arity == 1 || row.name.ends_with("shift") || row.name == "gcd" || row.name == "lcm") return;
  Sample masks = row.sample("bool");
  for (int k = 0; k < arity; ++k) masks.mask({3, 5});
  all.push_back(masks.calls(f).in_dtypes({boolean}));
}

template <typename F>
void unary(std::vector<Sample>& all, const Row& row, F f) {
  auto call = [f](const TensorList& in) { return f(in[0]); };
  if (row.result == Result::bits) return bits(all, row, 1, call);
  auto add = [&](const char* what, const Shape& shape) -> Sample& {
    return all.emplace_back(row.sample(what).in(shape, row.lo, row.hi).away_from(row.corners()).calls(call));
  };
  add("a matrix", {5, 7}).in_dtypes(row.floats());
  add("nothing", {3, 0}).in_dtypes(row.floats());
  if (row.in_every_way()) {
    add("one number", {});
    add("prime", kPrime);
  }
  all.push_back(row.sample("whole numbers")
                    .in({4, 9}, row.lo, row.hi)
                    .whole()
                    .calls(call)
                    .in_dtypes(row.integers())
                    .gradients(Gradients::none));
  if (row.result == Result::truth) {
    all.push_back(row.sample("equal, infinite, NaN")
                      .values({8}, {0, 1, -1, kElementwiseNaN, kInfinity, -kInfinity, 2, 0.5})
                      .calls(call)
                      .gradients(Gradients::none));
    if (row.name == "logical_not") all.push_back(row.sample("bool").mask({3, 5}).calls(call).in_dtypes({boolean}));
  } else {
    all.push_back(row.sample("NaN stays visible")
                      .values({4}, {kElementwiseNaN, row.number(), kElementwiseNaN, row.number()})
                      .calls(call)
                      .in_dtypes(row.floats())
                      .gradients(Gradients::none));
  }
}

template <typename F>
void binary(std::vector<Sample>& all, const Row& row, F f) {
  auto call = [f](const TensorList& in) { return f(in[0], in[1]); };
  if (row.result == Result::bits) return bits(all, row, 2, call);
  auto add = [&](const char* what, const Shape& a, const Shape& b) -> Sample& {
    return all.emplace_back(row.sample(what)
                                .in(a, row.lo, row.hi)
                                .away_from(row.corners())
                                .in(b, row.lo, row.hi)
                                .away_from(row.corners())
                                .calls(call));
  };
  add("two matrices", {5, 7}, {5, 7}).in_dtypes(row.floats());
  add("nothing", {0, 3}, {3}).in_dtypes(row.floats());
  if (row.in_every_way()) {
    add("row and column", {3, 1, 5}, {4, 1});
    add("a matrix and one number", {3, 5}, {});
    add("prime", kPrime, kPrime);
    add("six dimensions", {2, 1, 3, 1, 2, 2}, {1, 3, 1, 2, 2, 1});
  }
  const double number = row.number();
  all.push_back(row.sample("number on the right")
                    .in({3, 7}, row.lo, row.hi)
                    .away_from(row.corners())
                    .calls([f, number](const TensorList& in) { return f(in[0], number); })
                    .in_dtypes(row.floats()));
  all.push_back(row.sample("number on the left")
                    .in({3, 7}, row.lo, row.hi)
                    .away_from(row.corners())
                    .calls([f, number](const TensorList& in) { return f(number, in[0]); })
                    .in_dtypes(row.floats()));
  if (row.in_every_way() || row.result == Result::same) {
    all.push_back(row.sample("whole numbers")
                      .in({4, 9}, row.lo, row.hi)
                      .in({9}, row.lo, row.hi)
                      .calls(call)
                      .in_dtypes(row.integers()));
  }
  Sample equal_ones = row.sample("whole numbers, equal ones");
  equal_ones.in({4, 9}, row.lo, row.hi).whole().in({9}, row.lo, row.hi).whole().calls(call).gradients(Gradients::none);
  if (row.in_every_way())
    all.push_back(equal_ones);
  else
    all.push_back(equal_ones.in_dtypes(row.integers()));
  bool logic = row.name.starts_with("logical") || row.name == "eq" || row.name == "ne";
  if (logic) all.push_back(row.sample("bool").mask({3, 5}).mask({5}).calls(call).in_dtypes({boolean}));
  // Rows that select one operand may hide the other's NaN, depending on the comparison. These two must show it:
  if (row.name == "minimum" || row.name == "maximum" || row.name == "add" || row.name == "mul") {
    all.push_back(row.sample("NaN stays visible")
                      .values({5}, {kElementwiseNaN, 1, kElementwiseNaN, kInfinity, 2})
                      .values({5}, {1, kElementwiseNaN, kElementwiseNaN, 3, -kInfinity})
                      .calls(call)
                      .gradients(Gradients::none));
  }
}

/// Rows of one tensor and a number.
template <typename F>
void numbered(std::vector<Sample>& all, const Row& row, F f) {
  const double number = row.number();
  auto call = [f, number](const TensorList& in) { return f(in[0], number); };
  for (const Shape& shape : {Shape{5, 7}, Shape{3, 0}}) {
    all.push_back(row.sample(numel(shape) > 0 ? "a matrix" : "nothing")
                      .in(shape, row.lo, row.hi)
                      .away_from(row.corners())
                      .calls(call)
                      .in_dtypes(row.floats()));
  }
  all.push_back(row.sample("whole numbers")
                    .in({4, 9}, row.lo, row.hi)
                    .whole()
                    .calls(call)
                    .in_dtypes({i32})
                    .gradients(Gradients::none));
  all.push_back(row.sample("NaN stays visible")
                    .values({3}, {kElementwiseNaN, 1, kElementwiseNaN})
                    .calls(call)
                    .in_dtypes({f32})
                    .gradients(Gradients::none));
}

/// Rows of two tensors and a number.
template <typename F>
void numbered_pair(std::vector<Sample>& all, const Row& row, F f) {
  const double number = row.number();
  for (const Shape& shape : {Shape{5, 7}, Shape{3, 0}}) {
    all.push_back(row.sample(numel(shape) > 0 ? "two matrices" : "nothing")
                      .in(shape, row.lo, row.hi)
                      .in(shape, row.lo, row.hi)
                      .away_from(row.corners())
                      .calls([f, number](const TensorList& in) { return f(in[0], in[1], number); })
                      .in_dtypes(row.floats()));
  }
}

template <typename F>
void ternary(std::vector<Sample>& all, const Row& row, F f) {
  auto call = [f](const TensorList& in) { return f(in[0], in[1], in[2]); };
  bool chooses = row.name == "where";
  auto first = [&](Sample& s, const Shape& a) -> Sample& { return chooses ? s.mask(a) : s.in(a, row.lo, row.hi); };
  auto add = [&](const char* what, const Shape& a, const Shape& b, const Shape& c) {
    Sample s = row.sample(what);
    all.push_back(first(s, a).in(b, row.lo, row.hi).away_from(row.corners()).in(c, row.lo, row.hi).calls(call));
  };
  add("three matrices", {3, 5}, {3, 5}, {3, 5});
  add("broadcast", {3, 1}, {5}, {2, 1, 1});
  add("numbers", {}, {}, {});
  add("nothing", {2, 0}, {2, 0}, {1});
  add("prime", kPrime, kPrime, kPrime);
  double number = row.number();
  Sample last = row.sample("number at the end"), middle = row.sample("number in the middle"),
         whole = row.sample("whole numbers");
  all.push_back(
      first(last, {3, 5}).in({5}, row.lo, row.hi).away_from(row.corners()).calls([f, number](const TensorList& in) {
        return f(in[0], in[1], number);
      }));
  all.push_back(first(middle, {3, 5}).in({5}, row.lo, row.hi).calls([f, number](const TensorList& in) {
    return f(in[0], number, in[1]);
  }));
  all.push_back(first(whole, {4, 5})
                    .in({5}, row.lo, row.hi)
                    .in({4, 5}, row.lo, row.hi)
                    .calls(call)
                    .in_dtypes(kIntegers)
                    .gradients(Gradients::none));
}

void cast_and_copy(std::vector<Sample>& all) {
  const std::vector<DType> every(std::begin(kAllDTypes), std::end(kAllDTypes));
  for (DType to : kAllDTypes) {
    auto call = [to](const TensorList& in) { return cast(in[0], to); };
    double lo = to == u8 ? 0 : -100;
    // In f64, differences through a coarser dtype give no derivative.
    all.push_back(Sample("cast", "to " + std::string(etna::name(to)))
                      .in({5, 7}, lo, 100)
                      .calls(call)
                      .and_integers()
                      .and_bool()
                      .gradients(is_floating(to) ? Gradients::compared : Gradients::none)
                      .without_kernel(to == f64 ? every : std::vector<DType>()));
  }
  auto through = [](const TensorList& in) { return cast(cast(in[0], f64), in[0].dtype()); };
  all.push_back(Sample("cast", "through f64").in({3, 5}).calls(through).without_kernel(kFloats));
  all.push_back(Sample("cast", "nothing")
                    .in({0, 4})
                    .calls([](const TensorList& in) { return cast(in[0], f32); })
                    .gradients(Gradients::compared));
  auto copying = [](const TensorList& in) { return copy(in[0]); };
  all.push_back(Sample("copy", "a matrix").in({5, 7}).calls(copying).and_integers().and_bool());
  all.push_back(Sample("copy", "one number").in({}).calls(copying));
  all.push_back(Sample("copy", "nothing").in({0, 3}).calls(copying));
  all.push_back(Sample("copy", "prime").in(kPrime).calls(copying));
  all.push_back(Sample("copy", "six dimensions").in({2, 3, 2, 1, 3, 2}).calls(copying));
}

}  // namespace

std::vector<Sample> samples_in_elementwise() {
  std::vector<Sample> all;
#define ETNA_ADD_1(op) unary(all, row, [](const Tensor& a) { return op(a); });
#define ETNA_ADD_1n(op) numbered(all, row, [](const Tensor& a, double b) { return op(a, b); });
#define ETNA_ADD_2n(op) numbered_pair(all, row, [](const Tensor& a, const Tensor& b, double c) { return op(a, b, c); });
#define ETNA_ADD_2(op) binary(all, row, [](const auto& a, const auto& b) { return op(a, b); });
#define ETNA_ADD_3(op) ternary(all, row, [](const auto& a, const auto& b, const auto& c) { return op(a, b, c); });
#define ETNA_ELEMENTWISE(op, arity, result, saved, cpp, glsl, lo, hi, ...) \
  {                                                                        \
    Row row{#op, Result::result, lo, hi};                                  \
    ETNA_ADD_##arity(op)                                                   \
  }
#include <etna/tables/elementwise.def>
#undef ETNA_ELEMENTWISE
  cast_and_copy(all);
  return all;
}

}  // namespace etna::conformance
