#include "serve_receipt.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "arguments.h"
#include "receipt_option.h"

namespace etna::cli {
namespace {

/// The role of the adapters that a model is served with under this name.
std::string adapter_role(const std::string& name) { return "adapter " + name; }

}  // namespace

void add_serve_receipt_options(CLI::App& app, ModelOptions& options, ServeReceiptOptions& receipts) {
  add_receipt_option(app, options.receipt, options.force);
  app.add_option("--receipts", receipts.kept,
                 "count kernels, so that a request with the header 'X-Etna-Receipt: 1' gets a receipt of its own; so "
                 "many are kept for GET /receipts/ID (0: none)")
      ->check(number_in(training::integers(0, 100'000)))
      ->capture_default_str();
}

ServeReceipts::ServeReceipts(const ModelOptions& options, const ServeReceiptOptions& receipts,
                             const std::vector<std::string>& names)
    : options_(options), kept_(receipts.kept) {
  receipt_ = begin_receipt(options, kept_ > 0);
  if (receipt_ == nullptr) return;
  if (!options.mmproj.empty()) receipt_->file("mmproj", options.mmproj);
  for (std::size_t i = 0; i < names.size(); ++i) {
    roles_.push_back(adapter_role(names[i]));
    receipt_->file(roles_.back(), options.stacked[i]);
  }
}

serve::Receipts* ServeReceipts::loaded(const std::vector<serve::ServedModel>& models) {
  if (receipt_ == nullptr) return nullptr;
  receipt_->device(options_.device, models.front().device);
  receipt_->hash_now();
  if (kept_ == 0) return nullptr;
  std::vector<std::vector<std::string>> others;
  for (std::size_t i = 0; i < models.size(); ++i) {
    std::vector<std::string>& left_out = others.emplace_back();
    const std::string own = adapter_role(models[i].name);
    std::copy_if(roles_.begin(), roles_.end(), std::back_inserter(left_out),
                 [&](const std::string& role) { return role != own; });
  }
  requests_ = std::make_unique<serve::Receipts>(*receipt_, static_cast<std::size_t>(kept_), std::move(others));
  return requests_.get();
}

void ServeReceipts::write(const serve::Engine& engine, const serve::Service& service, double load_seconds) {
  if (receipt_ == nullptr || options_.receipt.empty()) return;
  const serve::EngineState state = engine.state();
  const auto number = [&](const char* name, auto value) { receipt_->number(name, static_cast<double>(value)); };
  std::uint64_t requests = 0, failed = 0;
  for (const auto& [key, count] : service.requests().counts) {
    requests += count;
    failed += key.second >= 400 ? count : 0;
  }
  models::GenerationTimes sum;
  std::set<const models::Generator*> generators;
  for (const serve::ServedModel& model : engine.models()) {
    if (!generators.insert(model.generator).second) continue;
    const models::GenerationTimes& times = model.generator->times();
    sum.prompt_tokens += times.prompt_tokens;
    sum.tokens += times.tokens;
    sum.prompt_seconds += times.prompt_seconds;
    sum.decode_seconds += times.decode_seconds;
  }
  number("load_seconds", load_seconds);
  if (engine.models().front().ranks > 1) number("ranks", engine.models().front().ranks);
  number("requests", requests);
  number("requests_refused_or_failed", failed);
  number("sequences_finished", state.finished);
  number("sequences_failed", state.failed);
  number("sequences_cancelled", state.cancelled);
  number("sequences_refused", state.refused);
  number("tokens_read", state.prompt_tokens - state.cached_tokens);
  number("tokens_cached", state.cached_tokens);
  number("tokens_written", state.tokens);
  number("steps", state.steps);
  if (sum.prompt_seconds > 0)
    number("tokens_read_per_second", static_cast<double>(sum.prompt_tokens) / sum.prompt_seconds);
  if (sum.decode_seconds > 0) number("tokens_written_per_second", static_cast<double>(sum.tokens) / sum.decode_seconds);
  receipt_->write(options_.receipt);
}

}  // namespace etna::cli
