#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/error.h>
#include <etna/device/internal/backend.h>
#include <etna/device/memory.h>
#include <etna/nn/nn.h>
#include <etna/optim/optim.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/kernels.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/elementwise/internal/elementwise.h>

// A third backend in one file, built as docs/adding-a-backend.md describes: memory that only it may access, and a dozen
// kernels. All other ops fall back, to references made of ops that it has, or to the CPU.
namespace etna {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Device memory: host memory whose storages hide their host pointer.
class ToyMemory final : public SegmentSource {
 public:
  bool allocate(std::size_t bytes, Segment& out, std::string& why) override {
    if (bytes > std::size_t{1} << 30) {
      why = "a toy has 1.0 GiB";
      return false;
    }
    void* made = std::aligned_alloc(256, bytes);
    out = {made, nullptr, reinterpret_cast<std::uint64_t>(made), bytes};
    return made != nullptr;
  }
  void synchronize() override {}
  void release(const Segment& segment) override { std::free(segment.handle); }
};

class ToyBackend final : public Backend {
 public:
  const char* name() const override { return "toy"; }
  const std::vector<AdapterInfo>& adapters() override {
    static const std::vector<AdapterInfo> one = [] {
      AdapterInfo info;
      info.device = Device::parse("toy");
      info.name = "Toy";
      info.kind = "software";
      return std::vector{info};
    }();
    return one;
  }
  CachingAllocator& allocator(Device device) override {
    static ToyMemory memory;
    static auto* made = new CachingAllocator(device, memory);
    return *made;
  }
  void upload(Device, const void* source, std::uint64_t address, std::size_t bytes) override {
    std::memcpy(reinterpret_cast<void*>(address), source, bytes);
  }
  void download(Device, std::uint64_t address, void* target, std::size_t bytes) override {
    std::memcpy(target, reinterpret_cast<const void*>(address), bytes);
  }
  void copy(Device, const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset,
            std::size_t bytes) override {
    std::memmove(reinterpret_cast<void*>(to.address() + to_offset),
                 reinterpret_cast<const void*>(from.address() + from_offset), bytes);
  }
};

float* at(const Tensor& x) { return reinterpret_cast<float*>(x.address()); }
bool dense_f32(const Tensor& x) { return x.defined() && x.dtype() == f32 && x.is_contiguous(); }

std::map<std::string, int>& runs() {
  static std::map<std::string, int> counts;
  return counts;
}

/// Elementwise rows over dense f32 tensors of one shape; one operand may be a number.
template <typename F>
bool elementwise_kernel(const OpCall& call, std::span<Tensor> out, F f) {
  const auto a = call.as<elementwise::ElementwiseAttrs>();
  const float* in[2] = {};
  for (std::size_t k = 0; k < call.in.size(); ++k) {
    if (a.scalar_at == static_cast<int>(k) + 1) continue;
    if (!dense_f32(call.in[k]) || call.in[k].shape() != out[0].shape()) return false;
    in[k] = at(call.in[k]);
  }
  if (!dense_f32(out[0])) return false;
  const auto number = static_cast<float>(a.scalar);
  for (std::int64_t i = 0; i < out[0].numel(); ++i)
    at(out[0])[i] = f(in[0] != nullptr ? in[0][i] : number, in[1] != nullptr ? in[1][i] : number);
  ++runs()[call.op.name];
  return true;
}

bool matmul_kernel(const OpCall& call, std::span<Tensor> out) {
  const Tensor &a = call.in[0], &b = call.in[1];
  if (a.dtype() != f32 || b.dtype() != f32 || a.dim() != 2 || b.dim() != 2 || !dense_f32(out[0])) return false;
  for (std::int64_t i = 0; i < a.size(0); ++i) {
    for (std::int64_t j = 0; j < b.size(1); ++j) {
      float sum = 0;
      for (std::int64_t k = 0; k < a.size(1); ++k) {
        sum += at(a)[i * a.strides()[0] + k * a.strides()[1]] * at(b)[k * b.strides()[0] + j * b.strides()[1]];
      }
      at(out[0])[i * b.size(1) + j] = sum;
    }
  }
  ++runs()["matmul"];
  return true;
}

Device toy() {
  static const Device device = [] {
    const DeviceType type = register_backend(std::make_unique<ToyBackend>());
#define ETNA_TOY_ROW(name, expression)                                                                        \
  register_kernel(type, #name, [](const OpCall& call, std::span<Tensor> out) {                                \
    return elementwise_kernel(call, out,                                                                      \
                              []([[maybe_unused]] float a, [[maybe_unused]] float b) { return expression; }); \
  })
    ETNA_TOY_ROW(add, a + b);
    ETNA_TOY_ROW(sub, a - b);
    ETNA_TOY_ROW(mul, a * b);
    ETNA_TOY_ROW(div, a / b);
    ETNA_TOY_ROW(neg, -a);
    ETNA_TOY_ROW(exp, std::exp(a));
    ETNA_TOY_ROW(log, std::log(a));
    ETNA_TOY_ROW(sqrt, std::sqrt(a));
    ETNA_TOY_ROW(tanh, std::tanh(a));
    ETNA_TOY_ROW(relu, std::max(a, 0.0f));
    ETNA_TOY_ROW(relu_backward, (b > 0 ? a : 0.0f));
#undef ETNA_TOY_ROW
    register_kernel(type, "matmul", matmul_kernel);
    return Device(type);
  }();
  return device;
}

