#include <etna/serve/receipts.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/serve/api_error.h>
#include <etna/serve/endpoints.h>
#include <etna/serve/openai_json.h>
#include <etna/serve/service.h>

// Receipts of requests, and GET /receipts/{id}
namespace etna::serve {
namespace {

/// With keys, a receipt belongs to the key that asked; without, to whoever has its id, which cannot be guessed.
std::string reader_of(const std::string& client) { return client.starts_with("key ") ? client : ""; }

}  // namespace

RequestReceipt::RequestReceipt(Receipts& owner, std::string id, std::string reader, std::string request,
                               std::string endpoint)
    : owner_(owner),
      id_(std::move(id)),
      reader_(std::move(reader)),
      request_(std::move(request)),
      endpoint_(std::move(endpoint)) {}

RequestReceipt::~RequestReceipt() { owner_.drop(id_); }

void RequestReceipt::submitted(std::size_t model, const std::string& model_name,
                               const std::vector<std::uint64_t>& seeds) {
  const std::lock_guard lock(mutex_);
  model_ = model;
  model_name_ = model_name;
  open_ += std::ssize(seeds);
  // What goes on after a limit of reasoning is the same answer.
  if (seeds_.empty()) seeds_ = seeds;
  sequences_ += std::ssize(seeds);
}

bool RequestReceipt::begins(std::uint64_t steps, std::int64_t others) {
  const std::lock_guard lock(mutex_);
  if (begin_) return false;
  begin_ = owner_.service_.moment();
  steps_before_ = steps;
  shared_with_ = others;
  return true;
}

void RequestReceipt::scored(std::int64_t tokens) {
  const std::lock_guard lock(mutex_);
  tokens_read_ += tokens;
}

void RequestReceipt::shared() {
  const std::lock_guard lock(mutex_);
  ++shared_with_;
}

bool RequestReceipt::ends(const AnswerEvent& finish, bool ran, std::uint64_t steps) {
  {
    const std::lock_guard lock(mutex_);
    const bool first = finish_.empty();
    finish_ += fmt::format("{}{}", first ? "" : ", ",
                           finish.error.code.empty() ? openai_name(finish.finish) : finish.error.code);
    if (ran) tokens_read_ += finish.usage.prompt_tokens - finish.usage.cached_tokens;
    tokens_cached_ += finish.usage.cached_tokens;
    tokens_written_ += finish.usage.completion_tokens;
    if (first) {
      queued_ = finish.timings.queued;
      first_token_ = finish.timings.first_token;
    }
    total_ = std::max(total_, finish.timings.total);
    if (--open_ > 0) return false;
    try {
      if (!begin_) begin_ = owner_.service_.moment();
      part_ = owner_.service_.part_since(*begin_);
      steps_ = steps - steps_before_;
    } catch (const std::exception& error) {
      error_ = error.what();
    }
  }
  owner_.keep(shared_from_this());
  return true;
}

bool RequestReceipt::running() const {
  const std::lock_guard lock(mutex_);
  return open_ > 0 || (!part_ && error_.empty());
}

std::string RequestReceipt::text() const {
  std::unique_lock lock(mutex_);
  if (!error_.empty()) throw Error(fmt::format("what ran could not be counted: {}", error_));
  training::ReceiptPart part = *part_;
  part.numbers = {{"sequences", static_cast<double>(sequences_)},
                  {"tokens_read", static_cast<double>(tokens_read_)},
                  {"tokens_cached", static_cast<double>(tokens_cached_)},
                  {"tokens_written", static_cast<double>(tokens_written_)},
                  {"queue_seconds", queued_},
                  {"first_token_seconds", first_token_},
                  {"total_seconds", total_},
                  {"steps", static_cast<double>(steps_)},
                  {"shared_with", static_cast<double>(shared_with_)}};
  for (std::size_t i = 0; i < seeds_.size(); ++i)
    part.seeds[i == 0 ? "sampling" : fmt::format("sampling {}", i)] = seeds_[i];
  part.request = {
      {"id", id_}, {"request_id", request_}, {"endpoint", endpoint_}, {"model", model_name_}, {"finish", finish_}};
  if (model_ < owner_.other_files_.size()) part.other_files = owner_.other_files_[model_];
  lock.unlock();
  return owner_.service_.text(part);
}

Receipts::Receipts(const training::Receipt& service, std::size_t kept,
                   std::vector<std::vector<std::string>> other_files)
    : service_(service), kept_(kept), other_files_(std::move(other_files)) {}

std::shared_ptr<RequestReceipt> Receipts::open(const std::string& client, const std::string& request,
                                               const std::string& endpoint) {
  auto made = std::make_shared<RequestReceipt>(*this, new_id("receipt_"), reader_of(client), request, endpoint);
  const std::lock_guard lock(mutex_);
  running_[made->id()] = made;
  return made;
}

std::shared_ptr<RequestReceipt> Receipts::find(const std::string& id, const std::string& client) const {
  std::shared_ptr<RequestReceipt> found;
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = running_.find(id); at != running_.end()) found = at->second.lock();
    for (const auto& receipt : ended_)
      if (receipt->id() == id) found = receipt;
  }
  return found != nullptr && found->reader() == reader_of(client) ? found : nullptr;
}

void Receipts::keep(std::shared_ptr<RequestReceipt> receipt) {
  std::shared_ptr<RequestReceipt> oldest;  // ends after the lock
  const std::lock_guard lock(mutex_);
  running_.erase(receipt->id());
  if (std::find(ended_.begin(), ended_.end(), receipt) != ended_.end()) return;
  ended_.push_back(std::move(receipt));
  if (ended_.size() <= kept_) return;
  oldest = std::move(ended_.front());
  ended_.pop_front();
}

void Receipts::drop(const std::string& id) {
  const std::lock_guard lock(mutex_);
  running_.erase(id);
}

HttpReply answer_receipt(Service& service, const HttpRequest& request) {
  const Receipts* receipts = service.options().receipts;
  if (receipts == nullptr)
    throw not_found("this server makes no receipts of requests; start it with --receipts N", "receipts_disabled");
  const std::shared_ptr<RequestReceipt> receipt = receipts->find(request.key, request.client);
  if (receipt == nullptr) {
    throw not_found(fmt::format("there is no receipt '{:.64}' here that this client may read; those of the last {} "
                                "requests that asked for one are kept",
                                request.key, receipts->kept()),
                    "receipt_not_found");
  }
  if (receipt->running())
    throw ApiError(409, "invalid_request_error", "the request still runs; ask for its receipt when it has ended", "",
                   "receipt_not_finished", 1);
  return {.body = receipt->text()};
}

}  // namespace etna::serve
