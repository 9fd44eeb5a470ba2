// Tensors: those that JavaScript made by numbers, and those that ops made of others.
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>

#include "call.h"

namespace etna::web {
namespace {

/// A tensor, or the error that its making ended with: ops that use it end with the same one.
struct Slot {
  Tensor tensor;
  std::exception_ptr error;
};

std::map<int, Slot>& slots() {
  static std::map<int, Slot> all;
  return all;
}

std::vector<Tensor> inputs_of(const Json& args) {
  std::vector<Tensor> inputs;
  for (const Json& id : args.at("inputs")) inputs.push_back(tensor_with(id.get<int>()));
  return inputs;
}

Dims dims_of(const Json& args) {
  const auto list = args.value("dims", std::vector<std::int64_t>());
  return list;
}

Device place_of(const Json& args, Device otherwise) {
  const Json& name = args.at("device");
  return name.is_null() ? otherwise : Device::parse(name.get<std::string>());
}
DType dtype_of_args(const Json& args, DType otherwise) {
  const Json& name = args.at("dtype");
  return name.is_null() ? otherwise : dtype_named(name.get<std::string>());
}

using Op = std::function<Tensor(const std::vector<Tensor>&, const Json&)>;

#define ETNA_WEB_REDUCTION(NAME)                                                                                    \
  {                                                                                                                 \
#NAME, [](const auto& in, const Json& args) { return in[0].NAME(dims_of(args), args.value("keepdim", false)); } \
  }

const std::map<std::string, Op>& ops() {
  static const std::map<std::string, Op> all = {
#define ETNA_WEB_1(NAME) {#NAME, [](const auto& in, const Json&) { return in[0].NAME(); }},
#define ETNA_WEB_1n(NAME) \
  {#NAME, [](const auto& in, const Json& args) { return in[0].NAME(number_of(args.at("number"))); }},
#define ETNA_WEB_2(NAME)                                                                   \
  {#NAME, [](const auto& in, const Json& args) {                                           \
     return in.size() == 2 ? in[0].NAME(in[1]) : in[0].NAME(number_of(args.at("number"))); \
   }},
#define ETNA_WEB_2n(NAME)
#define ETNA_WEB_3(NAME)
#define ETNA_ELEMENTWISE(NAME, ARITY, ...) ETNA_WEB_##ARITY(NAME)
#include <etna/tables/elementwise.def>
#undef ETNA_ELEMENTWISE
#undef ETNA_WEB_1
#undef ETNA_WEB_1n
#undef ETNA_WEB_2
#undef ETNA_WEB_2n
#undef ETNA_WEB_3
      ETNA_WEB_REDUCTION(sum),
      ETNA_WEB_REDUCTION(mean),
      ETNA_WEB_REDUCTION(max),
      ETNA_WEB_REDUCTION(min),
      ETNA_WEB_REDUCTION(var),
      {"argmax",
       [](const auto& in, const Json& args) {
         const Json& dim = args.at("dim");
         return in[0].argmax(dim.is_null() ? std::nullopt : std::optional(dim.get<std::int64_t>()));
       }},
      {"matmul", [](const auto& in, const Json&) { return in[0].matmul(in[1]); }},
      {"softmax", [](const auto& in, const Json& args) { return in[0].softmax(args.at("dim")); }},
      {"log_softmax", [](const auto& in, const Json& args) { return in[0].log_softmax(args.at("dim")); }},
      {"cumsum", [](const auto& in, const Json& args) { return in[0].cumsum(args.at("dim")); }},
      {"reshape", [](const auto& in, const Json& args) { return in[0].reshape(shape_of(args.at("shape"))); }},
      {"transpose", [](const auto& in, const Json& args) { return in[0].transpose(args.at("a"), args.at("b")); }},
      {"unsqueeze", [](const auto& in, const Json& args) { return in[0].unsqueeze(args.at("dim")); }},
      {"flatten", [](const auto& in, const Json& args) { return in[0].flatten(args.at("first")); }},
      {"select", [](const auto& in, const Json& args) { return in[0].select(args.at("dim"), args.at("index")); }},
      {"slice",
       [](const auto& in, const Json& args) { return in[0].slice(args.at("dim"), args.at("begin"), args.at("end")); }},
      {"where", [](const auto& in, const Json&) { return where(in[0], in[1], in[2]); }},
      {"clamp", [](const auto& in,
                   const Json& args) { return in[0].clamp(number_of(args.at("low")), number_of(args.at("high"))); }},
      {"cat", [](const auto& in, const Json& args) { return cat(in, args.at("dim").get<std::int64_t>()); }},
      {"to",
       [](const auto& in, const Json& args) {
         return in[0].to(place_of(args, in[0].device())).to(dtype_of_args(args, in[0].dtype()));
       }},
      {"detach", [](const auto& in, const Json&) { return in[0].detach(); }},
      {"grad",
       [](const auto& in, const Json&) {
         if (!in[0].grad().defined()) throw GradError("grad: there is no gradient; call backward() of a result first");
         return in[0].grad();
       }},
      {"mse_loss", [](const auto& in, const Json&) { return mse_loss(in[0], in[1]); }},
      {"cross_entropy", [](const auto& in, const Json&) { return cross_entropy(in[0], in[1]); }},
  };
  return all;
}

/// Makes a tensor under the id that JavaScript chose, and keeps the error if that fails.
template <typename Make>
Json make(const Json& args, Make make_tensor) {
  const int id = args.at("out").get<int>();
  try {
    slots()[id] = {make_tensor(), nullptr};
    return Json::object();
  } catch (...) {
    slots()[id] = {{}, std::current_exception()};
    throw;
  }
}

Json apply(const Json& args) {
  return make(args, [&] {
    const auto name = args.at("op").get<std::string>();
    const auto found = ops().find(name);
    if (found == ops().end()) throw Error(fmt::format("{}: there is no such op", name));
    return found->second(inputs_of(args), args);
  });
}

Json from_numbers(const Json& args) {
  return make(args, [&] {
    const Bytes bytes = bytes_of(args);
    const Shape shape = shape_of(args.at("shape"));
    const DType given = dtype_named(args.at("data_dtype").get<std::string>());
    const std::int64_t count = static_cast<std::int64_t>(bytes.size / item_size(given));
    if (numel(shape) != count)
      throw ShapeError(fmt::format("tensor: {} numbers do not fill the shape {}", count, str(shape)));
    Tensor tensor = from_bytes(bytes.data, shape, given).to(dtype_of_args(args, given)).to(device_of(args));
    return args.value("requires_grad", false) ? tensor.requires_grad_() : tensor;
  });
}

Json create(const Json& args) {
  return make(args, [&] {
    const auto kind = args.at("kind").get<std::string>();
    const Shape shape = shape_of(args.at("shape"));
    const TensorOptions options{dtype_of_args(args, f32), device_of(args)};
    Tensor tensor = kind == "randn"  ? randn(shape, options)
                    : kind == "rand" ? rand(shape, options)
                                     : full(shape, number_of(args.at("value")), options);
    return args.value("requires_grad", false) ? tensor.requires_grad_() : tensor;
  });
}

Json describe(const Json& args) {
  const Tensor& tensor = tensor_of(args, "id");
  return {{"shape", std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end())},
          {"dtype", name(tensor.dtype())},
          {"device", tensor.device().str()},
          {"requires_grad", tensor.requires_grad()}};
}

/// Elements in order. JavaScript has no arrays of 16-bit floats everywhere, so these come as f32.
Json read(const Json& args) {
  const Tensor& tensor = tensor_of(args, "id");
  const bool narrow = tensor.dtype() == f16 || tensor.dtype() == bf16;
  const Tensor values = tensor.detach().to(narrow ? f32 : tensor.dtype()).to(kCPU).contiguous();
  return with_bytes({{"dtype", name(values.dtype())}}, values.raw_data(),
                    static_cast<std::size_t>(values.numel()) * item_size(values.dtype()));
}

Json item(const Json& args) { return {{"value", json_of(tensor_of(args, "id").item())}}; }
Json text(const Json& args) { return {{"text", tensor_of(args, "id").str()}}; }

Json differentiate(const Json& args) {
  const Json& gradient = args.at("gradient");
  tensor_of(args, "id").backward(gradient.is_null() ? Tensor() : tensor_with(gradient.get<int>()));
  return Json::object();
}

Json free_tensor(const Json& args) {
  slots().erase(args.at("id").get<int>());
  return Json::object();
}

Json count(const Json&) { return {{"tensors", slots().size()}}; }

}  // namespace

const Tensor& tensor_with(int id) {
  const auto found = slots().find(id);
  if (found == slots().end()) throw Error("a tensor was used after free()");
  if (found->second.error) std::rethrow_exception(found->second.error);
  return found->second.tensor;
}
const Tensor& tensor_of(const Json& args, const char* key) { return tensor_with(args.at(key).get<int>()); }

void add_tensor_methods(Methods& methods) {
  methods["apply"] = apply;
  methods["from_numbers"] = from_numbers;
  methods["create"] = create;
  methods["describe"] = describe;
  methods["read"] = read;
  methods["item"] = item;
  methods["text"] = text;
  methods["backward"] = differentiate;
  methods["free_tensor"] = free_tensor;
  methods["count_tensors"] = count;
}

}  // namespace etna::web
