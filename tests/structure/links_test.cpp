#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

// Links of README.md, CONTRIBUTING.md and docs/ to files and headings. ETNA_LINKS_ROOT names another folder with these,
// such as the one they are installed into (tests/package).
namespace etna::structure {
namespace {

namespace fs = std::filesystem;

struct MarkdownPage {
  std::vector<std::string> links;
  std::set<std::string> anchors;
};

/// The anchor that GitHub gives a heading: lower case, words joined by '-', no punctuation but '-' and '_'.
std::string anchor_of(const std::string& heading) {
  static const std::regex link(R"(\[([^\]]*)\]\([^)]*\))");
  const std::string text = std::regex_replace(heading, link, "$1");
  std::string anchor;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (std::isalnum(c) || c == '-' || c == '_') anchor += static_cast<char>(std::tolower(c));
    if (c == ' ') anchor += '-';
    if (c < 0x80) continue;
    // Letters stay; signs (U+2000 to U+2FFF, · and ×) go.
    const std::size_t bytes = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    const std::string character = text.substr(i, bytes);
    if (c != 0xE2 && character != "·" && character != "×") anchor += character;
    i += bytes - 1;
  }
  return anchor;
}

MarkdownPage read_page(const fs::path& path) {
  static const std::regex code("`[^`]*`"), heading("#+ +(.*?) *"), named(R"re(<a (?:id|name)="([^"]*)")re"),
      link(R"re(\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)|(?:href|src|srcset)="([^"\s]+)|^\[[^\]]+\]: +(\S+))re");
  MarkdownPage page;
  std::map<std::string, int> seen;
  std::ifstream in(path);
  bool fenced = false;
  for (std::string line; std::getline(in, line);) {
    if (line.find("```") != std::string::npos && line.find("```") == line.find_first_not_of(' ')) fenced = !fenced;
    if (fenced) continue;
    std::smatch match;
    if (std::regex_match(line, match, heading)) {
      const std::string anchor = anchor_of(match[1]);
      const int before = seen[anchor]++;
      page.anchors.insert(before == 0 ? anchor : anchor + "-" + std::to_string(before));
    }
    // Code is no link; it may be a link's text.
    line = std::regex_replace(line, code, "");
    for (std::sregex_iterator at(line.begin(), line.end(), named), end; at != end; ++at) page.anchors.insert((*at)[1]);
    for (std::sregex_iterator at(line.begin(), line.end(), link), end; at != end; ++at)
      page.links.push_back((*at)[1].str() + (*at)[2].str() + (*at)[3].str());
  }
  return page;
}

fs::path docs_root() {
  const char* other = std::getenv("ETNA_LINKS_ROOT");
  return other != nullptr ? other : ETNA_SOURCE_DIR;
}

std::map<fs::path, MarkdownPage> markdown_pages() {
  std::vector<fs::path> files = {docs_root() / "README.md", docs_root() / "CONTRIBUTING.md"};
  for (const auto& entry : fs::recursive_directory_iterator(docs_root() / "docs")) {
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  }
  std::map<fs::path, MarkdownPage> all;
  for (const fs::path& file : files) all.emplace(fs::weakly_canonical(file), read_page(file));
  return all;
}

TEST(Links, LeadToFilesAndHeadings) {
  static const std::regex scheme("[a-z]+:.*");
  const std::map<fs::path, MarkdownPage> all = markdown_pages();
  int links = 0;
  for (const auto& [path, page] : all) {
    for (const std::string& link : page.links) {
      if (std::regex_match(link, scheme)) continue;
      ++links;
      const std::size_t hash = std::min(link.find('#'), link.size());
      const fs::path target = hash == 0 ? path : fs::weakly_canonical(path.parent_path() / link.substr(0, hash));
      if (!fs::exists(target)) {
        ADD_FAILURE() << path << " links to " << link << ": there is no " << target;
      } else if (const auto to = all.find(target); hash < link.size() && to != all.end()) {
        EXPECT_TRUE(to->second.anchors.contains(link.substr(hash + 1)))
            << path << " links to " << link << ": no heading of " << target.filename() << " has this anchor";
      }
    }
  }
  EXPECT_GT(all.size(), 20u);
  EXPECT_GT(links, 100);
}

TEST(Links, AnchorsAreGitHubs) {
  EXPECT_EQ(anchor_of("Build and test"), "build-and-test");
  EXPECT_EQ(anchor_of("What `./run demo` builds: 200 R"), "what-run-demo-builds-200-r");
  EXPECT_EQ(anchor_of("CPU → GPU, and [back](x.md)"), "cpu--gpu-and-back");
}

}  // namespace
}  // namespace etna::structure
