#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include <etna/tensor/tensor.h>

/// What JavaScript calls. A call is a method's name with arguments in JSON, and its result is JSON, too; arrays of
/// numbers cross as bytes. JavaScript chooses the ids of what it keeps, so it need not wait for a result to use it.
namespace etna::web {

using Json = nlohmann::json;
using Method = Json (*)(const Json&);
using Methods = std::map<std::string, Method>;

// One file each.
void add_device_methods(Methods& methods);
void add_tensor_methods(Methods& methods);
void add_training_methods(Methods& methods);
void add_classifier_methods(Methods& methods);
void add_model_methods(Methods& methods);
void add_fine_tuning_methods(Methods& methods);
void add_check_methods(Methods& methods);

/// The tensor with the id args[key]. @throws the error that its making ended with
const Tensor& tensor_of(const Json& args, const char* key);
const Tensor& tensor_with(int id);

/// args["device"], else the CPU; args[key] as numbers. JSON has no NaN and no infinity: they come and go as texts.
Device device_of(const Json& args);
double number_of(const Json& value);
Json json_of(double number);
Shape shape_of(const Json& value);

/// Bytes that JavaScript put into this memory for the call.
struct Bytes {
  const std::byte* data = nullptr;
  std::size_t size = 0;
};
Bytes bytes_of(const Json& args);
/// A result with bytes, which JavaScript copies and frees.
Json with_bytes(Json result, const void* data, std::size_t size);

/// Objects by id. @throws Error if there is none
template <typename T>
class Kept {
 public:
  explicit Kept(const char* kind) : kind_(kind) {}
  void put(int id, std::unique_ptr<T> object) { objects_[id] = std::move(object); }
  void free(int id) { objects_.erase(id); }
  template <typename Is>
  void free_if(const Is& is) {
    std::erase_if(objects_, [&](const auto& kept) { return is(*kept.second); });
  }
  T& at(const Json& args) const {
    if (T* found = find(args)) return *found;
    throw Error(std::string(kind_) + ": it was freed");
  }
  /// Null if there is none.
  T* find(const Json& args) const {
    const auto found = objects_.find(args.at("id").get<int>());
    return found == objects_.end() ? nullptr : found->second.get();
  }

 private:
  const char* kind_;
  std::map<int, std::unique_ptr<T>> objects_;
};

}  // namespace etna::web
