#include <etna/serve/json_text.h>

#include <set>
#include <vector>

#include <fmt/format.h>

#include <etna/serve/api_error.h>

namespace etna::serve {
namespace {

/// Watches a text while it is parsed.
class JsonWatch {
 public:
  JsonWatch(const std::string& param, const JsonLimits& limits) : param_(param), limits_(limits) {}

  bool operator()(Json::parse_event_t event, const Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      names_.emplace_back();
      if (names_.size() > limits_.depth)
        refuse(fmt::format("its arrays and objects are nested deeper than {} levels", limits_.depth), "json_too_deep");
    } else if (event == Event::object_end || event == Event::array_end) {
      names_.pop_back();
    } else if (event == Event::key) {
      std::set<std::string>& names = names_.back();
      const std::string name = value.get<std::string>();
      if (!names.insert(name).second)
        refuse(fmt::format("it has '{:.64}' twice in one object", name), "json_duplicate");
      if (names.size() > limits_.names)
        refuse(fmt::format("an object has more than {} fields", limits_.names), "json_too_large");
    }
    if (++values_ > limits_.values) refuse(fmt::format("it has more than {} values", limits_.values), "json_too_large");
    return true;
  }

 private:
  [[noreturn]] void refuse(const std::string& why, const std::string& code) const {
    throw bad_request(param_, fmt::format("{} cannot be read: {}", param_.empty() ? "the body" : param_, why), code);
  }

  const std::string& param_;
  const JsonLimits& limits_;
  std::vector<std::set<std::string>> names_;
  std::size_t values_ = 0;
};

/// Without the library's own number of the error, and short.
std::string reason_of(const std::string& what) {
  const std::size_t begin = what.find("] ");
  std::string reason = begin == std::string::npos ? what : what.substr(begin + 2);
  if (reason.size() > 300) reason = reason.substr(0, 300) + "...";
  return reason;
}

}  // namespace

std::string json_text(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json parse_json(std::string_view text, const std::string& param, const JsonLimits& limits) {
  const std::string what = param.empty() ? "the body" : param;
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    throw bad_request(param, fmt::format("{} is empty; wanted JSON", what), "invalid_json");
  JsonWatch watch(param, limits);
  try {
    return Json::parse(text.begin(), text.end(),
                       [&](int, Json::parse_event_t event, const Json& value) { return watch(event, value); });
  } catch (const Json::exception& error) {
    throw bad_request(param, fmt::format("{} is not JSON: {}", what, reason_of(error.what())), "invalid_json");
  }
}

}  // namespace etna::serve
