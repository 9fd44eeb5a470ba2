#include <etna/serve/engine.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/serve/api_error.h>
#include <etna/serve/internal/engine_sequence.h>
#include <etna/serve/receipts.h>

// What other threads ask of the engine. engine_loop.cpp has what its own thread does.
namespace etna::serve {
namespace {

void check_sequence(const SequenceRequest& request, const ServedModel& model) {
  check_prompt(request.prompt, model);
  try {
    request.options.sampling.check(model.decoder->config.vocabulary);
  } catch (const Error& error) {
    throw bad_request("", error.what());
  }
}

/// The first model of each generator.
std::vector<std::size_t> lanes_of(const std::vector<ServedModel>& models) {
  std::vector<std::size_t> lanes;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const auto same = [&](std::size_t first) { return models[first].generator == models[i].generator; };
    if (std::none_of(lanes.begin(), lanes.end(), same)) lanes.push_back(i);
  }
  return lanes;
}

}  // namespace

void check_prompt(const std::vector<std::int32_t>& prompt, const ServedModel& model) {
  const auto length = static_cast<std::int64_t>(prompt.size());
  if (length == 0) throw bad_request("prompt", "the prompt has no tokens; give it some text");
  if (length > model.context) {
    throw bad_request("prompt",
                      fmt::format("the prompt has {} tokens; '{}' has a context of {} tokens here; shorten the prompt",
                                  length, model.name, model.context),
                      "context_length_exceeded");
  }
  const std::int64_t vocabulary = model.decoder->config.vocabulary;
  for (const std::int32_t token : prompt) {
    if (token < 0 || token >= vocabulary)
      throw bad_request("prompt", fmt::format("the prompt has token {}; the tokens of '{}' are 0 to {}", token,
                                              model.name, vocabulary - 1));
  }
}

Engine::Engine(std::vector<ServedModel> models, const EngineOptions& options)
    : models_(std::move(models)),
      options_(options),
      lanes_(lanes_of(models_)),
      waiting_(lanes_.size()),
      held_(lanes_.size()),
      followers_(lanes_.size()),
      seeing_(lanes_.size()),
      running_(lanes_.size()) {
  for (const std::size_t first : lanes_) {
    state_.slots += models_[first].slots;
    state_.caches.push_back(models_[first].generator->cache().stats());
  }
  state_.max_queue = options_.max_queue;
  thread_ = std::thread([this] { loop(); });
}

Engine::~Engine() { stop(); }

void Engine::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::size_t Engine::lane_of(std::size_t model) const {
  std::size_t lane = 0;
  while (models_[lanes_[lane]].generator != models_[model].generator) ++lane;
  return lane;
}

std::int64_t Engine::waiting() const {
  auto count = static_cast<std::int64_t>(tasks_.size());
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    count += static_cast<std::int64_t>(waiting_[i].size()) + std::ssize(followers_[i]) + std::ssize(seeing_[i]) +
             (held_[i] ? 1 : 0);
  return count;
}

std::int64_t Engine::running() const {
  std::int64_t count = (starting_ ? 1 : 0) + (task_ ? 1 : 0);
  for (const auto& sequences : running_) count += std::ssize(sequences);
  return count;
}

int Engine::seconds_until_free() const {
  const double rounds =
      static_cast<double>(waiting() + 1) / static_cast<double>(std::max<std::int64_t>(1, state_.slots));
  return static_cast<int>(std::clamp(std::ceil(rounds * seconds_per_sequence_), 1.0, 300.0));
}

void Engine::require_open(std::int64_t sequences) {
  if (!state_.failure.empty()) throw unavailable("the model cannot run any more: " + state_.failure, "device_lost");
  if (state_.draining || stopping_) throw unavailable("the server is shutting down", "shutting_down", 10);
  const std::int64_t most = state_.slots + options_.max_queue;
  if (sequences > most) {
    throw bad_request(
        "n", fmt::format("the request asks for {} texts; this server takes at most {} at once", sequences, most));
  }
  if (waiting() + running() + sequences <= most) return;
  state_.refused += static_cast<std::uint64_t>(sequences);
  throw too_many(fmt::format("{} requests run and {} wait already; try again later", running(), waiting()),
                 seconds_until_free());
}

std::shared_ptr<AnswerStream> Engine::submit(Job job) {
  const ServedModel& model = models_.at(job.model);
  for (const SequenceRequest& sequence : job.sequences) check_sequence(sequence, model);
  const auto count = static_cast<std::int64_t>(job.sequences.size());
  auto stream = std::make_shared<AnswerStream>(count);
  const Clock::time_point now = Clock::now();
  std::vector<std::unique_ptr<Sequence>> sequences;
  {
    const std::lock_guard lock(mutex_);
    require_open(count);
  }
  std::vector<std::uint64_t> seeds;
  for (SequenceRequest& request : job.sequences) {
    seeds.push_back(request.options.sampling.seed);
    TextOfTokens text(model.tokenizer, request.prompt, request.stop, request.show_special);
    sequences.push_back(std::make_unique<Sequence>(
        Sequence{std::move(request), std::ssize(sequences), job.model, stream, std::move(text), now}));
    sequences.back()->receipt = job.receipt;
  }
  {
    const std::lock_guard lock(mutex_);
    require_open(count);
    state_.taken += static_cast<std::uint64_t>(count);
    if (job.receipt) job.receipt->submitted(job.model, model.name, seeds);
    for (auto& sequence : sequences) waiting_[lane_of(job.model)].push(std::move(sequence), job.client, job.priority);
  }
  wake_.notify_one();
  return stream;
}

void Engine::run(const std::string& client, std::function<void()> work, std::shared_ptr<RequestReceipt> receipt) {
  run_in_parts(
      client,
      [work = std::move(work)] {
        work();
        return false;
      },
      std::move(receipt));
}

void Engine::run_in_parts(const std::string& client, std::function<bool()> work,
                          std::shared_ptr<RequestReceipt> receipt) {
  const auto task = std::make_shared<Task>();
  task->work = std::move(work);
  task->receipt = std::move(receipt);
  std::unique_lock lock(mutex_);
  require_open(1);
  tasks_.push(task, client);
  wake_.notify_one();
  if (!task->changed.wait_for(lock, options_.queue_time, [&] { return task->begun || task->done; })) {
    task->abandoned = true;
    throw unavailable("the request waited too long for its turn", "queue_timeout", seconds_until_free());
  }
  task->changed.wait(lock, [&] { return task->done; });
  if (task->error) std::rethrow_exception(task->error);
}

void Engine::drain() {
  const std::lock_guard lock(mutex_);
  state_.draining = true;
}

bool Engine::idle() const {
  const std::lock_guard lock(mutex_);
  return waiting() + running() == 0;
}

EngineState Engine::state() const {
  const std::lock_guard lock(mutex_);
  EngineState state = state_;
  state.waiting = waiting();
  state.running = running();
  return state;
}

std::vector<SlotState> Engine::slots() const {
  const std::lock_guard lock(mutex_);
  std::vector<SlotState> slots;
  const Clock::time_point now = Clock::now();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    for (const auto& sequence : running_[i]) {
      slots.push_back({models_[sequence->model].name, true, std::ssize(sequence->request.prompt),
                       sequence->cached_tokens, sequence->tokens,
                       std::chrono::duration<double>(now - sequence->started).count()});
    }
    const ServedModel& first = models_[lanes_[i]];
    for (auto free = std::ssize(running_[i]); free < first.slots; ++free) slots.push_back({first.name});
  }
  return slots;
}

}  // namespace etna::serve
