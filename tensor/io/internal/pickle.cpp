#include <etna/tensor/io/internal/pickle.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

namespace etna::pickle {
namespace {

using Kind = Object::Kind;

[[noreturn]] void refuse(const std::string& what) { throw FormatError("the pickle " + what); }

/// A name from the file for an error: hostile bytes must not reach a terminal.
std::string printable(std::string text) {
  for (char& c : text) c = std::isprint(static_cast<unsigned char>(c)) ? c : '?';
  return text.size() <= 80 ? text : text.substr(0, 80) + "...";
}

}  // namespace

Machine::Machine(std::span<const std::byte> bytes, LoadStorage load_storage)
    : bytes_(bytes), load_storage_(std::move(load_storage)) {}

TorchValue Machine::run() {
  while (!stopped_) step(static_cast<unsigned>(number(1)));
  if (stack_.size() != 1 || !marks_.empty()) refuse(fmt::format("ends with {} values; wanted one", stack_.size()));
  return value_of(*stack_.front(), 0);
}

std::span<const std::byte> Machine::take(std::uint64_t count) {
  if (count > bytes_.size() - at_) refuse(fmt::format("is cut short: {} bytes are needed at byte {}", count, at_));
  const auto found = bytes_.subspan(at_, static_cast<std::size_t>(count));
  at_ += static_cast<std::size_t>(count);
  return found;
}

/// Little-endian, unsigned.
std::uint64_t Machine::number(int bytes) {
  std::uint64_t value = 0;
  const auto found = take(static_cast<std::uint64_t>(bytes));
  for (int i = 0; i < bytes; ++i) value |= static_cast<std::uint64_t>(found[static_cast<std::size_t>(i)]) << (8 * i);
  return value;
}

std::string Machine::line() {
  std::string text;
  for (char c; (c = static_cast<char>(number(1))) != '\n';) text += c;
  return text;
}

Object* Machine::make(Kind kind) {
  // An object takes a hundred times the memory of the byte that creates it; files of tensors have some thousands.
  constexpr std::size_t kMostObjects = 20'000'000;
  if (objects_.size() == kMostObjects) refuse(fmt::format("has more than {} values", kMostObjects));
  objects_.emplace_back().kind = kind;
  return &objects_.back();
}

Object* Machine::integer(std::int64_t value) {
  Object* made = make(Kind::integer);
  made->integer = value;
  return made;
}

Object* Machine::string(std::uint64_t length) {
  const auto bytes = take(length);
  Object* made = make(Kind::string);
  made->string.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return made;
}

/// Two's complement of any length; integers beyond 64 bits, such as some seeds of PyTorch, become the nearest double.
Object* Machine::long_integer(std::uint64_t length) {
  std::span<const std::byte> bytes = take(length);
  const bool negative = length > 0 && (bytes.back() & std::byte{0x80}) != std::byte{0};
  while (bytes.size() > 8 && bytes.back() == (negative ? std::byte{0xff} : std::byte{0}) &&
         ((bytes[bytes.size() - 2] & std::byte{0x80}) != std::byte{0}) == negative) {
    bytes = bytes.first(bytes.size() - 1);
  }
  length = bytes.size();
  if (length > 8) {
    // The magnitude of a negative number is its bitwise complement plus 1.
    double magnitude = 0;
    for (std::size_t i = bytes.size(); i-- > 0;)
      magnitude = 256 * magnitude + static_cast<double>(bytes[i] ^ (negative ? std::byte{0xff} : std::byte{0}));
    if (!std::isfinite(magnitude)) refuse(fmt::format("has an integer of {} bytes, beyond any number", length));
    Object* made = make(Kind::number);
    made->number = negative ? -magnitude - 1 : magnitude;
    return made;
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
  if (length > 0 && length < 8 && (value >> (8 * length - 1)) != 0) value |= ~std::uint64_t{0} << (8 * length);
  return integer(static_cast<std::int64_t>(value));
}

Object* Machine::pop() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("takes a value from an empty stack");
  Object* object = stack_.back();
  stack_.pop_back();
  return object;
}

Object* Machine::top(Kind kind, const char* op) {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()) || stack_.back()->kind != kind)
    refuse(fmt::format("has {} without a value of the right type", op));
  return stack_.back();
}

