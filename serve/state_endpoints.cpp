#include <cstdio>
#include <set>

#include <fmt/format.h>

#include <etna/device/memory.h>
#include <etna/serve/endpoints.h>
#include <etna/serve/json_text.h>
#include <etna/serve/service.h>

// GET /health, /metrics and /slots
namespace etna::serve {
namespace {

/// Text of Prometheus's exposition format.
class MetricsText {
 public:
  void head(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP etna_{} {}\n# TYPE etna_{} {}\n", name, help, name, type);
  }
  template <typename T>
  void value(std::string_view name, T number, const std::string& labels = "") {
    text_ += fmt::format("etna_{}{} {}\n", name, labels.empty() ? "" : "{" + labels + "}", number);
  }
  template <typename T>
  void single(std::string_view name, std::string_view type, std::string_view help, T number) {
    head(name, type, help);
    value(name, number);
  }
  void histogram(const std::string& name, const Histogram& histogram, const std::string& labels = "") {
    std::uint64_t sum = 0;
    const std::string before = labels.empty() ? "" : labels + ",";
    for (std::size_t i = 0; i < Histogram::kBounds.size(); ++i) {
      sum += histogram.counts[i];
      value(name + "_bucket", sum, fmt::format("{}le=\"{}\"", before, Histogram::kBounds[i]));
    }
    sum += histogram.counts.back();
    value(name + "_bucket", sum, before + "le=\"+Inf\"");
    value(name + "_sum", histogram.sum, labels);
    value(name + "_count", sum, labels);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// Bytes of memory that the process has in use; 0 where the system does not say.
std::uint64_t resident_bytes() {
  std::uint64_t pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    unsigned long long size = 0, resident = 0;
    if (std::fscanf(file, "%llu %llu", &size, &resident) == 2) pages = resident;
    std::fclose(file);
  }
  return pages * 4096;
}

void write_requests(MetricsText& text, const RequestCounts& requests) {
  text.head("http_requests_total", "counter", "Requests by endpoint and status.");
  for (const auto& [key, count] : requests.counts)
    text.value("http_requests_total", count, fmt::format("endpoint=\"{}\",status=\"{}\"", key.first, key.second));
  text.head("http_request_seconds", "histogram", "Seconds until a reply was written.");
  for (const auto& [endpoint, histogram] : requests.seconds)
    text.histogram("http_request_seconds", histogram, fmt::format("endpoint=\"{}\"", endpoint));
}

void write_caches(MetricsText& text, const Engine& engine, const EngineState& state) {
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help, const auto& number) {
    text.head(name, type, help);
    for (std::size_t i = 0; i < engine.lanes().size(); ++i) {
      std::string label;
      for (const char c : engine.models()[engine.lanes()[i]].name) {
        if (c == '"' || c == '\\') label += '\\';
        label += c == '\n' ? ' ' : c;
      }
      text.value(name, number(state.caches[i]), fmt::format("model=\"{}\"", label));
    }
  };
  using Stats = models::KvCacheStats;
  each("kv_cache_blocks", "gauge", "Blocks of the KV cache.", [](const Stats& s) { return s.blocks; });
  each("kv_cache_blocks_in_use", "gauge", "Blocks that sequences use.", [](const Stats& s) { return s.in_use; });
  each("kv_cache_blocks_cached", "gauge", "Blocks kept for prompts with the same prefix.",
       [](const Stats& s) { return s.cached; });
  each("kv_cache_evictions_total", "counter", "Blocks evicted.", [](const Stats& s) { return s.evictions; });
  each("kv_cache_bytes", "gauge", "Bytes of all blocks.", [](const Stats& s) { return s.bytes; });
}

}  // namespace

HttpReply answer_health(Service& service, const HttpRequest&) {
  const EngineState state = service.engine().state();
  Json body = {{"status", !state.failure.empty() ? "error" : state.draining ? "draining" : "ok"}};
  if (!state.failure.empty()) body["error"] = state.failure;
  body["slots"] = state.slots;
  body["ranks"] = service.model(0).ranks;
  body["running"] = state.running;
  body["waiting"] = state.waiting;
  return {.status = body["status"] == "ok" ? 200 : 503, .body = json_text(body)};
}

HttpReply answer_metrics(Service& service, const HttpRequest&) {
  const EngineState state = service.engine().state();
  MetricsText text;
  write_requests(text, service.requests());
  text.single("connections", "gauge", "Connections that are open.", service.connections.load());
  text.single("slots", "gauge", "Sequences that can run at once.", state.slots);
  text.single("ranks", "gauge", "Processes that the model is divided over.", service.model(0).ranks);
  text.single("sequences_running", "gauge", "Sequences that run.", state.running);
  text.single("sequences_waiting", "gauge", "Sequences that wait for a slot.", state.waiting);
  text.single("sequences_waiting_max", "gauge", "Sequences that may wait; more are refused.", state.max_queue);
  text.head("sequences_total", "counter", "Sequences by how they ended; refused ones never waited.");
  text.value("sequences_total", state.finished, "end=\"finished\"");
  text.value("sequences_total", state.failed, "end=\"failed\"");
  text.value("sequences_total", state.cancelled, "end=\"cancelled\"");
  text.value("sequences_total", state.refused, "end=\"refused\"");
  text.single("prompt_tokens_total", "counter", "Tokens of prompts, cached ones included.", state.prompt_tokens);
  text.single("cached_tokens_total", "counter", "Tokens of prompts that the cache had.", state.cached_tokens);
  text.single("tokens_total", "counter", "Tokens generated.", state.tokens);
  text.single("steps_total", "counter", "Steps of the generators.", state.steps);
  text.head("queue_seconds", "histogram", "Seconds that sequences waited for a slot.");
  text.histogram("queue_seconds", state.queue_seconds);
  text.head("first_token_seconds", "histogram", "Seconds until the first token, waiting included.");
  text.histogram("first_token_seconds", state.first_token_seconds);
  text.head("token_gap_seconds", "histogram", "Seconds between two tokens of a sequence.");
  text.histogram("token_gap_seconds", state.gap_seconds);
  text.head("sequence_seconds", "histogram", "Seconds until the last token, waiting included.");
  text.histogram("sequence_seconds", state.total_seconds);
  write_caches(text, service.engine(), state);
  text.head("device_memory_bytes", "gauge", "Bytes in use on a device.");
  std::set<std::string> devices;
  for (const ServedModel& model : service.engine().models()) {
    const std::string name = model.device.str();
    if (devices.insert(name).second)
      text.value("device_memory_bytes", memory_stats(model.device).in_use, fmt::format("device=\"{}\"", name));
  }
  text.single("resident_memory_bytes", "gauge", "Bytes of the host's memory that the process uses.", resident_bytes());
  return {.body = text.take(), .type = "text/plain; version=0.0.4"};
}

HttpReply answer_slots(Service& service, const HttpRequest&) {
  Json rows = Json::array();
  const std::vector<SlotState> slots = service.engine().slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const SlotState& slot = slots[i];
    rows.push_back({{"id", i},
                    {"model", slot.model},
                    {"is_processing", slot.busy},
                    {"ranks", service.model(0).ranks},
                    {"prompt_tokens", slot.prompt_tokens},
                    {"cached_tokens", slot.cached_tokens},
                    {"tokens", slot.tokens},
                    {"seconds", slot.seconds}});
  }
  return {.body = json_text(rows)};
}

}  // namespace etna::serve
