#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/device.h>
#include <etna/dist/dist.h>
#include <etna/tensor/capture.h>

#include "world.h"

namespace etna {
namespace {

using distributed::rank, distributed::size, distributed::Reduce;

::testing::AssertionResult same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype())
    return ::testing::AssertionFailure() << str(a.shape()) << " " << a.dtype() << ", " << str(b.shape()) << " "
                                         << b.dtype();
  const Tensor x = a.to(kCPU).contiguous(), y = b.to(kCPU).contiguous();
  const std::size_t bytes = static_cast<std::size_t>(x.numel()) * item_size(x.dtype());
  if (bytes == 0 || std::memcmp(x.raw_data(), y.raw_data(), bytes) == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << a << "\nbut should be\n" << b;
}

/// In the order of ranks; 16-bit floats in f32, rounded once.
Tensor reduced(const std::vector<Tensor>& all, Reduce reduce) {
  const DType dtype = all[0].dtype();
  const bool narrow = dtype == f16 || dtype == bf16;
  Tensor sum = narrow ? all[0].to(f32) : all[0].clone();
  for (std::size_t r = 1; r < all.size(); ++r) {
    const Tensor x = narrow ? all[r].to(f32) : all[r];
    sum = reduce == Reduce::max       ? maximum(sum, x)
          : reduce == Reduce::min     ? minimum(sum, x)
          : reduce == Reduce::product ? sum * x
                                      : sum + x;
  }
  if (reduce == Reduce::mean) sum = sum / static_cast<double>(all.size());
  return sum.to(dtype);
}

TEST(Collectives, ReduceInTheOrderOfRanksForEveryDtype) {
  for (const DType dtype : kAllDTypes) {
    for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::max, Reduce::min, Reduce::product}) {
      if (reduce == Reduce::mean && !is_floating(dtype)) continue;
      if (dtype == boolean && reduce != Reduce::max && reduce != Reduce::min) continue;
      // Both ways: small ones whole, large ones by parts that do not divide evenly.
      for (const Shape& shape : {Shape{}, Shape{3, 5}, Shape{0, 4}, Shape{97, 211}}) {
        const std::vector<Tensor> all = tensors_of_all(shape, dtype);
        const Tensor mine = all[static_cast<std::size_t>(rank())];
        Tensor expected;
        if (dtype == boolean)
          expected = reduced({all[0].to(i32), all.back().to(i32)}, reduce).to(boolean);
        else
          expected = reduced(all, reduce);
        if (dtype == boolean && size() > 2) continue;
        EXPECT_TRUE(same_bits(distributed::all_reduce(mine, reduce), expected))
            << dtype << " " << static_cast<int>(reduce) << " " << str(shape);
        EXPECT_TRUE(same_bits(mine, all[static_cast<std::size_t>(rank())])) << "the input changed";
        Tensor x = mine.clone();
        distributed::all_reduce_(x, reduce);
        EXPECT_TRUE(same_bits(x, expected)) << "in place";
      }
    }
  }
}

TEST(Collectives, MoveWholeTensors) {
  const int n = size();
  for (const DType dtype : {f32, bf16, i64, boolean}) {
    for (const Shape& shape : {Shape{2 * n, 3}, Shape{0, 3}, Shape{n, 0}, Shape{n * 50, 171}}) {
      const std::vector<Tensor> all = tensors_of_all(shape, dtype, 1);
      const Tensor mine = all[static_cast<std::size_t>(rank())];
      EXPECT_TRUE(same_bits(distributed::all_gather(mine), cat(all, 0)));
      for (int root = 0; root < n; ++root) {
        EXPECT_TRUE(same_bits(distributed::broadcast(mine, root), all[static_cast<std::size_t>(root)]));
        Tensor x = mine.clone();
        distributed::broadcast_(x, root);
        EXPECT_TRUE(same_bits(x, all[static_cast<std::size_t>(root)]));
      }
      std::vector<Tensor> parts;
      for (const Tensor& x : all) parts.push_back(x.slice(0, shape[0] / n * rank(), shape[0] / n * (rank() + 1)));
      EXPECT_TRUE(same_bits(distributed::all_to_all(mine), cat(parts, 0)));
      if (dtype == boolean) continue;
      EXPECT_TRUE(same_bits(distributed::reduce_scatter(mine),
                            reduced(all, Reduce::sum).chunk(n, 0).size() == static_cast<std::size_t>(n)
                                ? reduced(all, Reduce::sum).chunk(n, 0)[static_cast<std::size_t>(rank())]
                                : reduced(all, Reduce::sum)));
    }
  }
}

