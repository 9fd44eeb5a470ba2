#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include <gtest/gtest.h>

#include <structure/source_tree.h>

// The functions of an op and its attributes are spelled alike in all files (docs/adding-an-op.md).
namespace etna::structure {
namespace {

const std::string kRoles = "infer|cpu|gpu|reference|vjp|vjp_into|direct";

/// What is wrong with the names in a source, one complaint a line.
std::string complaints(const std::string& text) {
  static const std::regex definition(R"(const OpDef (k\w+)\s*=\s*\{([^;]*)\};)");
  static const std::regex name(R"rx(\.name\s*=\s*"(\w+?)_?")rx");
  static const std::regex field(R"(\.()" + kRoles + R"()\s*=\s*([\w:]+))");
  static const std::regex attributes(R"((?:call|attrs)\.(?:template )?as<([\w:]+)>\(\))");
  std::string found;
  std::map<std::string, std::set<std::string>> ops;  // of each function
  std::map<std::string, std::string> roles;
  const std::sregex_iterator end;
  for (std::sregex_iterator d(text.begin(), text.end(), definition); d != end; ++d) {
    const std::string body = (*d)[2];
    std::smatch named;
    const bool one = body.find("OpDef") == std::string::npos && body.find("}, k") == std::string::npos;
    const bool literal = one && std::regex_search(body, named, name);
    for (std::sregex_iterator f(body.begin(), body.end(), field); f != end; ++f) {
      const std::string function = (*f)[2];
      if (function == "nullptr") continue;
      roles[function] = (*f)[1];
      auto& of = ops[function];
      of.insert(literal ? std::string(named[1]) : "");
    }
  }
  for (const auto& [function, of] : ops) {
    const std::string& role = roles[function];
    const bool in_namespace = function.find("::") != std::string::npos;
    std::string wanted;
    if (!in_namespace && of.size() == 1 && !of.begin()->empty()) {
      wanted = *of.begin() + "_" + role;
      if (function == wanted) continue;
    } else {
      wanted = "..._" + role;
      const std::string last = in_namespace ? function.substr(function.rfind(':') + 1) : function;
      const bool on = last == "on_" + role || last.ends_with("_on_" + role);
      if (!on && (last == role ? in_namespace : last.ends_with("_" + role))) continue;
    }
    found += function + " should be " + wanted + "\n";
  }
  for (std::sregex_iterator a(text.begin(), text.end(), attributes); a != end; ++a) {
    const std::string type = (*a)[1];
    if (!type.ends_with("Attrs") && type != "T" && type != "Options") found += type + " should be ...Attrs\n";
  }
  return found;
}

TEST(OpDefinitions, AreSpelledAlike) {
  int definitions = 0;
  for (const Source& source : sources({".h", ".cpp"})) {
    if (!source.path.starts_with("tensor/ops/") && !source.path.starts_with("examples/")) continue;
    std::string text;
    for (const std::string& line : source.lines) text += line.substr(0, line.find("//")) + "\n";
    EXPECT_EQ(complaints(text), "") << source.path;
    definitions += text.find("const OpDef k") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(definitions, 40) << "the tree was not read";
}

TEST(OpDefinitions, OtherSpellingsAreFound) {
  EXPECT_EQ(complaints(R"(const OpDef kSum = {.name = "sum", .infer = sum_infer, .cpu = reduce::cpu};)"), "");
  EXPECT_EQ(complaints(R"(const OpDef kAdd = {.name = "index_add_", .infer = infer_add, .gpu = rows::add_on_gpu};)"),
            "infer_add should be index_add_infer\nrows::add_on_gpu should be ..._gpu\n");
  EXPECT_EQ(complaints(
                R"(const OpDef kA = {.name = "a", .cpu = both_cpu}; const OpDef kB = {.name = "b", .cpu = both_cpu};)"),
            "");
  EXPECT_EQ(complaints("call.as<Settings>()"), "Settings should be ...Attrs\n");
}

}  // namespace
}  // namespace etna::structure
