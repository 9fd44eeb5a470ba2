#include <etna/device/internal/vulkan/commands/index_errors.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/backend.h>

namespace etna::vulkan {
namespace {

using Report = gpu::IndexReport;

constexpr std::size_t kMostOps = 256;

}  // namespace

std::uint64_t IndexErrors::address(std::string_view op) {
  auto found = std::find(ops_.begin(), ops_.end(), op);
  if (found == ops_.end()) {
    if (ops_.size() == kMostOps) throw DeviceError(fmt::format("{}: more than {} ops take indices", op, kMostOps));
    if (!buffer_.handle) {
      if (VkResult result = make_buffer(device_, BufferUse::report, kMostOps * sizeof(Report), buffer_)) {
        throw OutOfMemory(fmt::format("{}: no host memory that the GPU can see for reports of wrong indices ({})",
                                      device_.device.str(), str(result)));
      }
      std::memset(buffer_.host, 0, kMostOps * sizeof(Report));
    }
    ops_.emplace_back(op);
    found = ops_.end() - 1;
  }
  return buffer_.address + static_cast<std::uint64_t>(found - ops_.begin()) * sizeof(Report);
}

void IndexErrors::check() {
  std::string message;
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    auto* report = reinterpret_cast<volatile Report*>(buffer_.host) + i;
    if (report->position == 0) continue;
    if (message.empty()) {
      const Report copy{report->position, report->low, report->high, report->limit};
      message = copy.message(ops_[i], device_.device);
    }
    report->position = 0;
  }
  if (!message.empty()) throw IndexError(message);
}

}  // namespace etna::vulkan
