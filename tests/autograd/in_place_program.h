#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>

namespace etna {

/// A program of writes in place through views, slices and masks, drawn from a seed, and the same program without any:
/// there, a base is a list of elements, a view a list of places in it, and a write a new list.
class InPlaceProgram {
 public:
  InPlaceProgram(std::uint32_t seed, TensorOptions options);

  struct Result {
    Tensor loss;
    TensorList values;
  };
  /// Runs the program. Constants come from the first run, so that a later one can be captured.
  Result run() { return start(false), got_; }
  /// Runs both. @return the results without writes, in f64 on the CPU
  Result run_with_reference() { return start(true), wanted_; }
  const Result& got() const { return got_; }
  /// Whether backward needs values that the program has overwritten.
  bool overwrites_what_backward_needs() const { return stale_; }

  TensorList leaves, wanted_leaves;

 private:
  struct Handle {
    Tensor x;
    std::size_t base = 0;
    Tensor places;  ///< of x's elements in the base, of x's shape, on the CPU
    bool read_only = false;
  };
  /// A tensor of the program, and of the reference.
  struct Both {
    Tensor x, wanted;
  };
  using Function = std::function<Tensor(const Tensor&)>;
  using Index = std::vector<etna::Index>;

  void start(bool reference);
  std::uint32_t pick(std::size_t n) { return static_cast<std::uint32_t>(random_() % n); }
  int pick_dim(const Handle& h) { return static_cast<int>(pick(static_cast<std::size_t>(h.x.dim()))); }
  double number() { return static_cast<double>(pick(17)) / 8 - 1; }
  Both constant(Shape shape, DType dtype, std::int64_t limit = 0);
  /// f of both; nothing of the reference where only the program runs.
  Both both(const Both& a, const Function& f) const { return {f(a.x), reference_ ? f(a.wanted) : Tensor()}; }

  void add_base(const Both& x);
  Handle view_of(const Handle& h);
  Tensor wanted_of(const Handle& h) const;
  Both source(const Shape& shape, bool saved);
  void step();
  void read(const Handle& h);
  void write(const Handle& h);
  void indexed_write(const Handle& h, std::uint32_t kind);
  void unrecorded_write(const Handle& h);
  void replace(const Handle& h, const Function& f);
  void finish();

  std::uint32_t seed_;
  TensorOptions options_;
  bool reference_ = false, stale_ = false;
  std::mt19937 random_;
  std::size_t constants_used_ = 0;
  std::vector<Both> constants_;
  std::vector<Tensor> bases_;
  std::vector<bool> saved_;  ///< of each base: values that backward needs are in it
  std::vector<Handle> handles_;
  std::vector<Both> read_;
  Result got_, wanted_;
};

}  // namespace etna
