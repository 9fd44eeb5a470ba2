#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <etna/serve/engine.h>
#include <etna/serve/grammars.h>
#include <etna/serve/receipts.h>

namespace etna::serve {

struct ServiceOptions {
  std::int64_t max_tokens = 0;        ///< the most that one request may ask for; 0: the context
  std::int64_t max_choices = 16;      ///< `n` times the prompts of one request
  std::string chat_format = {};       ///< a name of data::chat_formats(); empty: that of the model's template
  std::int64_t comment_seconds = 10;  ///< a comment in streams that are silent so long
  Receipts* receipts = nullptr;       ///< of requests that ask for one; must outlive the engine. Null: none are made
};

/// Requests by endpoint and status, for /metrics.
struct RequestCounts {
  std::map<std::pair<std::string, int>, std::uint64_t> counts;
  std::map<std::string, Histogram> seconds;
};

/// What all endpoints share. Safe to use from all threads.
class Service {
 public:
  Service(Engine& engine, ServiceOptions options = {});

  Engine& engine() { return engine_; }
  const ServiceOptions& options() const { return options_; }
  const ServedModel& model(std::size_t index) const { return engine_.models()[index]; }
  /// The model of this name; the first one if the name is empty. @throws ApiError 404
  std::size_t model_index(const std::string& name, const std::string& param = "model") const;
  /// @throws ApiError 400 for a model without one
  const data::Tokenizer& tokenizer(std::size_t model) const;
  Grammars& grammars() const { return grammars_; }
  std::int64_t started() const { return started_; }  ///< seconds since 1970

  void count(const std::string& endpoint, int status, double seconds);
  RequestCounts requests() const;
  /// Connections that are open.
  std::atomic<std::int64_t> connections = 0;

 private:
  Engine& engine_;
  const ServiceOptions options_;
  const std::int64_t started_;
  mutable Grammars grammars_;
  mutable std::mutex mutex_;
  RequestCounts requests_;
};

/// A random identifier: "chatcmpl-" and 24 hexadecimal digits.
std::string new_id(const std::string& prefix);
/// A random seed.
std::uint64_t new_seed();

}  // namespace etna::serve
