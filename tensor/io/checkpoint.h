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

/// Any type with state_dict() and load_state_dict(): modules, optimizers, scalers, loaders, your own types.
template <typename T>
concept HasStateDict = requires(T& object, const std::map<std::string, Tensor>& state) {
  { object.state_dict() } -> std::convertible_to<std::map<std::string, Tensor>>;
  object.load_state_dict(state);
};

/// An object of a checkpoint, by reference, and its name. The default name is its position: "0", "1" ...
class CheckpointItem {
 public:
  template <HasStateDict T>
  CheckpointItem(std::string name, T& object)
      : name_(std::move(name)),
        state_([&object] { return object.state_dict(); }),
        load_([&object](const std::map<std::string, Tensor>& state) { object.load_state_dict(state); }) {}
  template <HasStateDict T>
  CheckpointItem(T& object) : CheckpointItem(std::string(), object) {}
  /// A counter or another number, or a tensor; loading assigns to it (to a tensor in place).
  CheckpointItem(std::string name, std::int64_t& number);
  CheckpointItem(std::string name, double& number);
  CheckpointItem(std::string name, Tensor& tensor);

  /// An item that older checkpoints lack: loading one of those leaves it as it is.
  CheckpointItem optional() const {
    CheckpointItem item = *this;
    item.optional_ = true;
    return item;
  }

  const std::string& name() const { return name_; }
  bool is_optional() const { return optional_; }
  std::map<std::string, Tensor> state() const { return state_(); }
  void load(const std::map<std::string, Tensor>& state) const { load_(state); }

 private:
  std::string name_;
  bool optional_ = false;
  std::function<std::map<std::string, Tensor>()> state_;
  std::function<void(const std::map<std::string, Tensor>&)> load_;
};

/// The content of a checkpoint: tensors with names like "model.0.weight", and metadata.
struct CheckpointState {
  NamedTensors tensors;
  Metadata metadata;
};

/// The current state of the objects. Tensors may share storage with them.
/// @throws FormatError for a duplicate name, or a name with a dot
CheckpointState checkpoint_state(const std::vector<CheckpointItem>& items, const Metadata& metadata = {});
/// Writes a state like save().
void write_checkpoint(const FilePath& path, CheckpointState state);
/// Reads a state and checks its hash. @throws FormatError if the file is damaged or not a checkpoint
CheckpointState read_checkpoint(const FilePath& path);
/// Restores the objects like load(). @param path for errors
void restore(const FilePath& path, const CheckpointState& state, const std::vector<CheckpointItem>& items);

/// Writes one safetensors file, atomically, with names like "model.0.weight" and "optimizer.3.exp_avg":
///     save("run.safetensors", {{"model", model}, {"optimizer", optimizer}, {"loader", loader}, {"step", step}});
///     load("run.safetensors", {{"model", model}, {"optimizer", optimizer}, {"loader", loader}, {"step", step}});
/// Other programs can read it like any safetensors file. Its metadata contains a hash of everything, which load()
/// checks.
/// @throws FormatError for a duplicate name or one with a dot, or if the file cannot be written; an existing file at
/// `path` is then unchanged
void save(const FilePath& path, const std::vector<CheckpointItem>& items, const Metadata& metadata = {});

/// Loads a file written by save(). Names may be in another order, and the file may contain further objects. Each object
/// is loaded completely or not at all, in the given order.
/// @return the metadata given to save()
/// @throws FormatError naming the file and the object, if the file is damaged, is not a checkpoint, or lacks an object
/// (then nothing is loaded), or if an object rejects its state (then those before it are loaded)
Metadata load(const FilePath& path, const std::vector<CheckpointItem>& items);

/// `save("run.safetensors", model, optimizer)`: objects without names; pass them to load() in the same order.
template <HasStateDict... T>
requires(sizeof...(T) > 0) void save(const FilePath& path, T&... objects) {
  save(path, std::vector<CheckpointItem>{CheckpointItem(objects)...});
}
template <HasStateDict... T>
requires(sizeof...(T) > 0) Metadata load(const FilePath& path, T&... objects) {
  return load(path, std::vector<CheckpointItem>{CheckpointItem(objects)...});
}

}  // namespace etna
