#include <etna/tensor/host_steps.h>

#include <algorithm>

namespace etna::recording {

void HostSteps::add_numbers(std::size_t place, std::size_t bytes, std::function<void(std::byte*)> fill) {
  numbers_.resize(std::max(numbers_.size(), (place + bytes + 3) / 4 * 4));
  fill(numbers_.data() + place);
  steps_.push_back([this, place, fill = std::move(fill)] { fill(numbers_.data() + place); });
}

void HostSteps::advance() {
  for (const auto& step : steps_) step();
}

}  // namespace etna::recording
