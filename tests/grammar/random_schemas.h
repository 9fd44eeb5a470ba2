#pragma once

#include <cstdint>
#include <random>
#include <string>

#include <nlohmann/json.hpp>

namespace etna::models::fixtures {

using Json = nlohmann::ordered_json;

/// A JSON schema of keywords that are supported, and of a few that are not; many contradict themselves somewhere.
class RandomSchemas {
 public:
  explicit RandomSchemas(std::uint32_t seed) : random_(seed) {}

  Json next();

 private:
  bool chance(unsigned percent) { return random_() % 100 < percent; }
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  Json schema(int depth);
  Json scalar();
  Json value(int depth);
  void number(Json& s);
  void string(Json& s);
  void array(Json& s, int depth);
  void object(Json& s, int depth);
  std::string name();

  std::mt19937 random_;
  int definitions_ = 0;
};

/// Whether a value validates against a schema of RandomSchemas; independent of the library. Formats are not looked at.
bool validates(const Json& schema, const Json& value, const Json& root);

}  // namespace etna::models::fixtures
