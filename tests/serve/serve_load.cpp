#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <httplib.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

// Loads a server with streams and says how it bore it:
//   build/bin/etna serve MODEL --parallel 8 & build/bin/serve_load --connections 64 --seconds 300 --pid $!
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct Totals {
  std::mutex mutex;
  std::map<std::string, std::int64_t> ends;  ///< by "200", "429", "cut", ...
  std::vector<double> first, gaps, whole;    ///< seconds
  std::int64_t tokens = 0;
};

struct LoadOptions {
  std::string host = "127.0.0.1", model, key;
  int port = 8080, connections = 64, seconds = 60, tokens = 100, pid = 0;
};

/// One stream. @return how it ended
std::string stream_once(httplib::Client& client, const LoadOptions& options, int number, Totals& totals) {
  httplib::Request request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.set_header("Content-Type", "application/json");
  if (!options.key.empty()) request.set_header("Authorization", "Bearer " + options.key);
  nlohmann::json body = {{"model", options.model},       {"prompt", fmt::format("Once upon a time {}", number)},
                         {"max_tokens", options.tokens}, {"stream", true},
                         {"ignore_eos", true},           {"stream_options", {{"include_usage", true}}}};
  request.body = body.dump();
  const Clock::time_point begin = Clock::now();
  Clock::time_point last = begin;
  std::vector<double> gaps;
  double first = -1;
  std::string tail;
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    const double gap = seconds_since(last);
    last = Clock::now();
    if (first < 0)
      first = gap;
    else
      gaps.push_back(gap);
    tail.append(data, size);
    if (tail.size() > 4096) tail.erase(0, tail.size() - 2048);
    return true;
  };
  const httplib::Result result = client.send(request);
  const std::lock_guard lock(totals.mutex);
  if (!result) return httplib::to_string(result.error());
  if (result->status != 200) return std::to_string(result->status);
  if (!tail.ends_with("data: [DONE]\n\n")) return tail.find("\"error\"") != std::string::npos ? "failed" : "cut";
  totals.first.push_back(first);
  totals.gaps.insert(totals.gaps.end(), gaps.begin(), gaps.end());
  totals.whole.push_back(seconds_since(begin));
  const std::string key = "\"completion_tokens\":";
  if (const std::size_t at = tail.rfind(key); at != std::string::npos)
    totals.tokens += std::atoll(tail.c_str() + at + key.size());
  return "200";
}

double resident_mib(int pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  double size = 0, resident = 0;
  file >> size >> resident;
  return resident * 4096 / (1 << 20);
}

std::string quantiles(std::vector<double> values) {
  if (values.empty()) return "none";
  std::sort(values.begin(), values.end());
  const auto at = [&](double part) {
    return 1e3 *
           values[std::min(values.size() - 1, static_cast<std::size_t>(part * static_cast<double>(values.size())))];
  };
  return fmt::format("p50 {:.1f} ms, p99 {:.1f} ms, most {:.1f} ms", at(0.5), at(0.99), 1e3 * values.back());
}

void print_now(const std::string& line) {
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

int load(const LoadOptions& options) {
  Totals totals;
  std::atomic<bool> stop = false;
  std::atomic<int> number = 0;
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < options.connections; ++i) {
    threads.emplace_back([&] {
      httplib::Client client(options.host, options.port);
      client.set_keep_alive(true);
      client.set_read_timeout(120);
      while (!stop) {
        const std::string end = stream_once(client, options, ++number, totals);
        const std::lock_guard lock(totals.mutex);
        ++totals.ends[end];
        if (end != "200") std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    });
  }
  for (int second = 0; second < options.seconds; ++second) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    if ((second + 1) % std::max(1, options.seconds / 10) != 0) continue;
    const std::lock_guard lock(totals.mutex);
    print_now(fmt::format("{:4} s: {} streams, {} tokens{}\n", second + 1, totals.whole.size(), totals.tokens,
                          options.pid > 0 ? fmt::format(", server {:.1f} MiB", resident_mib(options.pid)) : ""));
  }
  const double seconds = seconds_since(begin);
  const std::int64_t tokens = totals.tokens;
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::string ends;
  std::int64_t wrong = 0;
  for (const auto& [end, count] : totals.ends) {
    ends += fmt::format(" {}: {}", end, count);
    if (end != "200") wrong += count;
  }
  print_now(fmt::format("{} connections, ends{}\nfirst token {}\ngaps {}\nstreams {}\n{:.1f} tokens a second\n",
                        options.connections, ends, quantiles(totals.first), quantiles(totals.gaps),
                        quantiles(totals.whole), static_cast<double>(tokens) / seconds));
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Loads a server of `etna serve` with streams"};
  LoadOptions options;
  app.add_option("--host", options.host)->capture_default_str();
  app.add_option("--port", options.port)->capture_default_str();
  app.add_option("--model", options.model, "its name")->required();
  app.add_option("--key", options.key, "an API key");
  app.add_option("--connections", options.connections)->capture_default_str();
  app.add_option("--seconds", options.seconds)->capture_default_str();
  app.add_option("--tokens", options.tokens, "of each stream")->capture_default_str();
  app.add_option("--pid", options.pid, "of the server, whose memory is shown");
  CLI11_PARSE(app, argc, argv);
  return load(options);
}
