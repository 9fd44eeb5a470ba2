#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <structure/defined_names.h>

// Sources of a target are compiled a few at a time, whichever these are (etna_unity() of cmake/EtnaTarget.cmake). What
// they define for themselves has names that are unique in the target.
namespace etna::structure {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// What each of the sources defines. @return "a.cpp and b.cpp: of_gguf"
std::vector<std::string> clashes(const std::vector<std::pair<std::string, std::vector<DefinedName>>>& sources) {
  std::map<std::string, std::vector<std::pair<std::string, DefinedName>>> seen;
  std::vector<std::string> found;
  for (const auto& [path, names] : sources) {
    for (const DefinedName& name : names) {
      for (const auto& [other, there] : seen[name.full])
        if (other != path && clash(name, there)) found.push_back(other + " and " + path + ": " + name.full);
      seen[name.full].emplace_back(path, name);
    }
  }
  return found;
}

TEST(Unity, SourcesOfATargetDefineDifferentNames) {
  std::size_t targets = 0, names = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(ETNA_BINARY_DIR) / "unity")) {
    ++targets;
    std::vector<std::pair<std::string, std::vector<DefinedName>>> sources;
    std::istringstream list(content_of(entry.path()));
    for (std::string path; std::getline(list, path);) {
      sources.emplace_back(fs::path(path).lexically_relative(ETNA_SOURCE_DIR).generic_string(),
                           defined_names(tokens_of(content_of(path))));
      names += sources.back().second.size();
    }
    EXPECT_THAT(clashes(sources), IsEmpty()) << entry.path().stem().string();
  }
  EXPECT_GT(targets, 20u);
  EXPECT_GT(names, 5000u) << "the tree was not read";
}

/// The clashes of two sources.
std::vector<std::string> between(const std::string& a, const std::string& b) {
  return clashes({{"a", defined_names(tokens_of(a))}, {"b", defined_names(tokens_of(b))}});
}

TEST(Unity, EqualNamesAreFound) {
  const auto hidden = [](const std::string& text) { return "namespace x { namespace { " + text + " } }"; };
  const auto clash = [&](const std::string& a, const std::string& b) { return !between(hidden(a), hidden(b)).empty(); };
  EXPECT_THAT(between(hidden("int f(int a) { return a; }"), hidden("int g() try { } catch (...) { } int f(int b) { }")),
              ElementsAre("a and b: x::f"));
  EXPECT_TRUE(clash("void f(const std::string& text, int n = 3);", "bool f(const string& s, int) { }"));
  EXPECT_FALSE(clash("void f(int a) { }", "void f(float a) { }"));
  EXPECT_TRUE(clash("void f(const std::function<void()>& a) { }", "void f(const std::function<void()>& b) { }"));
  EXPECT_FALSE(clash("void f(int a) { int b = 1; }", "void g(int a) { int b = 2; }"));
  EXPECT_TRUE(clash("template <typename T> T f(const T& x) { return x; }", "template <class U> U f(const U& y) { }"));
  EXPECT_FALSE(clash("template <typename T> T f(const T& x) { return x; }", "template <class U> U f(U y) { }"));
  EXPECT_TRUE(clash("struct A { int f() { return 1; } };", "class A final : public B { };"));
  EXPECT_FALSE(clash("struct A;", "struct A { int f; };"));
  EXPECT_TRUE(clash("enum class A { b, c };", "constexpr int A = 3;"));
  EXPECT_TRUE(clash("constexpr int kA = 3;", "const std::map<int, std::string> kA{{1, \"}\"}};"));
  EXPECT_TRUE(clash("constexpr struct { int a; } kA[] = {{1}};", "int kA[3];"));
  EXPECT_FALSE(clash("constexpr int kA = 3, kB = 4;", "constexpr int kC = 3;"));
  EXPECT_FALSE(clash("using A = std::map<int, int>;", "using A = std::map<int, int>;"));
  EXPECT_TRUE(clash("using A = std::map<int, int>;", "using A = std::set<int>;"));
  EXPECT_TRUE(clash("TEST(Suite, Name) { }", "TEST(Suite, Name) { }"));
  EXPECT_FALSE(clash("TEST(Suite, Name) { }", "TEST(Suite, Other) { }"));
  EXPECT_TRUE(clash("// int g() {\nint f(int (*a)(int)) { return '{'; }", "int f(int (*a)(int)) { }"));
  EXPECT_FALSE(clash("A::A() : b_{1}, c_(2) { } int A::kB = 1;", "A::A() : b_{2} { } int A::kB = 2;"));
  EXPECT_THAT(between("static int f() { }", "static int f() { }"), ElementsAre("a and b: f"));
  EXPECT_THAT(between("int f() { }", "static int f() { }"), ElementsAre("a and b: f"));
  EXPECT_THAT(between("void f();", "void f();"), IsEmpty());
  EXPECT_THAT(between("namespace x { struct A { }; }", "namespace x { namespace { struct A { }; } }"),
              ElementsAre("a and b: x::A"));
  EXPECT_THAT(between(hidden("int f() { }"), "namespace y { namespace { int f() { } } }"), IsEmpty());
}

}  // namespace
}  // namespace etna::structure
