#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/tensor/io/torch_file.h>

/// The subset of Python's pickle format that PyTorch's files use.
namespace etna::pickle {

/// An object of the machine. Objects may refer to each other, even in cycles.
struct Object {
  enum class Kind { none, boolean, integer, number, string, tensor, list, tuple, dict, global, storage };
  Kind kind = Kind::none;
  std::int64_t integer = 0;
  double number = 0;
  std::string string;          ///< a global: "module name"
  Tensor tensor;               ///< a storage: all of its elements, rank 1
  std::vector<Object*> items;  ///< of a dict: key, value, key, value …
};

/// Interprets a pickle. It can only create the objects above, and calls nothing that the file names.
class Machine {
 public:
  /// Loads the storage of a persistent id, given its dtype, key and number of elements.
  using LoadStorage = std::function<Tensor(DType dtype, const std::string& key, std::int64_t count)>;

  Machine(std::span<const std::byte> bytes, LoadStorage load_storage);

  /// Runs to the end. @throws FormatError with text that fits after "FILE: "
  TorchValue run();

 private:
  std::span<const std::byte> take(std::uint64_t count);
  std::uint64_t number(int bytes);
  std::string line();

  Object* make(Object::Kind kind);
  Object* integer(std::int64_t value);
  Object* string(std::uint64_t length);
  Object* long_integer(std::uint64_t length);
  Object* pop();
  Object* top(Object::Kind kind, const char* op);
  std::vector<Object*> pop_to_mark();
  void push_tuple(std::size_t count);
  void remember(std::uint64_t index, Object* object);
  void recall(std::uint64_t index);

  void step(unsigned op);
  void append(Object* list, const std::vector<Object*>& items);
  void set_items(Object* dict, const std::vector<Object*>& items);
  Object* global(const std::string& module, const std::string& name);
  Object* reduce(const Object& function, const Object& arguments);
  Object* rebuild_tensor(const Object& arguments);
  Object* persistent(const Object& id);
  TorchValue value_of(const Object& object, int depth);

  std::span<const std::byte> bytes_;
  LoadStorage load_storage_;
  std::size_t at_ = 0;
  std::deque<Object> objects_;
  std::vector<Object*> stack_, memo_;
  std::vector<std::size_t> marks_;
  bool stopped_ = false;
  std::uint64_t copied_ = 0;  ///< bytes of values that value_of() has copied
};

}  // namespace etna::pickle
