#pragma once

#include <cstdlib>
#include <string>

namespace etna::training {

/// Sets a variable while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Variable() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

}  // namespace etna::training
