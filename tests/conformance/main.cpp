#include <cstdio>
#include <cstring>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <conformance/report.h>
#include <conformance/walk.h>
#include <etna/device/device.h>
#include <etna/device/internal/vulkan/api/diagnostics.h>
#include <etna/device/kernel.h>
#include <runner/run_tests.h>

// test_conformance: one test per op.
//   --table FILE   write the table of ops
//   --check-table FILE   only compare the table's list of ops with the existing ops
namespace etna::conformance {
namespace {

class OpTest : public testing::Test {
 public:
  explicit OpTest(const OpDef& op) : op_(op) {}
  void TestBody() override {
    walk(op_);
    EXPECT_EQ(vulkan::validation_messages(), 0u);
  }

 private:
  const OpDef& op_;
};

TEST(Samples, NameOpsThatExistAndDifferInName) {
  std::set<std::string> ops, seen;
  for (const OpDef* op : all_ops()) EXPECT_TRUE(ops.insert(op->name).second) << "two ops are named " << op->name;
  for (const OpDef& op : composed_ops())
    EXPECT_TRUE(ops.insert(op.name).second) << op.name << " has an OpDef; its samples are not composed()";
  for (const Sample& sample : all_samples()) {
    EXPECT_TRUE(ops.contains(sample.op)) << "the sample '" << sample.name << "' is for " << sample.op
                                         << ", which is no op";
    EXPECT_TRUE(sample.call) << sample.op << " '" << sample.name << "' calls nothing";
    EXPECT_TRUE(seen.insert(sample.op + "/" + sample.name).second)
        << sample.op << " has two samples '" << sample.name << "'";
    for (const std::string& covered : sample.covered)
      EXPECT_TRUE(ops.contains(covered)) << sample.op << " covers " << covered << ", which is no op";
  }
}

/// Tells how many comparisons of each kind were made.
class Counts : public testing::EmptyTestEventListener {
  void OnTestProgramEnd(const testing::UnitTest&) override {
    for (const auto& [kind, count] : report().checks()) report_count(kind.c_str(), count);
  }
};

/// The value of `--name FILE`, or empty.
std::string option(int argc, char** argv, const char* name) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
  }
  return "";
}

int run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (std::string path = option(argc, argv, "--check-table"); !path.empty()) {
    auto wrong = check_table(path, composed_ops());
    for (const std::string& line : wrong) std::fprintf(stderr, "%s; write it with --table\n", line.c_str());
    return wrong.empty() ? 0 : 1;
  }
  auto add = [](const OpDef* op) {
    testing::RegisterTest("Conformance", op->name, nullptr, nullptr, __FILE__, __LINE__,
                          [op]() -> testing::Test* { return new OpTest(*op); });
  };
  for (const OpDef* op : all_ops()) add(op);
  for (const OpDef& op : composed_ops()) add(&op);
  testing::UnitTest::GetInstance()->listeners().Append(new Counts);
  int failed = run_all_tests();
  if (std::string path = option(argc, argv, "--table"); !path.empty()) {
    Device gpu = gpu_under_test();
    report().write_table(path, gpu.is_cpu() ? "none" : device_name(gpu));
  }
  return failed;
}

}  // namespace
}  // namespace etna::conformance

int main(int argc, char** argv) {
  try {
    return etna::conformance::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "test_conformance: %s\n", error.what());
    return 1;
  }
}
