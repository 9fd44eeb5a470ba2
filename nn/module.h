#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna::nn {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// Names of parameters and buffers with their values; the contents of a checkpoint.
using StateDict = std::map<std::string, Tensor>;

/// The names in which a module and a StateDict differ.
struct IncompatibleKeys {
  std::vector<std::string> missing_keys;     ///< of the module, not in the dictionary: left as they were
  std::vector<std::string> unexpected_keys;  ///< of the dictionary, not in the module: not used
};

class WithTensors;

/// The base of everything with parameters. A module has its parameters, buffers and submodules as members and registers
/// each in its constructor. The registry points to those members, so a module cannot be copied or moved. A member that
/// is not registered is not found: C++ does not let a base class see its members, so nothing can warn of it; compare
/// num_parameters() with what you expect.
///     struct Net : nn::Module {
///       nn::Linear hidden{784, 100}, out{100, 10};
///       Net() { register_module("hidden", hidden), register_module("out", out); }
///       Tensor forward(const Tensor& x) const { return out(relu(hidden(x))); }
///     };
class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Depth first in registration order, named "blocks.0.norm1.weight". A tensor shared by two modules appears once.
  std::vector<NamedTensor> named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  std::vector<Tensor> parameters() const;
  std::int64_t num_parameters() const;  ///< number of elements in all parameters

  /// Parameters and buffers, detached; they share storage with the module.
  StateDict state_dict() const;
  /// Copies values in place, converting dtype and device. If anything is wrong, nothing is copied.
  /// @param strict also refuse missing and unknown names
  /// @return the names that were left out; none if strict
  /// @throws ShapeError, Error listing every name that does not fit
  IncompatibleKeys load_state_dict(const StateDict& state, bool strict = true);

  /// Moves or converts (floating tensors only) every parameter and buffer, with their gradients. Other handles to the
  /// parameters, an optimizer's for example, see the change.
  void to(Device device);
  void to(DType dtype);

  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  /// Drops all gradients.
  void zero_grad();

 protected:
  Module() = default;

  /// Makes `member` require grad and adds it to parameters(). Skips an undefined member (a bias that was left out).
  /// Here and below: @throws Error if the name is taken, holds a dot, or is empty (a module's may be)
  void register_parameter(std::string name, Tensor& member);
  void register_buffer(std::string name, Tensor& member);
  /// With an empty name, the submodule's parameters appear as this module's own.
  void register_module(std::string name, Module& member);

 private:
  friend class WithTensors;
  template <typename Visit>
  void each_tensor(const std::string& prefix, bool parameters, const Visit& visit) const;
  std::vector<NamedTensor> named(bool parameters) const;
  void require_free(const std::string& name, const char* what) const;

  std::vector<std::pair<std::string, Tensor*>> parameters_, buffers_;
  std::vector<std::pair<std::string, Module*>> modules_;
  bool training_ = true;
};

/// A module from one tensor to one tensor; Sequential chains these.
class UnaryModule : public Module {
 public:
  virtual Tensor forward(const Tensor& x) const = 0;
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

}  // namespace etna::nn
