#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/tensor.h>

/// A training run in one file: modules, optimizers, loss scalers, data loaders, counters.
namespace etna {

/// What has a state_dict() and takes it back with load_state_dict(): modules, optimizers, scalers, loaders, your types.
template <typename T>
concept HasStateDict = requires(T& object, const std::map<std::string, Tensor>& state) {
  { object.state_dict() } -> std::convertible_to<std::map<std::string, Tensor>>;
  object.load_state_dict(state);
};

/// One object of a checkpoint, by reference, and its name. Without a name it is called by its position: "0", "1" ...
class CheckpointItem {
 public:
  template <HasStateDict T>
  CheckpointItem(std::string name, T& object)
      : name_(std::move(name)),
        state_([&object] { return object.state_dict(); }),
        load_([&object](const std::map<std::string, Tensor>& state) { object.load_state_dict(state); }) {}
  template <HasStateDict T>
  CheckpointItem(T& object) : CheckpointItem(std::string(), object) {}
  /// A counter or another number of the program, and a tensor; loading assigns to them (a tensor: in place).
  CheckpointItem(std::string name, std::int64_t& number);
  CheckpointItem(std::string name, double& number);
  CheckpointItem(std::string name, Tensor& tensor);

  const std::string& name() const { return name_; }
  std::map<std::string, Tensor> state() const { return state_(); }
  void load(const std::map<std::string, Tensor>& state) const { load_(state); }

 private:
  std::string name_;
  std::function<std::map<std::string, Tensor>()> state_;
  std::function<void(const std::map<std::string, Tensor>&)> load_;
};

/// What a checkpoint holds, apart from its file: tensors named "model.0.weight", and metadata.
struct CheckpointState {
  NamedTensors tensors;
  Metadata metadata;
};

/// The present state of the objects. Tensors may share storage with them.
/// @throws FormatError for a name that repeats or holds a dot
CheckpointState checkpoint_state(const std::vector<CheckpointItem>& items, const Metadata& metadata = {});
/// Writes it as save() does.
void write_checkpoint(const FilePath& path, CheckpointState state);
/// Reads it and checks its hash. @throws FormatError if the file is damaged or no checkpoint
CheckpointState read_checkpoint(const FilePath& path);
/// Loads the objects as load() does. @param path for errors
void restore(const FilePath& path, const CheckpointState& state, const std::vector<CheckpointItem>& items);

/// Writes one safetensors file, atomically, with names like "model.0.weight" and "optimizer.3.exp_avg":
///     save("run.safetensors", {{"model", model}, {"optimizer", optimizer}, {"loader", loader}, {"step", step}});
///     load("run.safetensors", {{"model", model}, {"optimizer", optimizer}, {"loader", loader}, {"step", step}});
/// Other programs read it as any safetensors file. Its metadata has a hash of everything, which load() checks.
/// @throws FormatError for a name that repeats or holds a dot, or if the file cannot be written; what was at `path` is
/// then unchanged
void save(const FilePath& path, const std::vector<CheckpointItem>& items, const Metadata& metadata = {});

/// Loads what save() wrote; names may come in another order, and the file may hold objects that are not asked for.
/// Each object is loaded whole or not at all, in the order given.
/// @return the metadata given to save()
/// @throws FormatError naming the file and the object, if the file is damaged, no checkpoint, lacks an object (then
/// nothing is loaded), or if an object refuses its state (then those before it are loaded)
Metadata load(const FilePath& path, const std::vector<CheckpointItem>& items);

/// `save("run.safetensors", model, optimizer)`: objects without names, which load() wants in the same order.
template <HasStateDict... T>
requires(sizeof...(T) > 0) void save(const FilePath& path, T&... objects) {
  save(path, std::vector<CheckpointItem>{CheckpointItem(objects)...});
}
template <HasStateDict... T>
requires(sizeof...(T) > 0) Metadata load(const FilePath& path, T&... objects) {
  return load(path, std::vector<CheckpointItem>{CheckpointItem(objects)...});
}

}  // namespace etna
