#include <etna/tensor/literal.h>

#include <cmath>
#include <optional>

#include <fmt/format.h>

namespace etna {
namespace {

/// The numbers of nested lists in order, and their shape.
class Flattened {
 public:
  explicit Flattened(const Literal& values) {
    for (const Literal* at = &values; at->is_list(); at = &at->items().front()) {
      shape_.push_back(static_cast<std::int64_t>(at->items().size()));
      if (at->items().empty()) break;
    }
    collect(values, 0);
  }

  const Shape& shape() const { return shape_; }
  const std::vector<const Literal*>& numbers() const { return numbers_; }
  DType dtype() const {
    if (numbers_.empty()) return f32;
    DType all = boolean;
    for (const Literal* n : numbers_) all = promote(all, n->dtype());
    return all;
  }

 private:
  void collect(const Literal& at, int depth) {
    if (!at.is_list()) {
      if (depth != shape_.rank()) refuse(depth, "a number", "a list");
      numbers_.push_back(&at);
      return;
    }
    const auto size = static_cast<std::int64_t>(at.items().size());
    if (depth == shape_.rank()) refuse(depth, "a list", "a number");
    if (size != shape_[depth]) {
      refuse(depth, fmt::format("a list of {}", size), fmt::format("a list of {}", shape_[depth]));
    }
    for (const Literal& item : at.items()) collect(item, depth + 1);
  }

  [[noreturn]] static void refuse(int depth, const std::string& got, const std::string& first) {
    throw ShapeError(
        fmt::format("tensor: {} at depth {}, where the first one is {}; all must be alike", got, depth, first));
  }

  Shape shape_;
  std::vector<const Literal*> numbers_;
};

template <typename T>
T converted(const Literal& number) {
  if constexpr (sizeof(T) == 2) {
    return T(static_cast<float>(number.number()));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(number.number());
  } else if constexpr (std::is_same_v<T, bool>) {
    return number.number() != 0;
  } else {
    const bool floating = number.dtype() == f32;
    const double value = number.number();
    const bool whole = !floating || (value == std::trunc(value) && std::abs(value) < 0x1p63);
    if (!whole || !std::in_range<T>(number.integer())) {
      throw DtypeError(fmt::format("tensor: {} cannot hold {}", name(dtype_of<T>()), value));
    }
    return static_cast<T>(number.integer());
  }
}

Tensor literal_filled(const Flattened& values, DType dtype, Device device) {
  Tensor x = empty(values.shape(), dtype);
  visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = x.host<T>();
    for (const Literal* number : values.numbers()) *to++ = converted<T>(*number);
  });
  return x.to(device);
}

}  // namespace

Literal::Literal(std::initializer_list<Literal> items) : kind_(Kind::list), items_(items) {}
Literal::Literal(const Literal& other) = default;
Literal& Literal::operator=(const Literal& other) = default;
Literal::~Literal() = default;
void Literal::append(const Literal& item) { items_.push_back(item); }

DType Literal::dtype() const { return kind_ == Kind::floating ? f32 : kind_ == Kind::boolean ? boolean : i64; }
double Literal::number() const { return kind_ == Kind::floating ? number_ : static_cast<double>(integer_); }
std::int64_t Literal::integer() const {
  return kind_ == Kind::floating ? static_cast<std::int64_t>(number_) : integer_;
}

Tensor tensor(const Literal& values, Device device) {
  const Flattened flat(values);
  return literal_filled(flat, flat.dtype(), device);
}
Tensor tensor(const Literal& values, DType dtype, Device device) {
  return literal_filled(Flattened(values), dtype, device);
}

}  // namespace etna
