#include <etna/nn/containers.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace etna::nn {
namespace {

/// "Parameter containing: [torch.float32 of size 2x3]", with Etna's name of the dtype.
std::string line_of(const std::string& name, const Tensor& x) {
  return fmt::format("({}): Parameter containing: [{} of size {}]", name, etna::name(x.dtype()),
                     fmt::join(x.shape(), "x"));
}

Tensor require(const char* what, const Tensor& x) {
  if (!x.defined()) throw Error(fmt::format("{}: the tensor is undefined", what));
  return x;
}

}  // namespace

ParameterList::ParameterList(const std::vector<Tensor>& tensors) { extend(tensors); }

ParameterList& ParameterList::append(const Tensor& tensor) {
  auto item = std::make_unique<Tensor>(require("ParameterList", tensor));
  register_parameter(std::to_string(items_.size()), *item, Place::heap);
  items_.push_back(std::move(item));
  return *this;
}

ParameterList& ParameterList::extend(const std::vector<Tensor>& tensors) {
  for (const Tensor& x : tensors) append(x);
  return *this;
}

std::size_t ParameterList::size() const { return items_.size(); }

Tensor& ParameterList::operator[](std::size_t i) const { return *items_.at(i); }

std::string ParameterList::extra_repr() const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < items_.size(); ++i) lines.push_back(line_of(std::to_string(i), *items_[i]));
  return fmt::format("{}", fmt::join(lines, ", "));
}

std::unique_ptr<Module> ParameterList::another() const {
  auto copy = std::make_unique<ParameterList>();
  for (const auto& item : items_) copy->append(item->detach().clone());
  return copy;
}

ParameterDict::ParameterDict(const std::vector<NamedTensor>& tensors) {
  for (const NamedTensor& x : tensors) insert(x.name, x.tensor);
}

ParameterDict& ParameterDict::insert(const std::string& name, const Tensor& tensor) {
  auto item = std::make_unique<Tensor>(require("ParameterDict", tensor));
  register_parameter(name, *item, Place::heap);
  items_.emplace_back(name, std::move(item));
  return *this;
}

std::size_t ParameterDict::size() const { return items_.size(); }

bool ParameterDict::contains(const std::string& name) const {
  for (const auto& item : items_) {
    if (item.first == name) return true;
  }
  return false;
}

Tensor& ParameterDict::operator[](const std::string& name) const {
  for (const auto& item : items_) {
    if (item.first == name) return *item.second;
  }
  throw Error(fmt::format("ParameterDict: there is no parameter named '{}'", name));
}

std::vector<std::string> ParameterDict::keys() const {
  std::vector<std::string> names;
  for (const auto& item : items_) names.push_back(item.first);
  return names;
}

std::string ParameterDict::extra_repr() const {
  std::vector<std::string> lines;
  for (const auto& item : items_) lines.push_back(line_of(item.first, *item.second));
  return fmt::format("{}", fmt::join(lines, ", "));
}

std::unique_ptr<Module> ParameterDict::another() const {
  auto copy = std::make_unique<ParameterDict>();
  for (const auto& item : items_) copy->insert(item.first, item.second->detach().clone());
  return copy;
}

std::unique_ptr<Module> Identity::another() const { return std::make_unique<Identity>(); }

}  // namespace etna::nn