/// Sets strict mode for a scope.
class Strict {
 public:
  explicit Strict(bool on) : before_(strict()) { set_strict(on); }
  ~Strict() { set_strict(before_); }

 private:
  bool before_;
};

/// Trains a two-layer classifier for some steps and returns its parameters; its losses go to `losses`.
std::vector<float> train(Device device, std::vector<float>& losses) {
  manual_seed(3);
  nn::Linear first(5, 16), second(16, 3);
  for (Tensor* p : {&first.weight, &first.bias, &second.weight, &second.bias}) {
    *p = p->detach().to(device).requires_grad_();
  }
  optim::SGD optimizer({first.weight, first.bias, second.weight, second.bias}, {.lr = 0.1, .momentum = 0.9});
  manual_seed(4);
  const Tensor x = randn({8, 5}).to(device), y = randint(0, 3, {8}).to(device);
  for (int step = 0; step < 4; ++step) {
    Tensor loss = cross_entropy(second(relu(first(x))), y);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    losses.push_back(loss.item<float>());
  }
  std::vector<float> all;
  for (const Tensor& p : {first.weight, first.bias, second.weight, second.bias}) {
    const std::vector<float> values = p.to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(ToyBackend, HasANameAndAnAdapter) {
  EXPECT_EQ(toy().str(), "toy:0");
  EXPECT_EQ(Device::parse("toy"), toy());
  EXPECT_EQ(Device::parse("toy:0"), toy());
  EXPECT_EQ(select_device("toy"), toy());
  EXPECT_EQ(device_name(toy()), "Toy");
  EXPECT_THAT(device_line("toy", toy()), AllOf(HasSubstr("toy:0 Toy"), HasSubstr("selected=toy:0")));
  EXPECT_NE(select_device("auto"), toy()) << "software is only taken when named";
  EXPECT_THAT([] { select_device("toy:1"); }, ThrowsMessage<DeviceError>(HasSubstr("no such adapter")));
  EXPECT_THAT([] { Device::parse("toyota"); }, ThrowsMessage<DeviceError>(HasSubstr("toy or toy:N")));
  EXPECT_THAT([] { register_backend(std::make_unique<ToyBackend>()); }, ThrowsMessage<DeviceError>(HasSubstr("'toy'")));
  EXPECT_THAT([] { register_kernel(toy().type, "matmul", matmul_kernel); }, ThrowsMessage<Error>(HasSubstr("matmul")));
}

TEST(ToyBackend, TrainsANetworkByItsKernelsAndFallbacks) {
  Strict off(false);
  std::vector<float> wanted_losses, losses;
  const std::vector<float> wanted = train(kCPU, wanted_losses);
  toy();
  runs().clear();
  const std::uint64_t before = transfers().fallbacks;
  const std::vector<float> got = train(toy(), losses);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], wanted_losses[i], 1e-5) << "step " << i;
  EXPECT_LT(losses.back(), losses.front());
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5) << i;
  EXPECT_GE(runs()["matmul"], 4 * 4) << "forward and backward multiply there";
  EXPECT_GE(runs()["relu"], 4);
  EXPECT_GE(runs()["relu_backward"], 4);
  EXPECT_GT(transfers().fallbacks, before);
}

