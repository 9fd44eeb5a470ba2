#include <cxxabi.h>

#include <cstdlib>
#include <ostream>
#include <typeinfo>
#include <unordered_set>

#include <fmt/format.h>

#include <etna/nn/module.h>

// Modules as a tree: lists of them, and printing.
namespace etna::nn {
namespace {

std::string module_tree_joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : name.empty() ? prefix : prefix + "." + name;
}

/// "etna::nn::ModuleList<etna::nn::Linear>" → "ModuleList"
std::string without_scopes(const std::string& name) {
  const std::string plain = name.substr(0, name.find('<'));
  const std::size_t colon = plain.rfind("::");
  return colon == std::string::npos ? plain : plain.substr(colon + 2);
}

}  // namespace

std::vector<NamedModule> Module::named_children() {
  std::vector<NamedModule> list;
  std::unordered_set<const Module*> seen;
  for (const auto& [name, module] : modules_) {
    if (seen.insert(module).second) list.push_back({name, module});
  }
  return list;
}

std::vector<Module*> Module::children() {
  std::vector<Module*> list;
  for (const NamedModule& child : named_children()) list.push_back(child.module);
  return list;
}

std::vector<NamedModule> Module::named_modules() {
  std::vector<NamedModule> list;
  std::unordered_set<const Module*> seen;
  const auto visit = [&](const auto& self, const std::string& name, Module& module) -> void {
    if (!seen.insert(&module).second) return;
    list.push_back({name, &module});
    for (const auto& [child, below] : module.modules_) self(self, module_tree_joined(name, child), *below);
  };
  visit(visit, "", *this);
  return list;
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> list;
  for (const NamedModule& m : named_modules()) list.push_back(m.module);
  return list;
}

void Module::apply(const std::function<void(Module&)>& f) {
  for (const auto& [name, module] : modules_) module->apply(f);
  f(*this);
}

std::unique_ptr<Module> Module::another() const {
  throw Error(
      fmt::format("clone: {} does not say how to construct another of its kind; override another()", type_name()));
}

Tensor UnaryModule::between_hooks(const Tensor& x) const {
  return call_hooked({x}, [this](const TensorList& in) { return TensorList{forward(in[0])}; })[0];
}

std::string Module::type_name() const {
  int status = 0;
  char* plain = abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status);
  const std::string name = status == 0 ? plain : typeid(*this).name();
  std::free(plain);
  return without_scopes(name);
}

void Module::print(std::string& out, const std::string& indent) const {
  const std::string inner = indent + "  ", extra = extra_repr();
  struct Line {
    std::string name, last, text;
    int count = 1;
  };
  std::vector<Line> lines;
  // A submodule without a name shows its own submodules in its place.
  const auto visit = [&](const auto& self, const Module& module) -> void {
    for (const auto& [name, below] : module.modules_) {
      if (name.empty()) {
        self(self, *below);
        continue;
      }
      std::string text;
      below->print(text, inner);
      if (prints_equal_once() && !lines.empty() && lines.back().text == text) {
        lines.back().last = name;
        ++lines.back().count;
      } else {
        lines.push_back({name, name, text, 1});
      }
    }
  };
  visit(visit, *this);
  out += type_name() + "(";
  if (lines.empty()) {
    out += extra + ")";
    return;
  }
  out += "\n";
  if (!extra.empty()) out += inner + extra + "\n";
  for (const Line& line : lines) {
    out += line.count == 1 ? fmt::format("{}({}): {}\n", inner, line.name, line.text)
                           : fmt::format("{}({}-{}): {} x {}\n", inner, line.name, line.last, line.count, line.text);
  }
  out += indent + ")";
}

std::string Module::repr() const {
  std::string out;
  print(out, "");
  return out;
}

std::ostream& operator<<(std::ostream& out, const Module& module) { return out << module.repr(); }

}  // namespace etna::nn