std::vector<Object*> Machine::pop_to_mark() {
  if (marks_.empty()) refuse("refers to a mark that it does not set");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<Object*> found(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return found;
}

void Machine::push_tuple(std::size_t count) {
  std::vector<Object*> items(count);
  for (std::size_t i = count; i-- > 0;) items[i] = pop();
  Object* tuple = make(Kind::tuple);
  tuple->items = std::move(items);
  stack_.push_back(tuple);
}

void Machine::remember(std::uint64_t index, Object* object) {
  // Python numbers memos from 0, so a valid file cannot have more memos than bytes.
  if (index >= bytes_.size()) refuse(fmt::format("memoizes a value under the index {}", index));
  if (index >= memo_.size()) memo_.resize(static_cast<std::size_t>(index) + 1);
  memo_[static_cast<std::size_t>(index)] = object;
}

void Machine::recall(std::uint64_t index) {
  if (index >= memo_.size() || memo_[static_cast<std::size_t>(index)] == nullptr)
    refuse(fmt::format("refers to memo {}, which it has not set", index));
  stack_.push_back(memo_[static_cast<std::size_t>(index)]);
}

void Machine::append(Object* list, const std::vector<Object*>& items) {
  list->items.insert(list->items.end(), items.begin(), items.end());
}

void Machine::set_items(Object* dict, const std::vector<Object*>& items) {
  if (items.size() % 2 != 0) refuse("has a dictionary with a key without a value");
  append(dict, items);
}

void Machine::step(unsigned op) {
  const auto push = [this](Object* object) { stack_.push_back(object); };
  const auto peek = [this] {
    Object* object = pop();
    stack_.push_back(object);
    return object;
  };
  switch (op) {
    case 0x80:  // PROTO
      if (const std::uint64_t protocol = number(1); protocol > 5) refuse(fmt::format("has protocol {}", protocol));
      return;
    case 0x95:  // FRAME
      number(8);
      return;
    case '.':  // STOP
      stopped_ = true;
      return;
    case '(':  // MARK
      marks_.push_back(stack_.size());
      return;
    case 'N':  // NONE
      return push(make(Kind::none));
    case 0x88:  // NEWTRUE
    case 0x89:  // NEWFALSE
      push(make(Kind::boolean));
      stack_.back()->integer = op == 0x88;
      return;
    case 'J':  // BININT
      return push(integer(static_cast<std::int32_t>(static_cast<std::uint32_t>(number(4)))));
    case 'K':  // BININT1
      return push(integer(static_cast<std::int64_t>(number(1))));
    case 'M':  // BININT2
      return push(integer(static_cast<std::int64_t>(number(2))));
    case 0x8a:  // LONG1
      return push(long_integer(number(1)));
    case 'G': {  // BINFLOAT, big-endian
      std::uint64_t bits = 0;
      for (int i = 0; i < 8; ++i) bits = bits << 8 | number(1);
      push(make(Kind::number));
      stack_.back()->number = std::bit_cast<double>(bits);
      return;
    }
    case 0x8c:  // SHORT_BINUNICODE
      return push(string(number(1)));
    case 'X':  // BINUNICODE
      return push(string(number(4)));
    case 0x8d:  // BINUNICODE8
      return push(string(number(8)));
    case ')':  // EMPTY_TUPLE
      return push_tuple(0);
    case 0x85:  // TUPLE1, TUPLE2, TUPLE3
    case 0x86:
    case 0x87:
      return push_tuple(op - 0x84);
    case 't': {  // TUPLE
      std::vector<Object*> items = pop_to_mark();
      push(make(Kind::tuple));
      stack_.back()->items = std::move(items);
      return;
    }
    case ']':  // EMPTY_LIST
      return push(make(Kind::list));
    case '}':  // EMPTY_DICT
      return push(make(Kind::dict));
    case 'a': {  // APPEND
      Object* item = pop();
      return append(top(Kind::list, "APPEND"), {item});
    }
    case 'e': {  // APPENDS
      const std::vector<Object*> items = pop_to_mark();
      return append(top(Kind::list, "APPENDS"), items);
    }
    case 's': {  // SETITEM
      Object* value = pop();
      Object* key = pop();
      return set_items(top(Kind::dict, "SETITEM"), {key, value});
    }
    case 'u': {  // SETITEMS
      const std::vector<Object*> items = pop_to_mark();
      return set_items(top(Kind::dict, "SETITEMS"), items);
    }
    case 'q':  // BINPUT
      return remember(number(1), peek());
    case 'r':  // LONG_BINPUT
      return remember(number(4), peek());
    case 0x94:  // MEMOIZE
      return remember(memo_.size(), peek());
    case 'h':  // BINGET
      return recall(number(1));
    case 'j':  // LONG_BINGET
      return recall(number(4));
    case 'c': {  // GLOBAL
      const std::string module = line(), name = line();
      return push(global(module, name));
    }
    case 0x93: {  // STACK_GLOBAL
      const std::string name = top(Kind::string, "STACK_GLOBAL")->string;
      pop();
      const std::string module = top(Kind::string, "STACK_GLOBAL")->string;
      pop();
      return push(global(module, name));
    }
    case 'R': {  // REDUCE
      const Object* arguments = pop();
      const Object* function = pop();
      return push(reduce(*function, *arguments));
    }
    case 'b': {  // BUILD: attributes of an object, such as the _metadata of a state_dict(), which is not needed here.
      pop();
      top(Kind::dict, "attributes");
      return;
    }
    case 'Q':  // BINPERSID
      return push(persistent(*pop()));
  }
  refuse(fmt::format("has the operation {:#04x} at byte {}, which files of tensors do not need", op, at_ - 1));
}

namespace {

struct Storage {
  std::string_view name;
  DType dtype;
};
constexpr Storage kStorages[] = {
    {"torch DoubleStorage", f64},    {"torch FloatStorage", f32}, {"torch HalfStorage", f16},
    {"torch BFloat16Storage", bf16}, {"torch LongStorage", i64},  {"torch IntStorage", i32},
    {"torch CharStorage", i8},       {"torch ByteStorage", u8},   {"torch BoolStorage", boolean}};
constexpr std::string_view kFunctions[] = {"collections OrderedDict", "torch Size", "torch._utils _rebuild_tensor_v2",
                                           "torch._utils _rebuild_parameter"};

bool is_list(const Object& object, Kind kind, std::size_t least) {
  return object.kind == kind && object.items.size() >= least;
}

Dims dims_of(const Object& tuple, const char* what) {
  if (tuple.kind != Kind::tuple || tuple.items.size() > kMaxRank)
    refuse(fmt::format("has a tensor whose {} is not a tuple of at most {} numbers", what, kMaxRank));
  Dims dims;
  for (const Object* item : tuple.items) {
    if (item->kind != Kind::integer || item->integer < 0)
      refuse(fmt::format("has a tensor with a {} that does not consist of nonnegative numbers", what));
    dims.push_back(item->integer);
  }
  return dims;
}

}  // namespace

Object* Machine::global(const std::string& module, const std::string& name) {
  const std::string full = module + " " + name;
  const bool known = std::find(std::begin(kFunctions), std::end(kFunctions), full) != std::end(kFunctions) ||
                     std::any_of(std::begin(kStorages), std::end(kStorages), [&](auto& s) { return s.name == full; });
  if (!known) {
    throw FormatError(
        fmt::format("contains a '{}.{}', which is not supported: only tensors (f64 f32 f16 bf16 i64 i32 i8 u8 bool), "
                    "dictionaries, lists, "
                    "tuples, strings, numbers, bool and None are; save a state_dict()",
                    printable(module), printable(name)));
  }
  Object* made = make(Kind::global);
  made->string = full;
  return made;
}

Object* Machine::reduce(const Object& function, const Object& arguments) {
  if (function.kind != Kind::global || arguments.kind != Kind::tuple) refuse("calls something that is not a function");
  const std::string& name = function.string;
  if (name == "torch._utils _rebuild_tensor_v2") return rebuild_tensor(arguments);
  if (name == "torch._utils _rebuild_parameter") {
    if (!is_list(arguments, Kind::tuple, 1) || arguments.items[0]->kind != Kind::tensor)
      refuse("has a parameter without a tensor");
    return arguments.items[0];
  }
  if (name == "torch Size") {
    if (arguments.items.size() != 1 || arguments.items[0]->kind != Kind::tuple)
      refuse("has a torch.Size without sizes");
    return arguments.items[0];
  }
  if (name == "collections OrderedDict") {
    Object* dict = make(Kind::dict);
    if (arguments.items.empty()) return dict;
    // Python 2 wrote a list of pairs.
    if (arguments.items.size() != 1 || arguments.items[0]->kind != Kind::list)
      refuse("has an OrderedDict of an unknown form");
    for (const Object* pair : arguments.items[0]->items) {
      if ((pair->kind != Kind::tuple && pair->kind != Kind::list) || pair->items.size() != 2)
        refuse("has an OrderedDict of items that are not pairs");
      append(dict, pair->items);
    }
    return dict;
  }
  refuse(fmt::format("calls {}, which is not a function", printable(name)));
}

/// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)
Object* Machine::rebuild_tensor(const Object& arguments) {
  if (!is_list(arguments, Kind::tuple, 4) || arguments.items[0]->kind != Kind::storage ||
      arguments.items[1]->kind != Kind::integer)
    refuse("has a tensor without a storage and an offset");
  const Tensor& storage = arguments.items[0]->tensor;
  const std::int64_t offset = arguments.items[1]->integer, held = storage.numel();
  const Shape shape = dims_of(*arguments.items[2], "size");
  const Strides strides = dims_of(*arguments.items[3], "stride");
  if (shape.rank() != strides.rank()) refuse("has a tensor with more or fewer strides than sizes");
  // Checks the last element of the view; an empty view has none.
  bool fits = offset >= 0 && offset <= held && has_strides(shape), empty = false;
  std::int64_t last = offset, count = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    std::int64_t reach = 0;
    if (shape[i] == 0) {
      empty = true;
      continue;
    }
    fits = fits && !__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) &&
           !__builtin_add_overflow(last, reach, &last) && !__builtin_mul_overflow(count, shape[i], &count);
  }
  if (!fits || (!empty && last >= held)) {
    refuse(fmt::format("has a tensor of size {} and stride {} from element {} on, beyond the {} of its storage",
                       str(shape), str(strides), offset, held));
  }
  Object* made = make(Kind::tensor);
  made->tensor = empty
                     ? etna::empty(shape, {storage.dtype(), storage.device()})
                     : detail::make_view(storage.storage(), storage.device(), storage.dtype(), shape, strides, offset);
  return made;
}

