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

/// Names of parameters and buffers with their values; what checkpoints hold.
using StateDict = std::map<std::string, Tensor>;

/// What holds parameters. A module keeps its parameters, buffers and parts as members and registers each in its
/// constructor; the registry points to those members, so a module stays where it was made.
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

  /// Depth first in order of registration, as "blocks.0.norm1.weight"; a tensor that two modules share appears once.
  std::vector<NamedTensor> named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  std::vector<Tensor> parameters() const;
  std::int64_t num_parameters() const;  ///< elements of all parameters

  /// Parameters and buffers, detached; they share storage with the module's own.
  StateDict state_dict() const;
  /// Copies values in place, converting dtype and device; nothing is copied where anything is wrong.
  /// @param strict also refuse names that are missing or not known
  /// @throws ShapeError, Error listing every name that does not fit
  void load_state_dict(const StateDict& state, bool strict = true);

  /// Moves or converts (floating tensors only) every parameter and buffer, and gradients with them. Handles to the
  /// parameters, an optimizer's too, follow.
  void to(Device device);
  void to(DType dtype);

  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  /// Drops every gradient.
  void zero_grad();

 protected:
  Module() = default;

  /// Makes `member` require grad and part of parameters(). An undefined member (a bias left out) is passed over.
  void register_parameter(std::string name, Tensor& member);
  void register_buffer(std::string name, Tensor& member);
  /// An empty name: the part's parameters appear as this module's own.
  void register_module(std::string name, Module& member);

 private:
  template <typename Visit>
  void each_tensor(const std::string& prefix, bool parameters, const Visit& visit) const;
  std::vector<NamedTensor> named(bool parameters) const;

  std::vector<std::pair<std::string, Tensor*>> parameters_, buffers_;
  std::vector<std::pair<std::string, Module*>> modules_;
  bool training_ = true;
};

/// A module from one tensor to one tensor: what Sequential chains.
class UnaryModule : public Module {
 public:
  virtual Tensor forward(const Tensor& x) const = 0;
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

}  // namespace etna::nn
