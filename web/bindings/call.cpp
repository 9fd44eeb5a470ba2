#include "call.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include <fmt/format.h>

namespace etna::web {
namespace {

const Methods& methods() {
  static const Methods all = [] {
    Methods list;
    add_device_methods(list);
    add_tensor_methods(list);
    add_training_methods(list);
    add_classifier_methods(list);
    add_model_methods(list);
    add_fine_tuning_methods(list);
    add_check_methods(list);
    return list;
  }();
  return all;
}

const char* kind_of(const Error& error) {
  if (dynamic_cast<const IndexError*>(&error)) return "IndexError";
  if (dynamic_cast<const ShapeError*>(&error)) return "ShapeError";
  if (dynamic_cast<const DtypeError*>(&error)) return "DtypeError";
  if (dynamic_cast<const DeviceLost*>(&error)) return "DeviceLost";
  if (dynamic_cast<const DeviceError*>(&error)) return "DeviceError";
  if (dynamic_cast<const OutOfMemory*>(&error)) return "OutOfMemory";
  if (dynamic_cast<const FormatError*>(&error)) return "FormatError";
  if (dynamic_cast<const CaptureError*>(&error)) return "CaptureError";
  if (dynamic_cast<const GradError*>(&error)) return "GradError";
  return "Error";
}

Json failure(const char* kind, const std::string& message) { return {{"error", message}, {"kind", kind}}; }

Json run(const char* request) {
  try {
    const Json call = Json::parse(request);
    const auto name = call.at("method").get<std::string>();
    const auto found = methods().find(name);
    if (found == methods().end()) throw Error(fmt::format("{}: there is no such method", name));
    return found->second(call.at("args"));
  } catch (const Error& error) {
    return failure(kind_of(error), error.what());
  } catch (const std::bad_alloc&) {
    return failure("OutOfMemory", "the memory of WebAssembly is used up; free tensors or models, or use smaller ones");
  } catch (const std::exception& error) {
    return failure("Error", error.what());
  }
}

}  // namespace

Device device_of(const Json& args) {
  const auto name = args.find("device");
  return name == args.end() || name->is_null() ? kCPU : Device::parse(name->get<std::string>());
}

double number_of(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto text = value.get<std::string>();
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "Infinity" ? infinity : text == "-Infinity" ? -infinity : std::nan("");
}

Json json_of(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return number;
}

Shape shape_of(const Json& value) {
  const std::vector<std::int64_t> sizes = value;
  return sizes;
}

Bytes bytes_of(const Json& args) {
  return {reinterpret_cast<const std::byte*>(args.at("bytes_at").get<std::uintptr_t>()),
          args.at("bytes_size").get<std::size_t>()};
}

Json with_bytes(Json result, const void* data, std::size_t size) {
  void* copy = std::malloc(size == 0 ? 1 : size);
  if (copy == nullptr) throw std::bad_alloc();
  if (size > 0) std::memcpy(copy, data, size);
  result["bytes_at"] = reinterpret_cast<std::uintptr_t>(copy);
  result["bytes_size"] = size;
  return result;
}

}  // namespace etna::web

/// @param request {"method": name, "args": {...}} @return the result, or {"error", "kind"}; to be freed
extern "C" char* etna_call(const char* request) {
  const auto keep_invalid_utf8 = nlohmann::json::error_handler_t::replace;
  const std::string answer = etna::web::run(request).dump(-1, ' ', false, keep_invalid_utf8);
  char* copy = static_cast<char*>(std::malloc(answer.size() + 1));
  if (copy != nullptr) std::memcpy(copy, answer.c_str(), answer.size() + 1);
  return copy;
}