TEST(ToyBackend, FallsBackForViewsAndOtherDtypes) {
  Strict off(false);
  const Tensor x = arange(0, 12, 1, {f32}).reshape({3, 4}), on = x.to(toy());
  EXPECT_EQ((on.t() + on.t()).to_vector<float>(), (x.t() + x.t()).to_vector<float>());
  EXPECT_EQ(on.to(f64).sum().item<double>(), 66);
  EXPECT_THAT(softmax(on, 1).to_vector<float>(),
              ::testing::Pointwise(::testing::FloatNear(1e-6f), softmax(x, 1).to_vector<float>()));
  Tensor y = zeros({3, 4}, {f32, toy()});
  y.slice(1, 1, 3).copy_(on.slice(1, 0, 2));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 0, 1, 0, 0, 4, 5, 0, 0, 8, 9, 0}));
  y.slice(0, 1, 2).fill_(7);
  y.t().add_(on.t());
  EXPECT_EQ(y.select(0, 1).to_vector<float>(), (std::vector<float>{11, 12, 13, 14}));
  EXPECT_EQ(dropout(on, 0.5).numel(), 12);
  manual_seed(1);
  const std::vector<float> wanted = randn({5}).to_vector<float>();
  manual_seed(1);
  EXPECT_EQ(randn({5}, {f32, toy()}).to_vector<float>(), wanted);
  EXPECT_EQ((on * 2.0).to(kCPU).to_vector<float>(), (x * 2.0).to_vector<float>());
}

TEST(ToyBackend, StrictModeForbidsItsFallbacks) {
  Strict off(false);
  const Tensor x = ones({3, 4}, {f32, toy()});
  Strict on(true);
  EXPECT_EQ((x + x).numel(), 12);
  EXPECT_EQ(matmul(x, x.t()).numel(), 9);
  EXPECT_THAT([&] { x.t() + x.t(); }, ThrowsMessage<DeviceError>(AllOf(HasSubstr("add"), HasSubstr("toy:0"))));
  EXPECT_THAT([&] { softmax(x, 1); }, ThrowsMessage<DeviceError>(HasSubstr("softmax")));
  EXPECT_THAT([&] { x + ones({3, 4}); }, ThrowsMessage<DeviceError>(HasSubstr("add")));
}

TEST(ToyBackend, CapturedStepsRunEagerly) {
  Strict off(false);
  int calls = 0;
  auto step = capture([&](const Tensor& x) { return ++calls, relu(x * 2.0); }, {.device = toy()});
  for (float value : {1.0f, 2.0f, 3.0f, 4.0f}) EXPECT_EQ(step(full({2}, value)).sum().item<float>(), 4 * value);
  EXPECT_EQ(calls, 4);
  EXPECT_FALSE(step.captured());
}

TEST(ToyBackend, HasAllocatorsAndTheirErrors) {
  const Tensor x = empty({1000}, {f32, toy()});
  EXPECT_GE(memory_stats(toy()).in_use, 4000u);
  EXPECT_THAT(
      [] {
        empty({std::int64_t{1} << 29}, {f32, toy()});
      },
      ThrowsMessage<OutOfMemory>(HasSubstr("a toy has 1.0 GiB")));
  EXPECT_THAT([&] { x.data<float>(); }, ThrowsMessage<DeviceError>(HasSubstr("toy:0")));
}

}  // namespace
}  // namespace etna
