#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <etna/tensor/op.h>
#include <etna/tensor/shape.h>
#include <etna/tensor/tensor.h>

namespace etna::capture_hooks {
enum class Touch;
}

namespace etna::nn {

class Module;

// ---- hooks: functions that run around a module's call. A module without them pays one comparison.

/// Gets the inputs before forward(). @return inputs to use instead; empty: leaves them
using ForwardPreHook = std::function<TensorList(const Module& module, const TensorList& inputs)>;
/// Gets inputs and outputs after forward(). @return outputs to use instead; empty: leaves them
using ForwardHook =
    std::function<TensorList(const Module& module, const TensorList& inputs, const TensorList& outputs)>;
/// Gets the gradients of the module's inputs and outputs (undefined where none) when backward has computed them.
/// @return gradients of the inputs to pass on instead; empty: leaves them. Where no input requires grad, there is
/// nothing to pass on and the list of theirs is all undefined.
using BackwardHook =
    std::function<TensorList(const Module& module, const TensorList& grad_inputs, const TensorList& grad_outputs)>;

using etna::HookHandle;

// ---- modules

struct Hooks;
struct ModuleIdentity;

/// A parameter or buffer and its name, such as "blocks.0.norm1.weight".
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

/// A module and its name, such as "blocks.0".
struct NamedModule {
  std::string name;
  Module* module = nullptr;
};

class WithTensors;

/// The base of everything with parameters. A module has its parameters, buffers and submodules as members and registers
/// each in its constructor. Modules may be moved and returned, and the registry follows; clone() copies. A member that
/// is not registered is not found: it is neither trained nor moved nor saved. parameters() warns of submodules that
/// were forgotten so, but it cannot see tensors; compare num_parameters() with what you expect.
///     struct Net : nn::Module {
///       nn::Linear hidden{784, 100}, out{100, 10};
///       Net() { register_module("hidden", hidden), register_module("out", out); }
///       Tensor forward(const Tensor& x) const { return out(relu(hidden(x))); }
///     };
class Module {
 public:
  virtual ~Module();
  /// What is registered moves along, handles to parameters keep their tensors, and `other` has nothing left.
  /// @throws Error if tensors were registered by reference, and then nothing changes
  Module(Module&& other);
  Module& operator=(Module&& other);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Depth first in registration order, named "blocks.0.norm1.weight". A tensor shared by two modules appears once.
  /// @param recurse false: this module's own only
  std::vector<NamedTensor> named_parameters(bool recurse = true) const;
  std::vector<NamedTensor> named_buffers(bool recurse = true) const;
  /// The tensors of named_parameters().
  std::vector<Tensor> parameters(bool recurse = true) const;
  /// The tensors of named_buffers().
  std::vector<Tensor> buffers(bool recurse = true) const;
  std::int64_t num_parameters() const;  ///< number of elements in all parameters

  /// Parameters and buffers, detached; they share storage with the module.
  StateDict state_dict() const;
  /// Copies values in place, converting dtype and device. If anything is wrong, nothing is copied.
  /// @param strict also refuse missing and unknown names
  /// @return the names that were left out; none if strict
  /// @throws ShapeError, Error naming the first that do not fit
  IncompatibleKeys load_state_dict(const StateDict& state, bool strict = true);

  /// Moves or converts (floating tensors only) every parameter and buffer, with their gradients. Other handles to the
  /// parameters, an optimizer's for example, see the change.
  void to(Device device);
  void to(DType dtype);

  void train(bool on = true);
  void eval() { train(false); }
  bool training() const;
  /// Drops all gradients.
  void zero_grad();
  /// Freezes (false) or unfreezes all parameters.
  void requires_grad_(bool on = true);

  /// This module, named "", and all below it, depth first, each once; or only those that it registered itself. A
  /// submodule that was registered without a name has the name of the module that holds it.
  std::vector<NamedModule> named_modules();
  /// This module and all below it, as named_modules().
  std::vector<Module*> modules();
  std::vector<NamedModule> named_children();
  /// The submodules that this one registered.
  std::vector<Module*> children();
  /// Calls f with every module, those below before this one.
  void apply(const std::function<void(Module&)>& f);

  /// A deep copy: parameters, buffers and training modes, but no gradients and no hooks. A class of your own overrides
  /// another(). `clone_of(module)` returns the copy in its own type. @throws Error if a class below does not
  std::unique_ptr<Module> clone() const;

  /// Run by operator(), not by a direct call of forward(). A backward hook needs operator() to see the tensors.
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  HookHandle register_forward_hook(ForwardHook hook);
  HookHandle register_full_backward_hook(BackwardHook hook);