TEST(Collectives, TakeViews) {
  const std::vector<Tensor> all = tensors_of_all({6, 8}, f32, 2);
  std::vector<Tensor> turned;
  for (const Tensor& x : all) turned.push_back(x.t().slice(0, 0, 8, 2));
  const Tensor mine = turned[static_cast<std::size_t>(rank())];
  EXPECT_TRUE(same_bits(distributed::all_reduce(mine), reduced(turned, Reduce::sum)));
  EXPECT_TRUE(same_bits(distributed::all_gather(mine), cat(turned, 0)));
  EXPECT_THROW(distributed::all_reduce_(mine), ShapeError);
  distributed::barrier();
  // A contiguous view is reduced where it lies.
  Tensor base = all[static_cast<std::size_t>(rank())].clone();
  distributed::all_reduce_(base.slice(0, 2, 4));
  EXPECT_TRUE(same_bits(base.slice(0, 2, 4), reduced({all[0].slice(0, 2, 4), all[1].slice(0, 2, 4)}, Reduce::sum)) ||
              size() > 2);
  EXPECT_TRUE(same_bits(base.slice(0, 0, 2), all[static_cast<std::size_t>(rank())].slice(0, 0, 2)));
}

TEST(Collectives, SendAndReceive) {
  const int next = (rank() + 1) % size(), before = (rank() + size() - 1) % size();
  for (const Shape& shape : {Shape{3}, Shape{0}, Shape{400, 401}}) {
    Tensor got = zeros(shape);
    // Every other rank receives first: a send waits for its receiver.
    if (rank() % 2 == 0) distributed::send(tensor_of(rank(), shape), next);
    distributed::receive_(got, before);
    if (rank() % 2 == 1) distributed::send(tensor_of(rank(), shape), next);
    EXPECT_TRUE(same_bits(got, tensor_of(before, shape)));
  }
  EXPECT_THROW(distributed::send(ones({1}), rank()), Error);
  EXPECT_THROW(distributed::send(ones({1}), size()), ShapeError);
}

TEST(Collectives, RefuseWhatHasNoAnswer) {
  EXPECT_THROW(distributed::all_reduce(ones({2}, {i32}), Reduce::mean), DtypeError);
  EXPECT_THROW(distributed::all_reduce(ones({2}, {boolean})), DtypeError);
  EXPECT_THROW(distributed::reduce_scatter(ones({size() + 1})), ShapeError);
  EXPECT_THROW(distributed::all_gather(scalar(1)), ShapeError);
  EXPECT_THROW(distributed::broadcast(ones({2}), -1), ShapeError);
  EXPECT_THROW(distributed::all_reduce(Tensor()), UndefinedTensor);
  const Tensor leaf = ones({2}).requires_grad_();
  EXPECT_THROW(distributed::all_reduce_(leaf), GradError);
  EXPECT_THROW(distributed::init(), Error);
  distributed::barrier();
}

TEST(Collectives, KeepNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = full({3}, rank() == 1 ? nan : 1.0);
  for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::max, Reduce::min, Reduce::product})
    EXPECT_TRUE(isnan(distributed::all_reduce(x, reduce)).all().item<bool>()) << static_cast<int>(reduce);
}

/// The sum of all ranks' losses, differentiated by each rank's x, against central differences.
void check_gradient(const char* what, const std::function<Tensor(const Tensor&)>& f, const Shape& shape) {
  Tensor x = tensor_of(rank(), shape, f64, 3).requires_grad_();
  const Tensor y = f(x);
  const Tensor weight = tensor_of(rank(), y.shape(), f64, 4);
  sum(y * y * weight).backward();
  NoGrad off;
  const auto total = [&](const Tensor& at) {
    const Tensor out = f(at);
    return distributed::all_reduce(sum(out * out * weight)).item<double>();
  };
  // All ranks change the same element of one rank's tensor at a time.
  for (int r = 0; r < size(); ++r) {
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      constexpr double kStep = 1e-5;
      Tensor up = x.detach().clone(), down = x.detach().clone();
      if (r == rank()) {
        up.mutable_data<double>()[i] += kStep;
        down.mutable_data<double>()[i] -= kStep;
      }
      const double slope = (total(up) - total(down)) / (2 * kStep);
      if (r != rank()) continue;
      EXPECT_NEAR(x.grad().to_vector<double>()[static_cast<std::size_t>(i)], slope, 1e-6) << what << ", element " << i;
    }
  }
}

