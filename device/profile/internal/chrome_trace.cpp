#include <etna/device/profile/internal/chrome_trace.h>

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/profile/internal/gpu_lanes.h>

namespace etna::profile {
namespace {

constexpr int kHost = 1;  ///< process number of the host; GPUs follow

std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class ChromeTraceWriter {
 public:
  explicit ChromeTraceWriter(const Profile& profile) : profile_(profile) {}

  std::string text() {
    text_ = fmt::format("{{\"displayTimeUnit\":\"ms\",{},\"traceEvents\":[\n", kChromeTraceMark);
    process(kHost, "host");
    for (std::size_t t = 0; t < profile_.threads.size(); ++t) thread(kHost, static_cast<int>(t), profile_.threads[t]);
    for (const HostSpan& span : profile_.host) host_span(span);
    for (std::size_t g = 0; g < profile_.gpus.size(); ++g) gpu(kHost + 1 + static_cast<int>(g), profile_.gpus[g]);
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  template <typename... T>
  void event(fmt::format_string<T...> format, T&&... values) {
    if (text_.back() == '}') text_ += ",\n";
    text_ += fmt::format(format, std::forward<T>(values)...);
  }
  double us(std::int64_t ns) const { return static_cast<double>(ns - profile_.begin) * 1e-3; }

  void process(int pid, std::string_view name) {
    event(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", pid, quoted(name));
    event(R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})", pid, pid);
  }
  void thread(int pid, int tid, std::string_view name) {
    event(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", pid, tid, quoted(name));
    event(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", pid, tid, tid);
  }

  void host_span(const HostSpan& span) {
    const std::string bytes = span.bytes > 0 ? fmt::format(R"(,"args":{{"bytes":{}}})", span.bytes) : "";
    event(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}{}}})", quoted(span.name),
          str(span.category), kHost, span.thread, us(span.begin), static_cast<double>(span.end - span.begin) * 1e-3,
          bytes);
  }

  void gpu(int pid, const GpuProfile& gpu) {
    process(pid, fmt::format("{} {}", gpu.device.str(), gpu.name));
    const std::vector<int> lanes = gpu_lanes(gpu);
    const int count = lanes.empty() ? 1 : 1 + *std::max_element(lanes.begin(), lanes.end());
    for (int lane = 0; lane < count; ++lane)
      thread(pid, lane, lane == 0 ? "queue" : fmt::format("queue, at the same time {}", lane));
    for (std::size_t i = 0; i < gpu.spans.size(); ++i) gpu_span(pid, lanes[i], gpu, gpu.spans[i]);
  }

  void gpu_span(int pid, int lane, const GpuProfile& gpu, const GpuSpan& span) {
    std::string args =
        fmt::format(R"("batch":{},"submitted_us":{:.3f})", span.batch, us(gpu.batches[span.batch].submitted));
    if (span.phase != nullptr) args += fmt::format(R"(,"phase":{})", quoted(span.phase));
    if (span.node != nullptr) args += fmt::format(R"(,"node":{})", quoted(span.node));
    event(R"({{"ph":"X","name":{},"cat":"gpu","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
          quoted(span.name), pid, lane, us(span.begin), static_cast<double>(span.end - span.begin) * 1e-3, args);
    ++flows_;
    event(R"({{"ph":"s","name":"dispatch","cat":"flow","id":{},"pid":{},"tid":{},"ts":{:.3f}}})", flows_, kHost,
          span.thread, us(span.queued));
    event(R"({{"ph":"f","bp":"e","name":"dispatch","cat":"flow","id":{},"pid":{},"tid":{},"ts":{:.3f}}})", flows_, pid,
          lane, us(span.begin));
  }

  const Profile& profile_;
  std::string text_;
  std::uint64_t flows_ = 0;
};

}  // namespace

std::string chrome_trace(const Profile& profile) { return ChromeTraceWriter(profile).text(); }

}  // namespace etna::profile
