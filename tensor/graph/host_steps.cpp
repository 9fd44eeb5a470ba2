#include <etna/tensor/graph/host_steps.h>

#include <algorithm>
#include <atomic>

namespace etna::recording {

HostSteps::HostSteps() {
  static std::atomic<std::uint32_t> next{1};
  // 0 marks attributes that do not change.
  serial_ = (next.fetch_add(1) % 0xffff) + 1;
}

Attrs HostSteps::add_attrs(std::function<Attrs()> make) {
  const std::size_t i = values_.size();
  if (i > 0xffff)
    throw CaptureError("a captured step holds more than 65,536 ops whose attributes change from step to step");
  values_.push_back(make());
  values_[i].set_source(serial_ << 16 | static_cast<std::uint32_t>(i));
  steps_.push_back([this, i, make = std::move(make)] {
    const std::uint32_t source = values_[i].source();
    values_[i] = make();
    values_[i].set_source(source);
  });
  return values_[i];
}

bool HostSteps::owns(const Attrs& attrs) const { return attrs.source() >> 16 == serial_; }

const Attrs& HostSteps::now(const Attrs& attrs) const { return owns(attrs) ? values_[index(attrs)] : attrs; }

const HostSteps::Slot* HostSteps::find_slot(const Attrs& attrs, Write write) const {
  auto found = std::find_if(slots_.begin(), slots_.end(),
                            [&](const Slot& s) { return s.value == index(attrs) && s.write == write; });
  return found != slots_.end() ? &*found : nullptr;
}

void HostSteps::add_slot(const Attrs& attrs, Write write, std::size_t place, std::size_t bytes) {
  slots_.push_back({index(attrs), write, place, bytes});
}

void HostSteps::advance() {
  for (const auto& step : steps_) step();
}

std::span<const std::byte> HostSteps::state(std::size_t bytes) {
  bytes = (bytes + 3) / 4 * 4;
  state_.resize(bytes);
  for (const Slot& s : slots_) s.write(values_[s.value], state_.data() + s.place);
  return state_;
}

}  // namespace etna::recording