TEST(Gradients, AreThoseOfTheSumOfAllLosses) {
  const int n = size();
  check_gradient("sum", [](const Tensor& x) { return distributed::all_reduce(x); }, {2, 3});
  check_gradient("mean", [](const Tensor& x) { return distributed::all_reduce(x, Reduce::mean); }, {5});
  check_gradient("max", [](const Tensor& x) { return distributed::all_reduce(x, Reduce::max); }, {5});
  check_gradient("min", [](const Tensor& x) { return distributed::all_reduce(x, Reduce::min); }, {5});
  check_gradient("reduce_scatter", [](const Tensor& x) { return distributed::reduce_scatter(x); }, {n, 2});
  check_gradient("mean of parts", [](const Tensor& x) { return distributed::reduce_scatter(x, Reduce::mean); }, {n});
  check_gradient("all_gather", [](const Tensor& x) { return distributed::all_gather(x); }, {2, 2});
  check_gradient("broadcast", [](const Tensor& x) { return distributed::broadcast(x, 1); }, {3});
  check_gradient("all_to_all", [](const Tensor& x) { return distributed::all_to_all(x); }, {n, 2});
  const Tensor x = ones({2}).requires_grad_();
  EXPECT_THROW(sum(distributed::all_reduce(x, Reduce::product)).backward(), GradError);
}

TEST(Gradients, OfGradients) {
  // (Σ x)³ on every rank: the second derivative is n · 6 · Σ x, summed over what each rank differentiates.
  const double value = 1 + rank();
  const Tensor x = full({1}, value, {f64}).requires_grad_();
  const Tensor total = distributed::all_reduce(x);
  const Tensor first = autograd::grad(TensorList{sum(total * total * total)}, TensorList{x}, {}, false, true)[0];
  const double n = size(), s = n * (n + 1) / 2;
  EXPECT_NEAR(first.item<double>(), n * 3 * s * s, 1e-9);
  const Tensor second = autograd::grad(TensorList{sum(first)}, TensorList{x})[0];
  EXPECT_NEAR(second.item<double>(), n * n * 6 * s, 1e-9);
}

TEST(Captured, StepsOnTheCpuReplayCollectives) {
  auto step =
      capture([](const Tensor& x) { return distributed::all_reduce(x * 2.0) + distributed::all_gather(x).sum(); });
  for (int k = 0; k < 4; ++k) {
    std::vector<Tensor> all = tensors_of_all({4, 3}, f32, static_cast<std::uint64_t>(10 + k));
    std::vector<Tensor> doubled;
    for (const Tensor& x : all) doubled.push_back(x * 2.0);
    EXPECT_TRUE(
        same_bits(step(all[static_cast<std::size_t>(rank())]), reduced(doubled, Reduce::sum) + cat(all, 0).sum()));
  }
  EXPECT_GE(step.replays(), 2);
  // A result that nobody reads is still one that the others wait for.
  auto unread = capture([](const Tensor& x) {
    distributed::all_reduce(x);
    return x * 1.0;
  });
  for (int k = 0; k < 4; ++k) unread(ones({2}));
  distributed::barrier();
}

TEST(Vulkan, CollectivesGoThroughTheHost) {
  const char* asked = std::getenv("ETNA_TEST_VULKAN");
  if (asked == nullptr) GTEST_SKIP() << "no Vulkan device is asked for (ETNA_TEST_VULKAN)";
  const Device device = select_device("vulkan:0");
  const std::vector<Tensor> all = tensors_of_all({size() * 2, 5}, f32, 20);
  const Tensor mine = all[static_cast<std::size_t>(rank())].to(device);
  EXPECT_TRUE(same_bits(distributed::all_reduce(mine), reduced(all, Reduce::sum)));
  EXPECT_TRUE(same_bits(distributed::all_reduce(mine.t()), reduced(all, Reduce::sum).t()));
  EXPECT_TRUE(same_bits(distributed::all_gather(mine), cat(all, 0)));
  EXPECT_TRUE(same_bits(distributed::reduce_scatter(mine),
                        reduced(all, Reduce::sum).chunk(size(), 0)[static_cast<std::size_t>(rank())]));
  Tensor x = mine.clone();
  distributed::all_reduce_(x);
  EXPECT_TRUE(same_bits(x, reduced(all, Reduce::sum)));
  distributed::broadcast_(x, 1);
  if (rank() == 0) distributed::send(mine, 1);
  if (rank() == 1) {
    distributed::receive_(x, 0);
    EXPECT_TRUE(same_bits(x, all[0]));
  }
  distributed::barrier();
}

}  // namespace
}  // namespace etna
