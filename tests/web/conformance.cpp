#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <conformance/report.h>
#include <conformance/walk.h>
#include <nlohmann/json.hpp>

// The walk over every op (tests/conformance/) in a page: one op a call, its failures as sentences.
namespace etna::web {
namespace {

using Json = nlohmann::json;

Json json_of(const conformance::Errors& errors) {
  Json all = Json::object();
  // JSON has no infinity.
  for (const auto& [dtype, error] : errors)
    all[std::string(name(dtype))] = std::isfinite(error) ? Json(error) : Json(fmt::format("{}", error));
  return all;
}

/// By name.
const std::vector<const OpDef*>& every_op() {
  static const std::vector<const OpDef*> sorted = [] {
    std::vector<const OpDef*> all(all_ops().begin(), all_ops().end());
    for (const OpDef& op : conformance::composed_ops()) all.push_back(&op);
    const auto before = [](const OpDef* a, const OpDef* b) { return std::string_view(a->name) < b->name; };
    std::sort(all.begin(), all.end(), before);
    return all;
  }();
  return sorted;
}

long long comparisons() {
  long long all = 0;
  for (const auto& [kind, count] : conformance::report().checks()) all += count;
  return all;
}

Json walk(const OpDef& op) {
  const auto begin = std::chrono::steady_clock::now();
  const long long before = comparisons();
  testing::TestPartResultArray parts;
  {
    testing::ScopedFakeTestPartResultReporter reporter(testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS,
                                                       &parts);
    conformance::walk(op);
  }
  Json failures = Json::array();
  for (int i = 0; i < parts.size(); ++i)
    if (parts.GetTestPartResult(i).failed()) failures.push_back(parts.GetTestPartResult(i).message());
  const conformance::OpReport& r = conformance::report().of(op);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  return {{"op", op.name},
          {"kind", r.kind},
          {"comparisons", comparisons() - before},
          {"failures", failures},
          {"milliseconds", time.count()},
          {"through", r.through},
          {"differences", r.differences},
          {"cpu", json_of(r.cpu)},
          {"gpu", json_of(r.gpu)},
          {"cpu_gradient", json_of(r.cpu_gradient)},
          {"gpu_gradient", json_of(r.gpu_gradient)}};
}

Json run(const Json& request) {
  if (!request.contains("op")) {
    // The first call: from now on the walk's devices are fixed.
    setenv("ETNA_DEVICE", request.at("device").get<std::string>().c_str(), 1);
    const std::string dtype = request.value("dtype", "");
    if (!dtype.empty()) setenv("ETNA_CONFORMANCE_DTYPE", dtype.c_str(), 1);
    conformance::gpu_under_test();
    Json names = Json::array();
    for (const OpDef* op : every_op()) names.push_back(op->name);
    return {{"ops", names}};
  }
  for (const OpDef* op : every_op())
    if (request.at("op") == op->name) return walk(*op);
  throw Error(fmt::format("there is no op '{}'", request.at("op").get<std::string>()));
}

}  // namespace
}  // namespace etna::web

/// {"device", "dtype"} at first gives {"ops"}; then {"op"} gives what the walk found.
/// @return JSON, to be freed; {"error"} if it could not be done
extern "C" char* etna_conformance(const char* request) {
  nlohmann::json answer;
  try {
    answer = etna::web::run(nlohmann::json::parse(request));
  } catch (const std::exception& error) {
    answer = {{"error", error.what()}};
  }
  return strdup(answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}
