#include <etna/autograd/autograd.h>

#include <utility>

namespace etna::autograd {
namespace {

thread_local const SavedTensorHooks* innermost = nullptr;

struct OnCpu {
  Tensor values;
  Device device;
};

}  // namespace

SavedTensorHooks::SavedTensorHooks(Pack pack, Unpack unpack)
    : pack_(std::move(pack)), unpack_(std::move(unpack)), outer_(std::exchange(innermost, this)) {}
SavedTensorHooks::~SavedTensorHooks() { innermost = outer_; }
const SavedTensorHooks* SavedTensorHooks::current() { return innermost; }

SaveOnCpu::SaveOnCpu()
    : SavedTensorHooks(
          [](const Tensor& x) {
            return std::any(OnCpu{x.to(kCPU), x.device()});
          },
          [](const std::any& packed) {
            const auto& saved = std::any_cast<const OnCpu&>(packed);
            return saved.values.to(saved.device);
          }) {}

}  // namespace etna::autograd