  /// The class without namespaces, and its settings, as PyTorch prints them: "Linear" and "in_features=2, ...".
  virtual std::string type_name() const;
  virtual std::string extra_repr() const;
  /// The module and those below it, as PyTorch prints them.
  std::string repr() const;

 protected:
  /// Where something registered is: in the module itself, or on the heap, so that it stays where the module moves.
  enum class Place : std::uint8_t { unknown, member, heap };
  Module();

  /// Makes the member require grad and adds it to parameters(). Skips an undefined one (a bias that was left out).
  ///     register_parameter("weight", &Net::weight);
  /// Here and below: @throws Error if the name is taken, holds a dot, or is empty (a module's may be)
  template <typename M>
  void register_parameter(std::string name, Tensor M::*member) {
    register_parameter(std::move(name), static_cast<M*>(this)->*member, Place::member);
  }
  /// By reference: unless its place is known, the module cannot be moved.
  void register_parameter(std::string name, Tensor& member, Place place = Place::unknown);
  template <typename M>
  void register_buffer(std::string name, Tensor M::*member) {
    register_buffer(std::move(name), static_cast<M*>(this)->*member, Place::member);
  }
  void register_buffer(std::string name, Tensor& member, Place place = Place::unknown);
  /// With an empty name, the submodule's parameters appear as this module's own.
  void register_module(std::string name, Module& member, Place place = Place::member);
  /// Forgets a parameter, buffer or module of this name; nothing happens where there is none.
  void unregister(const std::string& name);

  /// A module constructed as this one was, for clone(), which copies the values into it:
  ///     std::unique_ptr<Module> another() const override { return std::make_unique<Net>(width); }
  virtual std::unique_ptr<Module> another() const;
  /// Whether repr() prints equal neighbours among its submodules once, "(0-5): 6 x ...".
  virtual bool prints_equal_once() const { return false; }

  bool hooked() const { return hooks_ != nullptr && has_hooks(); }
  /// Runs `forward` between the module's hooks; for operator() where hooked().
  TensorList call_hooked(TensorList in, const std::function<TensorList(const TensorList&)>& forward) const;

 private:
  friend class Reparametrization;
  friend class WithTensors;
  struct TensorEntry {
    std::string name;
    Tensor* member;
    Place place;
  };

  template <typename Visit>
  void each_tensor(const std::string& prefix, bool parameters, const Visit& visit, bool recurse = true) const;
  std::vector<NamedTensor> named(bool parameters, bool recurse = true) const;
  void require_free(const std::string& name, const char* what) const;
  void print(std::string& out, const std::string& indent) const;
  void copy_from(const Module& other);
  bool has_hooks() const;
  void note_mode(capture_hooks::Touch touch) const;
  void require_movable() const;
  void take(Module& other);
  void claim(Module& member, Place place);
  void warn_of_unregistered() const;

  std::vector<TensorEntry> parameters_, buffers_;
  std::vector<std::pair<std::string, Module*>> modules_;
  std::vector<Module*> holders_;  ///< the modules that registered this one
  std::shared_ptr<Hooks> hooks_;
  std::shared_ptr<ModuleIdentity> identity_;
};

std::ostream& operator<<(std::ostream& out, const Module& module);

/// module.clone() in the module's own type.
template <typename M>
std::unique_ptr<M> clone_of(const M& module) {
  return std::unique_ptr<M>(dynamic_cast<M*>(module.clone().release()));
}

/// Checks a size that a module's constructor got. @return it
/// @throws ShapeError naming the module and the argument if the size is below `least`
std::int64_t checked_size(const char* module, const char* argument, std::int64_t size, std::int64_t least = 0);

/// A module from one tensor to one tensor; Sequential chains these.
class UnaryModule : public Module {
 public:
  virtual Tensor forward(const Tensor& x) const = 0;
  Tensor operator()(const Tensor& x) const { return hooked() ? between_hooks(x) : forward(x); }

 private:
  Tensor between_hooks(const Tensor& x) const;
};

// ---- settings as Python prints them, for extra_repr()

std::string repr_of(bool value);    ///< "True"
std::string repr_of(double value);  ///< "1.0", "1e-05"
/// One number is "3", several are "(3, 2)". @param none printed as "None"
std::string repr_of(const Dims& dims, std::int64_t none);
std::string repr_of(const Dims& dims);
/// "alpha=1.0"
std::string repr_of(const char* name, double value);
/// As many numbers as a layer has dimensions, "(3, 3)" or "(3,)"; one number stands for all.
std::string tuple_of(const Dims& dims, int count);

}  // namespace etna::nn
