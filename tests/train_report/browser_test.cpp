#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <data/temporary_folder.h>
#include <etna/train/internal/read_bytes.h>
#include <train_report/sample_report.h>

// The report in a real browser, where there is one: Chromium, or $ETNA_CHROMIUM.
namespace etna::training {
namespace {

namespace fs = std::filesystem;

std::string browser() {
  if (const char* named = std::getenv("ETNA_CHROMIUM")) return named;
  for (const char* path : {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"}) {
    if (fs::exists(path)) return path;
  }
  return "";
}

class Browser : public testing::Test {
 protected:
  void SetUp() override {
    if (browser().empty()) GTEST_SKIP() << "there is no Chromium here (apt-get install chromium)";
    write_report(folder_.path(), sample_report());
  }

  /// What it prints to standard output.
  std::string run(const std::string& arguments) {
    const std::string command =
        "timeout 120 '" + browser() + "' --headless --no-sandbox --disable-gpu --disable-dev-shm-usage " +
        "--disable-background-networking --disable-component-update --no-first-run --user-data-dir='" +
        (folder_ / "profile").string() + "' " + arguments + " 'file://" + (folder_ / "report.html").string() + "' 2>'" +
        (folder_ / "said").string() + "'";
    FILE* pipe = popen(command.c_str(), "r");
    std::string output;
    std::array<char, 4096> buffer{};
    while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
    const int status = pclose(pipe);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << read_bytes(folder_ / "said");
    return output;
  }

  TemporaryFolder folder_;
};

std::size_t browser_count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

/// Addresses that a page fetched, by the browser's log of its network. The browser asks for things of its own, too
/// (updates, the time): those requests come from "not an origin".
std::vector<std::string> asked_for(const std::string& log) {
  std::vector<std::string> addresses;
  const auto seen = nlohmann::json::parse(read_bytes(log));
  for (const auto& event : seen.at("events")) {
    const auto params = event.find("params");
    if (params == event.end() || !params->contains("url") || !params->contains("initiator")) continue;
    if (params->at("initiator") != "not an origin") addresses.push_back(params->at("url").get<std::string>());
  }
  return addresses;
}

TEST_F(Browser, ShowsTheCurvesAndAsksForNothing) {
  const std::string log = (folder_ / "net.json").string();
  const std::string dom = run("--dump-dom --log-net-log='" + log + "' --net-log-capture-mode=Everything");
  EXPECT_EQ(browser_count(dom, "<svg"), 3u);
  EXPECT_EQ(browser_count(dom, "<g class=\"series"), 4u);
  EXPECT_EQ(browser_count(dom, "<figure"), 4u);
  EXPECT_THAT(dom, testing::HasSubstr("The castle was built"));
  EXPECT_THAT(asked_for(log), testing::IsEmpty());
}

TEST_F(Browser, WouldShowWhatAPageAsksFor) {
  std::ofstream(folder_ / "report.html") << "<img src='http://example.invalid/x.png'>";
  const std::string log = (folder_ / "net.json").string();
  run("--dump-dom --log-net-log='" + log + "' --net-log-capture-mode=Everything");
  EXPECT_THAT(asked_for(log), testing::Contains("http://example.invalid/x.png"));
}

TEST_F(Browser, PaintsLightAndDark) {
  const std::string size = "--hide-scrollbars --window-size=1200,1500 ";
  run(size + "--screenshot='" + (folder_ / "light.png").string() + "'");
  run(size + "--blink-settings=preferredColorScheme=0 --screenshot='" + (folder_ / "dark.png").string() + "'");
  const std::string light = read_bytes(folder_ / "light.png"), dark = read_bytes(folder_ / "dark.png");
  EXPECT_GT(light.size(), 20'000u);
  EXPECT_GT(dark.size(), 20'000u);
  EXPECT_NE(light, dark);
  // A folder for a person who wants to look.
  if (const char* keep = std::getenv("ETNA_KEEP_SCREENSHOTS")) {
    run("--hide-scrollbars --window-size=500,2600 --screenshot='" + (folder_ / "narrow.png").string() + "'");
    for (const char* name : {"light.png", "dark.png", "narrow.png", "report.html"})
      fs::copy_file(folder_ / name, fs::path(keep) / name, fs::copy_options::overwrite_existing);
  }
}

}  // namespace
}  // namespace etna::training
