#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <etna/device/owned.h>
#include <etna/nn/module.h>

namespace etna::nn {

/// Modules of one type (or a common base), named by position.
///     for (const TransformerEncoderLayer& layer : layers) x = layer(x);
template <typename M>
class ModuleList : public Module {
 public:
  ModuleList() = default;

  /// Constructs a module at the end.
  template <typename Made = M, typename... Args>
  Made& emplace_back(Args&&... args) {
    auto made = std::make_unique<Made>(std::forward<Args>(args)...);
    Made& module = *made;
    push_back(std::move(made));
    return module;
  }
  /// Takes a module over.
  void push_back(std::unique_ptr<M> module) {
    this->register_module(std::to_string(items_.size()), *module, Module::Place::heap);
    items_.push_back(std::move(module));
  }

  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  M& operator[](std::size_t i) { return *items_[i]; }
  const M& operator[](std::size_t i) const { return *items_[i]; }

  template <typename Inner, typename Value>
  struct Iterator {
    Inner at;
    Value& operator*() const { return **at; }
    Iterator& operator++() { return ++at, *this; }
    bool operator==(const Iterator& other) const { return at == other.at; }
  };
  using Items = std::vector<std::unique_ptr<M>>;
  using iterator = Iterator<typename Items::const_iterator, M>;
  using const_iterator = Iterator<typename Items::const_iterator, const M>;
  iterator begin() { return {items_.begin()}; }
  iterator end() { return {items_.end()}; }
  const_iterator begin() const { return {items_.begin()}; }
  const_iterator end() const { return {items_.end()}; }

  std::string type_name() const override { return "ModuleList"; }

 protected:
  std::unique_ptr<Module> another() const override {
    auto list = std::make_unique<ModuleList>();
    for (const M& module : *this) list->push_back(clone_of(module));
    return list;
  }
  bool prints_equal_once() const override { return true; }

 private:
  Items items_;
};

/// Modules applied one after the other, named by position.
///     nn::Sequential net(nn::Linear(784, 100), nn::ReLU(), nn::Linear(100, 10));
/// or, one by one:
///     nn::Sequential net;
///     net.add<nn::Linear>(784, 100).add<nn::ReLU>().add<nn::Linear>(100, 10);
class Sequential : public UnaryModule {
 public:
  Sequential();
  /// Takes the modules over; std::move() those that have names.
  template <typename First, typename... More>
  requires std::is_base_of_v<UnaryModule, First> &&(std::is_base_of_v<UnaryModule, More>&&...) &&
      (sizeof...(More) > 0 || !std::is_same_v<First, Sequential>)explicit Sequential(First&& first, More&&... more)
      : Sequential() {
    modules.emplace_back<First>(std::move(first));
    (modules.emplace_back<More>(std::move(more)), ...);
  }

  /// Constructs an M at the end.
  template <typename M, typename... Args>
  Sequential& add(Args&&... args) {
    modules.emplace_back<M>(std::forward<Args>(args)...);
    return *this;
  }
  /// Takes modules over.
  Sequential& add(std::unique_ptr<UnaryModule> module);
  Tensor forward(const Tensor& x) const override;

  ModuleList<UnaryModule> modules;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// Returns its input.
class Identity : public UnaryModule {
 public:
  Tensor forward(const Tensor& x) const override { return x; }

 protected:
  std::unique_ptr<Module> another() const override;
};

/// Modules of one type (or a common base) by name, in the order in which they were added.
///     nn::ModuleDict<nn::UnaryModule> heads;
///     heads.emplace<nn::Linear>("classes", 64, 10);
///     Tensor y = heads["classes"](x);
template <typename M = UnaryModule>
class ModuleDict : public Module {
 public:
  ModuleDict() = default;

  /// Constructs a module. @throws Error if the name is taken
  template <typename Made = M, typename... Args>
  Made& emplace(const std::string& name, Args&&... args) {
    auto made = std::make_unique<Made>(std::forward<Args>(args)...);
    Made& module = *made;
    insert(name, std::move(made));
    return module;
  }
  /// Takes a module over.
  void insert(const std::string& name, std::unique_ptr<M> module) {
    this->register_module(name, *module, Module::Place::heap);
    items_.emplace_back(name, std::move(module));
  }

  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  bool contains(const std::string& name) const { return find(name) != nullptr; }
  /// @throws Error if there is none
  M& operator[](const std::string& name) const { return at(name); }
  M& at(const std::string& name) const {
    if (M* found = find(name)) return *found;
    throw Error(std::string("ModuleDict: there is no module named '").append(name).append("'"));
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> names;
    for (const auto& item : items_) names.push_back(item.first);
    return names;
  }
  /// Pairs of a name and a pointer.
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

  std::string type_name() const override { return "ModuleDict"; }

 protected:
  std::unique_ptr<Module> another() const override {
    auto copy = std::make_unique<ModuleDict>();
    for (const auto& item : items_) copy->insert(item.first, clone_of(*item.second));
    return copy;
  }

 private:
  M* find(const std::string& name) const {
    for (const auto& item : items_) {
      if (item.first == name) return item.second.get();
    }
    return nullptr;
  }
  std::vector<std::pair<std::string, std::unique_ptr<M>>> items_;
};

/// Parameters named by position.
class ParameterList : public Module {
 public:
  ParameterList() = default;
  explicit ParameterList(const std::vector<Tensor>& tensors);
  ParameterList& append(const Tensor& tensor);
  ParameterList& extend(const std::vector<Tensor>& tensors);
  std::size_t size() const;
  Tensor& operator[](std::size_t i) const;
  std::string extra_repr() const override;

 protected:
  std::unique_ptr<Module> another() const override;

 private:
  std::vector<Owned<Tensor>> items_;
};

/// Parameters by name, in the order in which they were added.
class ParameterDict : public Module {
 public:
  ParameterDict() = default;
  explicit ParameterDict(const std::vector<NamedTensor>& tensors);
  /// @throws Error if the name is taken
  ParameterDict& insert(const std::string& name, const Tensor& tensor);
  std::size_t size() const;
  bool contains(const std::string& name) const;
  /// @throws Error if there is none
  Tensor& operator[](const std::string& name) const;
  std::vector<std::string> keys() const;
  std::string extra_repr() const override;

 protected:
  std::unique_ptr<Module> another() const override;

 private:
  std::vector<std::pair<std::string, Owned<Tensor>>> items_;
};

}  // namespace etna::nn
