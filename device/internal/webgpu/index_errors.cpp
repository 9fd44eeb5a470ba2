#include <etna/device/internal/webgpu/index_errors.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/backend.h>
#include <etna/device/internal/webgpu/heap.h>

namespace etna::webgpu {
namespace {

constexpr std::uint64_t kFirst = 256;
constexpr std::size_t kMostOps = 256;

using Report = gpu::IndexReport;
static_assert(kFirst + kMostOps * sizeof(Report) <= Heap::kReserved);

}  // namespace

std::uint64_t IndexErrors::address(std::string_view op) {
  auto found = std::find(ops_.begin(), ops_.end(), op);
  if (found == ops_.end()) {
    if (ops_.size() == kMostOps) throw DeviceError(fmt::format("{}: more than {} ops take indices", op, kMostOps));
    ops_.emplace_back(op);
    found = ops_.end() - 1;
  }
  return kFirst + static_cast<std::uint64_t>(found - ops_.begin()) * sizeof(Report);
}

javascript::HeapRange IndexErrors::range() const { return {kFirst, ops_.size() * sizeof(Report)}; }

void IndexErrors::check(const std::vector<std::byte>& bytes) {
  std::string message;
  for (std::size_t i = 0; i < bytes.size() / sizeof(Report); ++i) {
    Report report;
    std::memcpy(&report, bytes.data() + i * sizeof(Report), sizeof(Report));
    if (report.position == 0) continue;
    if (message.empty()) message = report.message(ops_[i], Device::parse("webgpu:0"));
  }
  if (message.empty()) return;
  const std::vector<std::byte> none(bytes.size());
  javascript::write(kFirst, none);
  throw IndexError(message);
}

}  // namespace etna::webgpu
