#include <etna/tensor/io/checkpoint.h>

#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/tensor/internal/name_list.h>
#include <etna/tensor/io/internal/content_hash.h>
#include <etna/tensor/op.h>

namespace etna {
namespace {

using State = std::map<std::string, Tensor>;

/// The names of the objects, each followed by a line break. An object may have no tensors.
const std::string kObjects = "etna.checkpoint";
/// content_hash() of everything else.
const std::string kHash = "etna.hash";
constexpr std::string_view kValue = "value";

const Tensor& only_value(const State& state) {
  const auto found = state.find(std::string(kValue));
  if (state.size() != 1 || found == state.end()) throw FormatError("it is not a single value in the file");
  return found->second;
}

/// The items with their names; items without a name are named by their position.
std::vector<std::pair<std::string, const CheckpointItem*>> named(const std::vector<CheckpointItem>& items) {
  std::vector<std::pair<std::string, const CheckpointItem*>> all;
  std::set<std::string> names;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string name = items[i].name().empty() ? std::to_string(i) : items[i].name();
    const char* fault = name.find('.') != std::string::npos    ? "it contains a dot, which separates names"
                        : name.find('\n') != std::string::npos ? "it contains a line break"
                        : !names.insert(name).second           ? "it is given twice"
                                                               : nullptr;
    if (fault != nullptr) throw FormatError(fmt::format("checkpoint: '{}' cannot name an object: {}", name, fault));
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
        if (value.numel() != 1 || value.dtype() != i64) throw FormatError("it is not an i64 number in the file");
        number = value.item<std::int64_t>();
      }) {}

CheckpointItem::CheckpointItem(std::string name, double& number)
    : name_(std::move(name)),
      state_([&number] {
        return State{{std::string(kValue), from_vector({number}, Shape{})}};
      }),
      load_([&number](const State& state) {
        const Tensor& value = only_value(state);
        if (value.numel() != 1 || value.dtype() != f64) throw FormatError("it is not an f64 number in the file");
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
              fmt::format("it has shape {} in the file; wanted {}", str(value.shape()), str(tensor.shape())));
        const GradMode off(false);
        tensor.copy_(value);
      }) {}

CheckpointState checkpoint_state(const std::vector<CheckpointItem>& items, const Metadata& metadata) {
  CheckpointState all{{}, metadata};
  for (const std::string& reserved : {kObjects, kHash}) {
    if (metadata.contains(reserved))
      throw FormatError(fmt::format("checkpoint: the metadata '{}' is reserved", reserved));
  }
  std::string& objects = all.metadata[kObjects];
  for (const auto& [name, item] : named(items)) {
    objects += name + "\n";
    for (auto& [key, tensor] : item->state()) all.tensors.emplace_back(name + "." + key, tensor);
  }
  return all;
}

void write_checkpoint(const FilePath& path, CheckpointState state) {
  const GradMode off(false);
  for (auto& [name, tensor] : state.tensors) tensor = tensor.contiguous().to(kCPU);
  state.metadata[kHash] = content_hash(state.tensors, state.metadata);
  save_safetensors(path, state.tensors, state.metadata);
}

CheckpointState read_checkpoint(const FilePath& path) {
  CheckpointState state;
  state.metadata = load_safetensors_metadata(path);
  const auto hash = state.metadata.find(kHash);
  if (!state.metadata.contains(kObjects) || hash == state.metadata.end()) {
    throw FormatError(
        fmt::format("{}: was not written by etna::save(); load_safetensors() reads its tensors", path.string()));
  }
  const std::string expected = hash->second;
  state.metadata.erase(hash);
  for (auto& [name, tensor] : load_safetensors(path)) state.tensors.emplace_back(name, tensor);
  if (content_hash(state.tensors, state.metadata) != expected)
    throw FormatError(fmt::format("{}: is damaged: its content does not match its hash", path.string()));
  return state;
}

void restore(const FilePath& path, const CheckpointState& state, const std::vector<CheckpointItem>& items) {
  const auto wanted = named(items);
  const std::string& objects = state.metadata.at(kObjects);
  std::map<std::string, State> states;
  for (std::size_t at = 0, end; (end = objects.find('\n', at)) != std::string::npos; at = end + 1)
    states[objects.substr(at, end - at)];
  std::vector<std::string> there, missing;
  for (const auto& [name, tensors] : states) there.push_back(name);
  for (const auto& [name, item] : wanted) {
    if (!states.contains(name) && !item->is_optional()) missing.push_back(name);
  }
  if (!missing.empty()) {
    throw FormatError(fmt::format("{}: lacks {}; it holds {}", path.string(), name_list(missing),
                                  there.empty() ? "nothing" : fmt::format("{}", fmt::join(there, ", "))));
  }
  for (const auto& [full, tensor] : state.tensors) {
    const std::size_t dot = full.find('.');
    const auto object = states.find(full.substr(0, dot));
    if (dot == std::string::npos || object == states.end())
      throw FormatError(fmt::format("{}: the tensor '{}' belongs to no object", path.string(), full));
    object->second.emplace(full.substr(dot + 1), tensor);
  }
  for (const auto& [name, item] : wanted) {
    const auto state_of = states.find(name);
    if (state_of == states.end()) continue;
    try {
      item->load(state_of->second);
    } catch (const Error& error) {
      throw FormatError(fmt::format("{}: {}: {}", path.string(), name, error.what()));
    }
  }
}

void save(const FilePath& path, const std::vector<CheckpointItem>& items, const Metadata& metadata) {
  write_checkpoint(path, checkpoint_state(items, metadata));
}

Metadata load(const FilePath& path, const std::vector<CheckpointItem>& items) {
  CheckpointState state = read_checkpoint(path);
  restore(path, state, items);
  state.metadata.erase(kObjects);
  return std::move(state.metadata);
}

}  // namespace etna
