#include <runner/run_tests.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <etna/device/device.h>

namespace etna {
namespace {

std::vector<std::pair<std::string, long long>> counts;

class Names : public testing::EmptyTestEventListener {
 public:
  /// By now GoogleTest has chosen the tests of this process.
  void OnTestProgramStart(const testing::UnitTest&) override {
    for (const char* name : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_SHARD_STATUS_FILE"}) ::unsetenv(name);
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    ran.push_back(std::string(test.test_suite_name()) + "." + test.name());
  }

  std::vector<std::string> ran;
};

}  // namespace

void report_count(const char* name, long long count) { counts.emplace_back(name, count); }

bool test_all() { return std::getenv("ETNA_TEST_ALL") != nullptr; }

bool rasterizes() {
  static const bool slow = [] {
    const std::vector<AdapterInfo> all = adapters();
    return std::any_of(all.begin(), all.end(),
                       [](const AdapterInfo& a) { return a.device == kVulkan && a.kind == "software"; });
  }();
  return slow;
}

bool thins() { return rasterizes() && !test_all(); }

int run_all_tests() {
  const char* value = std::getenv("ETNA_TESTS_RAN");
  const std::string file = value != nullptr ? value : "";
  ::unsetenv("ETNA_TESTS_RAN");
  if (!file.empty()) std::remove(file.c_str());
  auto* names = new Names;  // GoogleTest deletes it at the end of the program
  testing::UnitTest::GetInstance()->listeners().Append(names);
  const int failed = RUN_ALL_TESTS();
  if (GTEST_FLAG_GET(list_tests)) return failed;
  if (names->ran.empty()) {
    std::fprintf(stderr, "no test was chosen: --gtest_filter=%s\n", GTEST_FLAG_GET(filter).c_str());
    return 1;
  }
  for (const auto& [name, count] : counts) std::printf("%s: %lld\n", name.c_str(), count);
  if (file.empty()) return failed;
  std::ofstream out(file);
  for (const std::string& name : names->ran) out << name << "\n";
  for (const auto& [name, count] : counts) out << "# " << name << ": " << count << "\n";
  if (out.flush()) return failed;
  std::fprintf(stderr, "cannot write %s\n", file.c_str());
  return 1;
}

}  // namespace etna
