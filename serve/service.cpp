#include <etna/serve/service.h>

#include <chrono>
#include <random>

#include <fmt/format.h>

#include <etna/serve/api_error.h>

namespace etna::serve {
namespace {

std::int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::uint64_t new_seed() {
  thread_local std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

std::string new_id(const std::string& prefix) {
  return fmt::format("{}{:016x}{:08x}", prefix, new_seed(), static_cast<std::uint32_t>(new_seed()));
}

Service::Service(Engine& engine, ServiceOptions options)
    : engine_(engine), options_(std::move(options)), started_(seconds_since_1970()) {}

std::size_t Service::model_index(const std::string& name, const std::string& param) const {
  const std::vector<ServedModel>& models = engine_.models();
  if (name.empty()) return 0;
  std::string known;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (models[i].name == name) return i;
    known += fmt::format("{}'{}'", i == 0 ? "" : ", ", models[i].name);
  }
  throw not_found(fmt::format("there is no model '{:.128}' here; there is {}", name, known), "model_not_found", param);
}

const data::Tokenizer& Service::tokenizer(std::size_t index) const {
  const ServedModel& served = model(index);
  if (served.tokenizer != nullptr) return *served.tokenizer;
  throw bad_request("model",
                    fmt::format("the model '{}' has no tokenizer, so it cannot read text; send tokens", served.name));
}

void Service::count(const std::string& endpoint, int status, double seconds) {
  const std::lock_guard lock(mutex_);
  ++requests_.counts[{endpoint, status}];
  requests_.seconds[endpoint].add(seconds);
}

RequestCounts Service::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

}  // namespace etna::serve