/// ('storage', type, key, location, number of elements)
Object* Machine::persistent(const Object& id) {
  const auto is = [&](std::size_t i, Kind kind) { return id.items[i]->kind == kind; };
  if (!is_list(id, Kind::tuple, 5) || !is(0, Kind::string) || id.items[0]->string != "storage" ||
      !is(1, Kind::global) || !is(2, Kind::string) || !is(4, Kind::integer)) {
    refuse("has a persistent id that is not a storage");
  }
  const std::string& type = id.items[1]->string;
  const auto* found = std::find_if(std::begin(kStorages), std::end(kStorages), [&](auto& s) { return s.name == type; });
  if (found == std::end(kStorages)) refuse(fmt::format("has a storage of type {}", printable(type)));
  Object* made = make(Kind::storage);
  made->tensor = load_storage_(found->dtype, id.items[2]->string, id.items[4]->integer);
  return made;
}

TorchValue Machine::value_of(const Object& object, int depth) {
  // Values that a file references repeatedly are copied, so the copies of a short file could fill the memory.
  copied_ += sizeof(TorchValue) + object.string.size();
  if (depth > 100 || copied_ > (std::uint64_t{64} << 20) + 4 * sizeof(TorchValue) * bytes_.size())
    refuse("nests values endlessly, or repeats them too often");
  TorchValue value;
  using To = TorchValue::Kind;
  switch (object.kind) {
    case Kind::none:
      return value;
    case Kind::boolean:
      value.kind = To::boolean;
      value.boolean = object.integer != 0;
      return value;
    case Kind::integer:
      value.kind = To::integer;
      value.integer = object.integer;
      return value;
    case Kind::number:
      value.kind = To::number;
      value.number = object.number;
      return value;
    case Kind::string:
      value.kind = To::string;
      value.string = object.string;
      return value;
    case Kind::tensor:
      value.kind = To::tensor;
      value.tensor = object.tensor;
      return value;
    case Kind::list:
    case Kind::tuple:
      value.kind = object.kind == Kind::list ? To::list : To::tuple;
      for (const Object* item : object.items) value.items.push_back(value_of(*item, depth + 1));
      return value;
    case Kind::dict:
      value.kind = To::dict;
      for (std::size_t i = 0; i + 1 < object.items.size(); i += 2) {
        TorchValue key = value_of(*object.items[i], depth + 1);
        value.entries.push_back({std::move(key), value_of(*object.items[i + 1], depth + 1)});
      }
      return value;
    case Kind::global:
    case Kind::storage:
      break;
  }
  refuse(fmt::format("contains {} instead of a value", object.kind == Kind::storage ? "a storage" : "a type"));
}

}  // namespace etna::pickle
