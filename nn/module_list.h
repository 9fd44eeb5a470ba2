#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace etna::nn
