#include <runner/run_program.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <windows.h>

namespace etna {
namespace {

/// A variable that has another value while this lives; the program inherits it.
class Variable {
 public:
  Variable(const std::string& name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name.c_str())) before_ = before;
    _putenv_s(name_.c_str(), value.c_str());
  }
  Variable(Variable&& other) noexcept : name_(std::exchange(other.name_, "")), before_(std::move(other.before_)) {}
  ~Variable() {
    if (!name_.empty()) _putenv_s(name_.c_str(), before_.value_or("").c_str());
  }

 private:
  std::string name_;
  std::optional<std::string> before_;
};

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

}  // namespace

/// cmd.exe knows one kind of quotes, and takes a pair around the whole command off.
Result run_program(const std::string& program, const std::string& arguments, const std::string& environment,
                   const std::string& errors) {
  std::vector<Variable> variables;
  std::istringstream words(environment);
  for (std::string word; words >> word;) {
    if (word == "-u") {
      words >> word;
      variables.emplace_back(word, "");
    } else if (const std::size_t equals = word.find('='); equals != std::string::npos) {
      std::string value = word.substr(equals + 1);
      std::erase(value, '\'');
      variables.emplace_back(word.substr(0, equals), value);
    }
  }
  std::string rest = arguments + " " + errors;
  replace_all(rest, "'", "\"");
  replace_all(rest, "/dev/null", "NUL");
  std::FILE* pipe = _popen(("\"\"" + program + "\" " + rest + "\"").c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
  const int code = _pclose(pipe);
  return {output, code};
}

std::string this_program() {
  std::array<wchar_t, 32768> path;
  return std::filesystem::path(path.data(), path.data() + ::GetModuleFileNameW(nullptr, path.data(), path.size()))
      .string();
}

}  // namespace etna
