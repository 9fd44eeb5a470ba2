#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include <etna/tensor/op.h>
#include <etna/tensor/tensor.h>

/// The inputs that the conformance walk gives to the ops.
///
/// tests/ops/<file>.cpp holds samples; the build finds the function that is named after the file:
///
///     namespace etna::conformance {
///     std::vector<Sample> samples_in_softmax() {
///       auto rows = [](const TensorList& in) { return softmax(in[0], -1); };
///       return {
///           Sample("softmax", "rows").in({3, 37}).calls(rows),
///           Sample("softmax", "no rows").in({0, 5}).calls(rows),
///           Sample("cross_entropy", "ignored rows").in({5, 7}).index({5}, 0, 7)
///               .covers({"cross_entropy_backward"}).calls(...),
///       };
///     }
///     }
///
/// (tests/ops/<file>_test.cpp has further claims about the same ops as plain gtest cases.) The walk draws the same
/// inputs in every run. It calls the op on the CPU in f64, in every dtype, and on the GPU; compares with the f64 values
/// of the composed reference; checks gradients (first and second order) with differences; and repeats everything with
/// strided, offset and expanded inputs. A sample states only what the op needs.
///
/// Give every op a plain sample, a prime-sized one larger than a workgroup, one without elements, a 0-d one if it
/// accepts that, and one for each flag. Keep shapes small: gradients of up to 256 elements are checked one by one.
/// Callables must not keep state. An op that writes to its inputs gets clones of them; an op that draws numbers is
/// seeded inside the callable. All outputs of the callable are compared.
namespace etna::conformance {

inline const std::vector<DType> kFloats = {f64, f32, f16, bf16};
inline const std::vector<DType> kIntegers = {i64, i32, i8, u8};

struct Input {
  enum class Kind { values, index, mask, none };
  Kind kind = Kind::values;
  Shape shape = {};
  double lo = -2, hi = 2;
  DType dtype = i64;   ///< of index inputs, and of values if `fixed`
  bool fixed = false;  ///< keeps `dtype` whatever dtype the walk runs in
  bool differentiable = true;
  bool whole = false;                ///< whole numbers, so that equal elements occur
  bool distinct = false;             ///< no two elements equal
  bool dense = false;                ///< always contiguous
  std::vector<double> avoided = {};  ///< points that values keep 0.05 away from
  std::vector<double> explicit_values = {};
};

/// `compared`: between dtypes and devices, but not with differences, which are meaningless for the op.
enum class Gradients { none, compared, first, second };

struct Sample {
  /// @param op the OpDef's name; the walk checks that the callable runs it. With composed(): the public function's name
  /// @param name unique among the op's samples
  Sample(std::string op, std::string name) : op(std::move(op)), name(std::move(name)) {}

  // ---- inputs, in the order in which the callable gets them
  /// Values in [lo, hi] of the dtype the walk runs in; differentiable.
  Sample& in(Shape shape, double lo = -2, double hi = 2) {
    inputs.push_back({.shape = shape, .lo = lo, .hi = hi});
    return *this;
  }
  /// Exactly these values.
  Sample& values(Shape shape, std::vector<double> list) {
    inputs.push_back({.shape = shape, .explicit_values = std::move(list)});
    return *this;
  }
  /// Whole numbers in [begin, end); not differentiable.
  Sample& index(Shape shape, double begin, double end, DType dtype = i64) {
    inputs.push_back({.kind = Input::Kind::index,
                      .shape = shape,
                      .lo = begin,
                      .hi = end - 1,
                      .dtype = dtype,
                      .fixed = true,
                      .differentiable = false});
    return *this;
  }
  /// Bool, about half of it true; not differentiable.
  Sample& mask(Shape shape) {
    inputs.push_back(
        {.kind = Input::Kind::mask, .shape = shape, .dtype = boolean, .fixed = true, .differentiable = false});
    return *this;
  }
  /// An absent optional input.
  Sample& none() {
    inputs.push_back({.kind = Input::Kind::none, .differentiable = false});
    return *this;
  }

  // ---- about the last input
  Sample& constant() { return inputs.back().differentiable = false, *this; }
  Sample& as(DType dtype) { return inputs.back().fixed = true, inputs.back().dtype = dtype, *this; }
  Sample& whole() { return inputs.back().whole = true, *this; }
  Sample& distinct() { return inputs.back().distinct = true, *this; }
  Sample& dense() { return inputs.back().dense = true, *this; }
  /// Points where the op is not smooth: values keep 0.05 away.
  Sample& away_from(std::vector<double> points) { return inputs.back().avoided = std::move(points), *this; }

  // ---- about the sample
  /// For a public function that has no OpDef, because it is composed of ops: the walk makes the same comparisons, but
  /// its oracle is the function itself in f64. Values are then a claim of a test beside it (tests/ops/<file>_test.cpp).
  Sample& composed() { return is_composed = true, *this; }
  /// Takes the inputs, returns a Tensor or a TensorList.
  template <typename F>
  Sample& calls(F f) {
    if constexpr (std::convertible_to<std::invoke_result_t<F, const TensorList&>, Tensor>) {
      call = [f](const TensorList& in) { return TensorList{f(in)}; };
    } else {
      call = f;
    }
    return *this;
  }
  /// The dtypes to run in; by default all floating ones.
  Sample& in_dtypes(std::vector<DType> list) { return dtypes = std::move(list), *this; }
  /// i64, i32, i8 and u8 too (and bool). Whole numbers are then drawn from [lo, hi].
  Sample& and_integers() { return dtypes.insert(dtypes.end(), kIntegers.begin(), kIntegers.end()), *this; }
  Sample& and_bool() { return dtypes.push_back(boolean), *this; }
  /// Other ops that the sample's gradient runs and that have no samples themselves; the walk checks that it runs them.
  Sample& covers(std::vector<std::string> ops) { return covered = std::move(ops), *this; }
  /// `first` if second derivatives vanish, do not exist or are not supported; `none` if it is not differentiable.
  Sample& gradients(Gradients g) { return checked = g, *this; }
  /// Multiplies the bounds, for an op that amplifies the rounding of its inputs or of what it stores between steps.
  Sample& looser(double times) { return slack = times, *this; }
  /// The same for f16 and bf16 only, for a gradient that subtracts close numbers that were rounded when saved.
  Sample& looser_halves(double times) { return half_slack = times, *this; }
  /// Dtypes without a GPU kernel by design (f64 need not be listed): the walk expects the error of strict mode for
  /// them.
  Sample& without_kernel(std::vector<DType> list) { return no_kernel = std::move(list), *this; }
  /// The only kernel takes subgroup operations: as above where a GPU has none.
  Sample& with_subgroups() { return subgroups = true, *this; }
  /// The op's purpose is to copy between devices.
  Sample& moves_data() { return transfers = true, *this; }

  std::string op, name;
  std::vector<Input> inputs;
  std::function<TensorList(const TensorList&)> call;
  std::vector<DType> dtypes = kFloats;
  std::vector<DType> no_kernel;
  std::vector<std::string> covered;
  Gradients checked = Gradients::second;
  double slack = 1, half_slack = 1;
  bool transfers = false, is_composed = false, subgroups = false;
};

/// The samples of every file in tests/ops/.
std::vector<Sample> all_samples();

}  // namespace etna::conformance
