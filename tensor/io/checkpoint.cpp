#include <etna/tensor/io/checkpoint.h>

#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/tensor/op.h>

namespace etna {
namespace {

namespace fs = std::filesystem;
using State = std::map<std::string, Tensor>;

/// The names of the objects, each ended by a line break. An object may have no tensors.
const std::string kObjects = "etna.checkpoint";
constexpr std::string_view kValue = "value";

const Tensor& only_value(const State& state) {
  const auto found = state.find(std::string(kValue));
  if (state.size() != 1 || found == state.end()) throw FormatError("it is no single value in the file");
  return found->second;
}

/// The items with their names; those without one get their position.
std::vector<std::pair<std::string, const CheckpointItem*>> named(const fs::path& path,
                                                                 const std::vector<CheckpointItem>& items) {
  std::vector<std::pair<std::string, const CheckpointItem*>> all;
  std::set<std::string> names;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string name = items[i].name().empty() ? std::to_string(i) : items[i].name();
    const char* fault = name.find('.') != std::string::npos    ? "it holds a dot, which separates the names"
                        : name.find('\n') != std::string::npos ? "it holds a line break"
                        : !names.insert(name).second           ? "it is given twice"
                                                               : nullptr;
    if (fault != nullptr)
      throw FormatError(fmt::format("{}: '{}' cannot name an object: {}", path.string(), name, fault));
    all.emplace_back(name, &items[i]);
  }
  return all;
}

}  // namespace

CheckpointItem::CheckpointItem(std::string name, std::int64_t& number)
    : name_(std::move(name)),
      state_([&number] {
        return State{{std::string(kValue), from_vector({number}, Shape{})}};
      }),
      load_([&number](const State& state) {
        const Tensor& value = only_value(state);
        if (value.numel() != 1 || value.dtype() != i64) throw FormatError("it is no i64 number in the file");
        number = value.item<std::int64_t>();
      }) {}

CheckpointItem::CheckpointItem(std::string name, double& number)
    : name_(std::move(name)),
      state_([&number] {
        return State{{std::string(kValue), from_vector({number}, Shape{})}};
      }),
      load_([&number](const State& state) {
        const Tensor& value = only_value(state);
        if (value.numel() != 1 || value.dtype() != f64) throw FormatError("it is no f64 number in the file");
        number = value.item<double>();
      }) {}

CheckpointItem::CheckpointItem(std::string name, Tensor& tensor)
    : name_(std::move(name)),
      state_([&tensor] {
        return State{{std::string(kValue), tensor.detach()}};
      }),
      load_([&tensor](const State& state) {
        const Tensor& value = only_value(state);
        if (value.shape() != tensor.shape())
          throw FormatError(
              fmt::format("it has shape {} in the file, wanted is {}", str(value.shape()), str(tensor.shape())));
        const GradMode off(false);
        tensor.copy_(value);
      }) {}

void save(const fs::path& path, const std::vector<CheckpointItem>& items, const Metadata& metadata) {
  Metadata all = metadata;
  if (all.contains(kObjects))
    throw FormatError(fmt::format("{}: the metadata '{}' is reserved", path.string(), kObjects));
  NamedTensors tensors;
  std::string& objects = all[kObjects];
  for (const auto& [name, item] : named(path, items)) {
    objects += name + "\n";
    for (auto& [key, tensor] : item->state()) tensors.emplace_back(name + "." + key, tensor);
  }
  save_safetensors(path, tensors, all);
}

Metadata load(const fs::path& path, const std::vector<CheckpointItem>& items) {
  const auto wanted = named(path, items);
  Metadata metadata = load_safetensors_metadata(path);
  const auto objects = metadata.find(kObjects);
  if (objects == metadata.end()) {
    throw FormatError(
        fmt::format("{}: was not written by etna::save(); load_safetensors() reads its tensors", path.string()));
  }
  std::map<std::string, State> states;
  for (std::size_t at = 0, end; (end = objects->second.find('\n', at)) != std::string::npos; at = end + 1)
    states[objects->second.substr(at, end - at)];
  std::vector<std::string> there, missing;
  for (const auto& [name, state] : states) there.push_back(name);
  for (const auto& [name, item] : wanted) {
    if (!states.contains(name)) missing.push_back(name);
  }
  if (!missing.empty()) {
    throw FormatError(fmt::format("{}: lacks {}; it holds {}", path.string(), fmt::join(missing, ", "),
                                  there.empty() ? "nothing" : fmt::format("{}", fmt::join(there, ", "))));
  }
  for (auto& [full, tensor] : load_safetensors(path)) {
    const std::size_t dot = full.find('.');
    const auto state = states.find(full.substr(0, dot));
    if (dot == std::string::npos || state == states.end())
      throw FormatError(fmt::format("{}: the tensor '{}' belongs to no object", path.string(), full));
    state->second.emplace(full.substr(dot + 1), tensor);
  }
  for (const auto& [name, item] : wanted) {
    try {
      item->load(states[name]);
    } catch (const Error& error) {
      throw FormatError(fmt::format("{}: {}: {}", path.string(), name, error.what()));
    }
  }
  metadata.erase(objects);
  return metadata;
}

}  // namespace etna
