#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <etna/serve/json_text.h>

namespace etna::serve {

struct IntegerRange {
  std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
};
struct RealRange {
  double least = -1e30, most = 1e30;
  bool above = false;  ///< greater than `least`
};

/// Reads the fields of a JSON object. Each has a known name, type and range; finish() refuses what nobody read, so that
/// no field is ignored. A field that is null counts as absent. All throw ApiError 400 that names the field.
///     Fields fields(body, "");
///     const std::string model = fields.string("model");
///     fields.finish();
class Fields {
 public:
  /// @param value must outlive this object @param path of the object, for errors; empty: the body
  Fields(const Json& value, std::string path);

  bool has(const std::string& name) const;
  /// The value of a field, or null where it is absent.
  const Json* find(const std::string& name);
  const Json& any(const std::string& name);  ///< a field that must be there

  std::string string(const std::string& name);  ///< must be there
  std::optional<std::string> string_if(const std::string& name);
  std::optional<std::int64_t> integer_if(const std::string& name, IntegerRange range = {});
  std::optional<double> real_if(const std::string& name, RealRange range = {});
  std::optional<bool> flag_if(const std::string& name);
  /// One of these words.
  std::optional<std::string> word_if(const std::string& name, std::initializer_list<std::string_view> words);
  /// A text, or up to `most` of them. @param empty whether texts may be empty
  std::vector<std::string> strings(const std::string& name, std::size_t most, bool empty = false);
  /// An array, or null where it is absent.
  const Json* array_if(const std::string& name);
  const Json& array(const std::string& name);  ///< must be there
  const Json* object_if(const std::string& name);

  /// A field without effect here: any value that official clients send is fine.
  void note(std::initializer_list<const char*> names);
  /// A field of a feature that this server lacks: only null and these values, which ask for nothing, are fine.
  void neutral(const std::string& name, std::initializer_list<Json> values, const std::string& why = {});
  /// A field that is always refused. @param why a sentence that goes on: "is not supported; ..."
  void refuse(const std::string& name, const std::string& why);
  /// @throws ApiError for the first field that was not read
  void finish() const;

  /// "messages[0].role"
  std::string path_of(const std::string& name) const;

 private:
  const Json& value_;
  std::string path_;
  std::set<std::string> read_;
};

/// "string", "integer", ...
std::string_view json_kind(const Json& value);
/// As an error shows a value: its text, shortened.
std::string shown(const Json& value);
/// The string of an array's element or another value. @param path for errors
std::string string_of(const Json& value, const std::string& path);

}  // namespace etna::serve
