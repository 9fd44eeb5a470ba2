#include <cstring>

#include <ops/rows.h>

// Elementwise ops over operands that come in runs of four, or nearly: aligned or not, dense, sliced, repeated. Sums and
// products of two numbers have the same bits on every device.
namespace etna {
namespace {

using namespace op_tests;

std::vector<std::uint8_t> runs_bytes(const Tensor& x) {
  const Tensor host = x.to(kCPU).contiguous();
  std::vector<std::uint8_t> out(static_cast<std::size_t>(host.numel()) * item_size(host.dtype()));
  if (!out.empty()) std::memcpy(out.data(), host.raw_data(), out.size());
  return out;
}

struct RunsPair {
  const char* what;
  Tensor a, b;
};

std::vector<RunsPair> runs_pairs(DType t, DType u) {
  auto a = [t](Shape shape) { return random_tensor(shape, t, 1); };
  auto b = [u](Shape shape) { return random_tensor(shape, u, 2); };
  return {
      {"whole fours", a({1028}), b({1028})},
      {"an odd end", a({1031}), b({1031})},
      {"several runs a thread", a({67, 512}), b({67, 512})},
      {"four runs a thread", a({131, 512}), b({131, 512})},
      {"begins within a run", a({1029}).slice(0, 1, 1029), b({1028})},
      {"a row for all", a({37, 44}), b({44})},
      {"a column for all", a({37, 44}), b({37, 1})},
      {"a number for all", a({37, 44}), b({1})},
      {"rows of odd length", a({37, 43}), b({43})},
      {"cut columns", a({9, 48}).slice(1, 4, 40), b({9, 36})},
      {"columns cut within a run", a({9, 48}).slice(1, 3, 39), b({9, 36})},
      {"every second row", a({18, 36}).slice(0, 0, 18, 2), b({9, 36})},
      {"every second element", a({9, 72}).slice(1, 0, 72, 2), b({9, 36})},
      {"four dimensions", a({3, 4, 5, 8}).permute({2, 0, 1, 3}), b({3, 1, 8})},
      {"six dimensions", a({2, 3, 2, 3, 2, 8}).permute({4, 1, 3, 0, 2, 5}), b({3, 1, 2, 1, 8})},
  };
}

TEST(Runs, GiveTheSameBitsAsElementsOneByOne) {
  for (Device device : devices()) {
    if (device.is_cpu()) continue;
    for (auto [t, u] : {std::pair{f32, f32}, {f16, f16}, {bf16, bf16}, {f32, bf16}, {i32, i32}}) {
      for (const RunsPair& p : runs_pairs(t, u)) {
        const Tensor a = placed(p.a, device), b = placed(p.b, device);
        const std::string what = std::string(p.what) + ", " + std::string(name(t)) + " and " + std::string(name(u));
        EXPECT_EQ(runs_bytes(a + b), runs_bytes(p.a + p.b)) << what;
        EXPECT_EQ(runs_bytes(b * a), runs_bytes(p.b * p.a)) << what;
        EXPECT_EQ(runs_bytes(a * 3.0), runs_bytes(p.a * 3.0)) << what;
        EXPECT_EQ(runs_bytes(a.to(bf16)), runs_bytes(p.a.to(bf16))) << what;
      }
    }
  }
}

TEST(Runs, MayBeWrittenInPlaceAndIntoViews) {
  NoGrad off;
  for (Device device : devices()) {
    const Tensor x = random_tensor({37, 44}, f32, 1), y = random_tensor({37, 44}, f32, 2);
    Tensor in_place = x.clone().to(device), views = x.clone().to(device);
    in_place.add_(y.to(device));
    EXPECT_EQ(runs_bytes(in_place), runs_bytes(x + y));
    for (auto [begin, end] : {std::pair{0, 20}, {20, 44}}) {
      views.slice(1, begin, end).mul_(y.slice(1, begin, end).to(device));
    }
    EXPECT_EQ(runs_bytes(views), runs_bytes(x * y));
  }
}

}  // namespace
}  // namespace etna
