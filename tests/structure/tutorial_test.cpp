#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include <structure/source_tree.h>

namespace etna::structure {
namespace {

std::string trimmed(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? "" : line.substr(first);
}

/// The lines without their indentation.
std::string flat(const std::vector<std::string>& lines) {
  std::string text = "\n";
  for (const std::string& line : lines) text += trimmed(line) + "\n";
  return text;
}

TEST(Tutorial, QuotesProgramsThatRun) {
  std::vector<std::string> programs;
  for (const Source& source : sources({".cpp"})) {
    if (source.path.starts_with("examples/tutorial/")) programs.push_back(flat(source.lines));
  }
  ASSERT_FALSE(programs.empty());
  std::ifstream in(ETNA_SOURCE_DIR "/docs/tutorial.md");
  std::vector<std::string> block;
  bool inside = false;
  int blocks = 0;
  for (std::string line; std::getline(in, line);) {
    if (line == "```cpp") {
      inside = true;
      block.clear();
    } else if (inside && line == "```") {
      inside = false;
      ++blocks;
      bool found = false;
      for (const std::string& program : programs) found = found || program.find(flat(block)) != std::string::npos;
      EXPECT_TRUE(found) << "no program in examples/tutorial has these lines of docs/tutorial.md:" << flat(block);
    } else if (inside) {
      block.push_back(line);
    }
  }
  EXPECT_GE(blocks, 8);
}

/// The lines of the first ```cpp block.
std::vector<std::string> first_program(const std::string& page) {
  std::ifstream in(page);
  std::vector<std::string> lines;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (inside && line == "```") break;
    if (inside) lines.push_back(line);
    inside = inside || line == "```cpp";
  }
  return lines;
}

TEST(Starters, AreShortAndQuotedWhole) {
  int programs = 0;
  for (const Source& source : sources({".cpp"})) {
    const std::string folder = "examples/starters/";
    if (!source.path.starts_with(folder)) continue;
    ++programs;
    EXPECT_LE(source.lines.size(), 80u) << source.path;
    const std::string page =
        "docs/examples/" + source.path.substr(folder.size(), source.path.find('.') - folder.size());
    EXPECT_EQ(first_program(ETNA_SOURCE_DIR "/" + page + ".md"), source.lines)
        << page << ".md quotes another program than " << source.path;
  }
  EXPECT_EQ(programs, 5);
}

}  // namespace
}  // namespace etna::structure
