#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <set>

#include <gtest/gtest.h>

#include <structure/source_tree.h>

// Rooms are the folders below the layers. Their includes of each other have no cycles (docs/architecture.md).
namespace etna::structure {
namespace {

using Graph = std::map<std::string, std::set<std::string>>;

/// Headers in internal/ belong to the room around it. What a family of ops shows belongs to tensor/, whose umbrella
/// includes it, though it lies beside the family's kernels.
std::string room_of(const std::string& path) {
  static const std::regex shown(R"(tensor/ops/[a-z_]+/[a-z_]+\.h)");
  if (std::regex_match(path, shown)) return "tensor";
  const std::size_t slash = path.rfind('/');
  std::string room = slash == std::string::npos ? "" : path.substr(0, slash) + "/";
  if (const std::size_t internal = room.find("/internal/"); internal != std::string::npos) room.erase(internal, 9);
  return room.substr(0, room.find_last_not_of('/') + 1);
}

/// A map from each room to the rooms whose headers it includes.
Graph includes_between_rooms(const std::vector<Source>& all) {
  static const std::regex include(R"(^\s*#\s*include\s*<etna/([^>]+)>)");
  Graph graph;
  for (const Source& source : all) {
    for (const std::string& line : source.lines) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      const std::string target = match[1];
      if (room_of(target).empty()) continue;
      if (room_of(target) != room_of(source.path)) graph[room_of(source.path)].insert(room_of(target));
    }
  }
  return graph;
}

/// "a -> b -> a", or empty.
std::string cycle_in(const Graph& graph) {
  std::map<std::string, int> state;  // 1: on the way, 2: done
  std::vector<std::string> way;
  std::string found;
  std::function<void(const std::string&)> visit = [&](const std::string& room) {
    if (!found.empty() || state[room] == 2) return;
    way.push_back(room);
    if (state[room] == 1) {
      auto begin = std::find(way.begin(), way.end(), room);
      for (auto at = begin; at != way.end(); ++at) found += (at == begin ? "" : " -> ") + *at;
      return;
    }
    state[room] = 1;
    if (auto next = graph.find(room); next != graph.end()) {
      for (const std::string& target : next->second) visit(target);
    }
    state[room] = 2;
    way.pop_back();
  };
  for (const auto& [room, targets] : graph) visit(room);
  return found;
}

std::vector<Source> library() {
  std::vector<Source> all = sources({".h", ".cpp", ".inc"});
  std::erase_if(all, [](const Source& s) {
    return s.folder() == "tests" || s.folder() == "tools" || s.folder() == "bench" || s.folder() == "cli" ||
           s.folder() == "examples" || s.folder() == "web";
  });
  return all;
}

TEST(Rooms, IncludeEachOtherWithoutCycles) {
  const Graph graph = includes_between_rooms(library());
  EXPECT_GT(graph.size(), 25u) << "the tree was not read";
  EXPECT_EQ(cycle_in(graph), "");
}

TEST(Rooms, CyclesAreFound) {
  auto file = [](std::string path, std::string includes) {
    return Source{std::move(path), {"#include <etna/" + includes + ">"}};
  };
  EXPECT_EQ(cycle_in(includes_between_rooms({file("a/x/1.h", "a/y/2.h"), file("a/y/2.h", "a/z/3.h")})), "");
  EXPECT_EQ(cycle_in(includes_between_rooms({file("a/x/1.h", "a/y/2.h"), file("a/y/3.cpp", "a/x/4.h")})),
            "a/x -> a/y -> a/x");
  EXPECT_EQ(cycle_in(includes_between_rooms(
                {file("a/1.h", "a/y/2.h"), file("a/y/2.h", "a/z/2.h"), file("a/z/2.h", "a/3.h")})),
            "a -> a/y -> a/z -> a");
}

TEST(Rooms, OnlyTheVulkanBackendKnowsVulkan) {
  static const std::regex include(R"(^\s*#\s*include\s*<(etna/device/internal/vulkan/|vulkan/|volk))");
  for (const Source& source : sources({".h", ".cpp", ".inc"})) {
    if (source.folder() == "tests" || source.path.starts_with("device/internal/vulkan/")) continue;
    if (source.path == "device/internal/built_in/backends.cpp" || source.path.starts_with("bench/peers/")) continue;
    for (const std::string& line : source.lines) {
      EXPECT_FALSE(std::regex_search(line, include))
          << source.path << ": " << line << " (a build without Vulkan lacks it)";
    }
  }
}

/// A family of ops has one word: its folder, its header, its namespace, and its folders of shaders and tests. A room in
/// a family (tensor/ops/matmul/gemm) has a namespace of its own word. What CPU kernels share is in cpu and m.
TEST(Rooms, AFamilyOfOpsHasOneWord) {
  std::set<std::string> families;
  static const std::regex place(R"(tensor/ops/([a-z_]+)/(.*))"), opened(R"(^namespace (etna::)?([a-z_]+)\b.* \{)");
  for (const Source& source : sources({".h", ".cpp", ".inc"})) {
    std::smatch at;
    if (!std::regex_match(source.path, at, place)) continue;
    const std::string family = at[1], rest = at[2];
    families.insert(family);
    bool nested = false;  // what a namespace of the family contains has any name
    if (source.is_header() && rest.find('/') == std::string::npos) {
      EXPECT_EQ(rest, family + ".h") << source.path;
    }
    for (const std::string& line : source.lines) {
      std::smatch name;
      if (!std::regex_search(line, name, opened) || name[2] == "etna") continue;
      if (nested && !name[1].matched) continue;
      nested = true;
      const std::string word = name[2];
      EXPECT_TRUE(word == family || rest.starts_with(word + "/") || word == "cpu" || word == "m" || word == "detail")
          << source.path << ": " << line;
    }
  }
  EXPECT_GT(families.size(), 20u) << "the tree was not read";
  static const std::regex beside(R"((shaders|tests/ops)/([a-z_0-9]+)/.*)");
  for (const Source& source : sources({".comp", ".cpp"})) {
    std::smatch at;
    if (!std::regex_match(source.path, at, beside)) continue;
    const std::string word = at[2];
    EXPECT_TRUE(families.contains(word) || word == "device" || word == "webgpu") << source.path;
  }
}

/// Calls held back (device/internal/pending.h) are finished where everybody passes, so that nobody can forget them.
TEST(Rooms, FewFilesFinishWhatIsHeldBack) {
  static const std::regex call(R"(\bfinish_pending(_on_host)?\(\))");
  const std::set<std::string> wanted{"device/internal/device_queue.h",
                                     "device/internal/pending.h",
                                     "device/memory.cpp",
                                     "tensor/internal/fusion.cpp",
                                     "tensor/internal/graph/captured_step.cpp",
                                     "tensor/internal/overrides.cpp"};
  std::set<std::string> found;
  for (const Source& source : library()) {
    for (const std::string& line : source.lines) {
      if (std::regex_search(line.substr(0, line.find("//")), call)) found.insert(source.path);
    }
  }
  EXPECT_EQ(found, wanted) << "look at devices through a DeviceQueue, and at memory through Storage::host()";
}

/// Columns as an editor counts them: UTF-8 continuation bytes do not count.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

TEST(Files, LinesEndAtColumn120) {
  for (const Source& source : sources(
           {".h", ".cpp", ".c", ".inc", ".def", ".rule", ".comp", ".glsl", ".cu", ".cuh", ".cmake", ".txt", ".sh"})) {
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      EXPECT_LE(columns(source.lines[i]), 120u) << source.path << ":" << i + 1;
    }
  }
}

}  // namespace
}  // namespace etna::structure
