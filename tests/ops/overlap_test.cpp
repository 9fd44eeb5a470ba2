#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

#include "nn/on_device.h"

// Ops in place whose sources overlap what they write: the result is that of disjoint copies.
namespace etna {
namespace {

class Overlap : public OnDevice {};
ETNA_ON_EVERY_DEVICE(Overlap);

/// @param to, source of one shape, with at least as many rows as columns
struct OverlapOp {
  const char* name;
  std::function<void(Tensor to, const Tensor& source)> run;
};

Tensor overlap_index(std::int64_t n, Device device) { return (n - 1.0) - (cumsum(ones({n}, {i64, device}), 0) - 1.0); }
Tensor rows_of(const Tensor& x) { return overlap_index(x.size(0), x.device()); }
/// Of x's shape, into dimension 0.
Tensor grid_of(const Tensor& x) { return rows_of(x).unsqueeze(1).expand(x.shape()).contiguous(); }
Tensor mask_of(const Tensor& x) { return eq(remainder(cumsum(ones(x.shape(), {i64, x.device()}), 1), 2.0), 0.0); }

std::vector<OverlapOp> overlap_ops() {
  return {
      {"copy_", [](Tensor to, const Tensor& s) { to.copy_(s); }},
      {"add_", [](Tensor to, const Tensor& s) { to.add_(s); }},
      {"add_ scaled", [](Tensor to, const Tensor& s) { to.add_(s, 0.5); }},
      {"sub_", [](Tensor to, const Tensor& s) { to.sub_(s); }},
      {"mul_", [](Tensor to, const Tensor& s) { to.mul_(s); }},
      {"div_", [](Tensor to, const Tensor& s) { to.div_(s); }},
      {"+= of a row", [](Tensor to, const Tensor& s) { to += s[1]; }},
      {"index_copy_", [](Tensor to, const Tensor& s) { index_copy_(to, 0, rows_of(s), s); }},
      {"index_add_", [](Tensor to, const Tensor& s) { index_add_(to, 0, rows_of(s), s, 0.5); }},
      {"index_add_ along 1",
       [](Tensor to, const Tensor& s) { index_add_(to, 1, overlap_index(s.size(1), s.device()), s); }},
      {"index_add_ to a table",
       [](Tensor to, const Tensor& s) {
         if (to.is_contiguous()) index_add_(to, rows_of(s), s);
       }},
      {"index_reduce_", [](Tensor to, const Tensor& s) { index_reduce_(to, 0, rows_of(s), s, "amax"); }},
      {"scatter_", [](Tensor to, const Tensor& s) { scatter_(to, 0, grid_of(s), s); }},
      {"scatter_add_", [](Tensor to, const Tensor& s) { scatter_add_(to, 0, grid_of(s), s); }},
      {"scatter_reduce_", [](Tensor to, const Tensor& s) { scatter_reduce_(to, 0, grid_of(s), s, "prod"); }},
      {"put_",
       [](Tensor to, const Tensor& s) { put_(to, overlap_index(s.numel(), s.device()), s.reshape({s.numel()})); }},
      {"put_ accumulating",
       [](Tensor to, const Tensor& s) {
         put_(to, overlap_index(s.numel(), s.device()), s.reshape({s.numel()}), true);
       }},
      {"masked_scatter_", [](Tensor to, const Tensor& s) { masked_scatter_(to, mask_of(to), s); }},
      {"index_put_", [](Tensor to, const Tensor& s) { index_put_(to, {rows_of(s)}, s); }},
      {"index_put_ accumulating", [](Tensor to, const Tensor& s) { index_put_(to, {rows_of(s)}, s, true); }},
      {"index_put_ of slices", [](Tensor to, const Tensor& s) { to[{Slice(None, None, -1)}] = s; }},
      {"+= by index", [](Tensor to, const Tensor& s) { to[{rows_of(s)}] += s; }},
  };
}

/// Two views of one shape of a matrix [6, 6].
struct OverlapViews {
  const char* name;
  std::function<Tensor(const Tensor&x)> to, source;
};

std::vector<OverlapViews> overlap_views() {
  const auto whole = [](const Tensor& x) { return x; };
  const auto turned_over = [](const Tensor& x) { return x.t(); };
  const auto rows = [](std::int64_t begin, std::int64_t end, std::int64_t step = 1) {
    return [=](const Tensor& x) { return x.slice(0, begin, end, step); };
  };
  const auto columns = [](std::int64_t begin, std::int64_t end) {
    return [=](const Tensor& x) { return x.slice(1, begin, end); };
  };
  return {
      {"itself", whole, whole},
      {"its transpose", whole, turned_over},
      {"transposed, itself", turned_over, whole},
      {"the rows after", rows(0, 5), rows(1, 6)},
      {"the rows before", rows(1, 6), rows(0, 5)},
      {"columns to the right", columns(0, 4), columns(2, 6)},
      {"columns to the left", columns(2, 6), columns(0, 4)},
      {"every other row", rows(0, 6, 2), rows(0, 3)},
      {"rows of every other", rows(0, 3), rows(0, 6, 2)},
      {"a row repeated", whole,
       [](const Tensor& x) {
         return x.slice(0, 2, 3).expand({6, 6});
       }},
  };
}

TEST_P(Overlap, GivesWhatDisjointCopiesGive) {
  std::vector<double> numbers;
  for (int i = 0; i < 36; ++i) numbers.push_back(1 + (i * 7 % 11) * 0.125);
  const Tensor initial = from_vector(numbers, {6, 6}).to(f32).to(device());
  int cases = 0;
  for (const OverlapOp& op : overlap_ops()) {
    for (const OverlapViews& views : overlap_views()) {
      const auto disjoint = [&](const Tensor& x) {
        const Tensor to = x.clone();
        op.run(views.to(to), views.source(x.clone()));
        return to;
      };
      const std::string what = std::string(op.name) + " of " + views.name;
      Tensor x = initial.clone();
      op.run(views.to(x), views.source(x));
      EXPECT_EQ(x.to_vector<float>(), disjoint(initial).to_vector<float>()) << what;
      Tensor y = initial.clone();
      auto step = capture([&] { op.run(views.to(y), views.source(y)); }, {.device = device()});
      Tensor wanted = initial;
      for (int i = 0; i < 3; ++i) {
        step();
        wanted = disjoint(wanted);
        EXPECT_EQ(y.to_vector<float>(), wanted.to_vector<float>()) << what << ", captured, call " << i;
      }
      ++cases;
    }
  }
  std::printf("ops in place with overlapping sources: %d cases, eager and captured\n", cases);
}

TEST_P(Overlap, OfAnIndexWithWhatItIndexes) {
  const std::vector<std::pair<const char*, std::function<void(Tensor & x, const Tensor& index)>>> all = {
      {"scatter_", [](Tensor& x, const Tensor& i) { scatter_(x, 0, i, i); }},
      {"scatter_ of a number", [](Tensor& x, const Tensor& i) { scatter_(x, 0, i.slice(0, 0, 3), 2); }},
      {"scatter_add_", [](Tensor& x, const Tensor& i) { scatter_add_(x, 0, i, i); }},
      {"scatter_reduce_", [](Tensor& x, const Tensor& i) { scatter_reduce_(x, 0, i, i, "amax"); }},
      {"index_add_", [](Tensor& x, const Tensor& i) { index_add_(x, 0, i, i); }},
      {"index_copy_", [](Tensor& x, const Tensor& i) { index_copy_(x, 0, i, i); }},
      {"index_fill_", [](Tensor& x, const Tensor& i) { index_fill_(x, 0, i.slice(0, 0, 2), 1); }},
      {"index_reduce_", [](Tensor& x, const Tensor& i) { index_reduce_(x, 0, i, i, "prod"); }},
      {"put_", [](Tensor& x, const Tensor& i) { put_(x, i, i, true); }},
      {"index_put_", [](Tensor& x, const Tensor& i) { index_put_(x, {i}, i * 2.0); }},
      {"index_put_ of a number", [](Tensor& x, const Tensor& i) { index_put_(x, {i.slice(0, 1, 4)}, 3); }},
      {"a mask", [](Tensor& x, const Tensor& i) { x[eq(i, 2.0)] = 0; }},
  };
  for (DType t : {i64, i32}) {
    for (const auto& [name, run] : all) {
      const Tensor initial = from_vector<std::int64_t>({2, 0, 3, 1}).to(t).to(device());
      Tensor x = initial.clone(), wanted = initial.clone();
      run(x, x);
      run(wanted, initial.clone());
      EXPECT_EQ(x.to_vector<double>(), wanted.to_vector<double>()) << name;
    }
  }
  Tensor mask = from_vector<bool>({true, false, true, true}, device());
  const Tensor before = mask.clone(), source = from_vector<bool>({false, true, false}, device());
  masked_scatter_(mask, mask, source);
  EXPECT_EQ(mask.to_vector<double>(), masked_scatter(before, before, source).to_vector<double>());
}

}  // namespace
}  // namespace etna
