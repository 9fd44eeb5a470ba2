#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/memory_control.h>
#include <etna/dist/dist.h>
#include <etna/serve/api_error.h>
#include <etna/serve/engine.h>
#include <etna/serve/internal/engine_sequence.h>
#include <etna/serve/internal/images.h>
#include <etna/serve/receipts.h>

// The engine's thread. It holds the mutex while it changes what other threads read, never while a generator works.
namespace etna::serve {
namespace {

/// How long nothing runs before cached memory goes back to the system.
constexpr std::chrono::seconds kIdle(30);

using EngineClock = std::chrono::steady_clock;

double engine_seconds(EngineClock::duration span) { return std::chrono::duration<double>(span).count(); }

FinishReason finish_of(models::StopReason reason) {
  return reason == models::StopReason::stop_token ? FinishReason::stop : FinishReason::length;
}

/// Whether nothing can run after an error: of the device, or of the ranks that share a model.
bool ends_all(const std::exception& error) {
  return dynamic_cast<const DeviceError*>(&error) != nullptr ||
         dynamic_cast<const distributed::RankLost*>(&error) != nullptr ||
         dynamic_cast<const distributed::RanksDiffer*>(&error) != nullptr;
}

AnswerError late(const char* what) {
  return {503, fmt::format("the request {}; try again, or ask for fewer tokens", what), "timeout"};
}

}  // namespace

/// Ends a sequence for its client, who gets the last of the text. The caller removes it and holds the mutex.
void Engine::finish(Sequence& sequence, FinishReason reason, const AnswerError& error) {
  const EngineClock::time_point now = EngineClock::now();
  std::string rest = sequence.text.finish();
  if (!rest.empty() || !sequence.logprobs.empty()) {
    sequence.stream->push(
        {.choice = sequence.choice, .text = std::move(rest), .logprobs = std::move(sequence.logprobs)});
  }
  const bool ran = sequence.id >= 0;
  AnswerEvent event{.kind = EventKind::finish, .choice = sequence.choice, .finish = reason};
  if (sequence.text.stopped()) {
    event.finish = FinishReason::stop;
    event.stop_text = sequence.text.stop_text();
  }
  event.usage = {std::ssize(sequence.request.prompt), sequence.cached_tokens, sequence.tokens, 0};
  event.timings = {engine_seconds((ran ? sequence.started : now) - sequence.taken), sequence.first_token,
                   engine_seconds(now - sequence.taken), sequence.longest_gap};
  event.error = error;
  const bool unwanted = sequence.stream->cancelled();
  ++(unwanted ? state_.cancelled : reason == FinishReason::failed ? state_.failed : state_.finished);
  if (ran && !unwanted && reason != FinishReason::failed) {
    state_.total_seconds.add(event.timings.total);
    const double seconds = engine_seconds(now - sequence.started);
    seconds_per_sequence_ = seconds_per_sequence_ == 0 ? seconds : 0.9 * seconds_per_sequence_ + 0.1 * seconds;
  }
  // Before the client reads that its answer has ended: it may ask for the receipt then.
  if (sequence.receipt && sequence.receipt->ends(event, ran, state_.steps)) std::erase(receipts_, sequence.receipt);
  sequence.stream->push(std::move(event));
}

/// The interval of a receipt begins with the first that runs for its request.
void Engine::begin_receipt(const std::shared_ptr<RequestReceipt>& receipt) {
  if (!receipt) return;
  std::int64_t others = task_ && task_->receipt != receipt ? 1 : 0;
  for (const auto& all : running_)
    for (const auto& other : all) others += other->receipt != receipt ? 1 : 0;
  if (receipt->begins(state_.steps, others)) receipts_.push_back(receipt);
}

/// Something begins that other requests' receipts must name. @param own of its request, or null
void Engine::share(const RequestReceipt* own) {
  // A request may fail between what it runs.
  std::erase_if(receipts_, [](const auto& receipt) { return receipt.use_count() == 1; });
  for (const auto& receipt : receipts_)
    if (receipt.get() != own) receipt->shared();
}

void Engine::end_everything(int status, const std::string& code, const std::string& why) {
  const std::lock_guard lock(mutex_);
  const AnswerError error{status, why, code};
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    for (auto& sequence : running_[i]) finish(*sequence, FinishReason::failed, error);
    running_[i].clear();
    if (held_[i]) finish(*held_[i], FinishReason::failed, error);
    held_[i].reset();
    for (auto& sequence : followers_[i]) finish(*sequence, FinishReason::failed, error);
    followers_[i].clear();
    for (auto& sequence : seeing_[i]) finish(*sequence, FinishReason::failed, error);
    seeing_[i].clear();
    waiting_[i].remove_if([](const auto&) { return true; },
                          [&](auto sequence) { finish(*sequence, FinishReason::failed, error); });
  }
  const std::exception_ptr refusal = std::make_exception_ptr(unavailable(why, code));
  if (task_) end_task(*std::exchange(task_, nullptr), refusal);
  while (const auto task = tasks_.pop()) end_task(**task, refusal);
}

/// Ends what has waited too long, and what nobody waits for any more.
void Engine::expire() {
  const std::lock_guard lock(mutex_);
  const EngineClock::time_point now = EngineClock::now();
  const auto over = [&](const std::unique_ptr<Sequence>& sequence) {
    return sequence->stream->cancelled() || now - sequence->taken > options_.queue_time;
  };
  const auto end = [&](const std::unique_ptr<Sequence>& sequence) {
    finish(*sequence, FinishReason::failed, late("waited too long for its turn"));
  };
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    waiting_[i].remove_if(over, end);
    if (held_[i] && over(held_[i])) {
      end(held_[i]);
      held_[i].reset();
    }
    // These wait for what they would else read themselves, or for the vision tower, not for a turn.
    for (auto* waits : {&followers_[i], &seeing_[i]})
      std::erase_if(*waits, [&](const auto& sequence) {
        const bool ends = sequence->stream->cancelled() || now - sequence->taken > options_.answer_time;
        if (ends) finish(*sequence, FinishReason::failed, late("took too long"));
        return ends;
      });
  }
  tasks_.remove_if([](const auto& task) { return task->abandoned; }, [](const auto&) {});
}

/// Works on one generator. An error of the device ends everything; another one, what runs on this generator.
/// @return false after an error
bool Engine::lane_works(std::size_t lane, const std::function<void()>& work) {
  std::string why;
  bool lost = false;
  try {
    work();
    return true;
  } catch (const std::exception& error) {
    why = error.what();
    lost = ends_all(error);
  } catch (...) {
    why = "an unknown error";
  }
  try {
    for (const auto& sequence : running_[lane]) generator(lane).leave(sequence->id);
  } catch (const std::exception& error) {
    if (!std::exchange(lost, true)) why += fmt::format("; then {}", error.what());
  }
  if (lost) {
    {
      const std::lock_guard lock(mutex_);
      state_.failure = why;
    }
    end_everything(503, "device_lost", "the model cannot run any more: " + why);
    return false;
  }
  const std::lock_guard lock(mutex_);
  for (auto& sequence : running_[lane]) finish(*sequence, FinishReason::failed, {500, why, "generation_failed"});
  running_[lane].clear();
  return false;
}

/// Begins one sequence; where the cache has no room for it, it is the first to be tried again.
void Engine::start(std::unique_ptr<Sequence> sequence) {
  const std::size_t lane = lane_of(sequence->model);
  models::Generator& generator = this->generator(lane);
  sequence->request.options.adapter = models_[sequence->model].adapter;
  sequence->started = EngineClock::now();
  AnswerError error{500, "", "generation_failed"};
  const bool nothing = sequence->request.options.max_tokens == 0;
  try {
    begin_receipt(sequence->receipt);
    if (!nothing) {
      if (sequence->request.images)
        sequence->request.options.images = sequence->request.images->prompt(*models_[sequence->model].images);
      sequence->id = generator.begin(sequence->request.prompt, sequence->request.options);
      sequence->cached_tokens = generator.reused(sequence->id);
    }
  } catch (const models::CacheFull& full) {
    const std::lock_guard lock(mutex_);
    if (!running_[lane].empty() || task_) {
      starting_ = false;
      held_[lane] = std::move(sequence);
      return;
    }
    error = {503, full.what(), "cache_full"};
  } catch (const OutOfMemory& memory) {
    error = {503, memory.what(), "out_of_memory"};
  } catch (const std::exception& other) {
    if (ends_all(other)) {
      {
        const std::lock_guard lock(mutex_);
        starting_ = false;
        const bool device = dynamic_cast<const DeviceError*>(&other) != nullptr;
        finish(*sequence, FinishReason::failed, {503, device ? "the device was lost" : other.what(), "device_lost"});
      }
      throw;
    }
    error.message = other.what();
  }
  const std::lock_guard lock(mutex_);
  starting_ = false;
  if (sequence->id < 0) {
    finish(*sequence, nothing ? FinishReason::length : FinishReason::failed, nothing ? AnswerError() : error);
    return;
  }
  state_.queue_seconds.add(engine_seconds(sequence->started - sequence->taken));
  state_.prompt_tokens += sequence->request.prompt.size();
  state_.cached_tokens += static_cast<std::uint64_t>(sequence->cached_tokens);
  share(sequence->receipt.get());
  running_[lane].push_back(std::move(sequence));
}

/// Whether a prompt begins as one that is being read, so that it is read sooner if it waits for that one's blocks. The
/// two would take turns; waiting pays off unless this prompt is the shorter one by more than what it saves.
bool Engine::begins_as_another(const Sequence& next, std::size_t lane) const {
  const std::vector<std::int32_t>& prompt = next.request.prompt;
  return std::any_of(running_[lane].begin(), running_[lane].end(), [&](const auto& other) {
    const std::vector<std::int32_t>& first = other->request.prompt;
    if (other->tokens > 0 || models_[other->model].adapter != models_[next.model].adapter) return false;
    if (!same_images(next.request.images, other->request.images)) return false;
    const auto end = std::mismatch(prompt.begin(), prompt.end() - 1, first.begin(), first.end()).first;
    const std::int64_t shared = (end - prompt.begin()) / kCacheBlock * kCacheBlock,
                       saved = shared - other->cached_tokens, unread = std::ssize(first) - other->cached_tokens;
    return saved > 0 && saved > unread - std::ssize(prompt);
  });
}

/// The next sequence that may begin; null: none. The caller holds the mutex.
std::unique_ptr<Engine::Sequence> Engine::take_next(std::size_t lane) {
  if (held_[lane]) return std::move(held_[lane]);
  std::deque<std::unique_ptr<Sequence>>& followers = followers_[lane];
  const auto ready = std::find_if(followers.begin(), followers.end(),
                                  [&](const auto& sequence) { return !begins_as_another(*sequence, lane); });
  if (ready != followers.end()) {
    std::unique_ptr<Sequence> next = std::move(*ready);
    followers.erase(ready);
    return next;
  }
  const auto begins = [&](std::unique_ptr<Sequence>& next) {
    if (!begins_as_another(*next, lane)) return true;
    followers.push_back(std::move(next));
    return false;
  };
  while (!seeing_[lane].empty() && seeing_[lane].front()->request.images->unread() == nullptr) {
    std::unique_ptr<Sequence> next = std::move(seeing_[lane].front());
    seeing_[lane].pop_front();
    if (begins(next)) return next;
  }
  while (auto first = waiting_[lane].pop()) {
    if ((*first)->request.images && (*first)->request.images->unread() != nullptr)
      seeing_[lane].push_back(std::move(*first));
    else if (begins(*first))
      return std::move(*first);
  }
  return nullptr;
}

/// Computes rows of an image that a sequence waits for. Others' steps go on between the blocks of the tower.
void Engine::see(std::size_t lane) {
  if (seeing_[lane].empty()) return;
  const std::shared_ptr<RequestImages> images = seeing_[lane].front()->request.images;
  models::SeenPicture* image = images->unread();
  if (image == nullptr) return;
  AnswerError error{500, "", "generation_failed"};
  try {
    models_[seeing_[lane].front()->model].images->read(*image, [this] { step_all(); });
    return;
  } catch (const OutOfMemory& memory) {
    error = {503, memory.what(), "out_of_memory"};
  } catch (const std::exception& other) {
    if (ends_all(other)) throw;
    error.message = other.what();
  }
  const std::lock_guard lock(mutex_);
  // A step may have ended everything.
  if (seeing_[lane].empty() || seeing_[lane].front()->request.images != images) return;
  finish(*seeing_[lane].front(), FinishReason::failed, error);
  seeing_[lane].pop_front();
}

void Engine::start_waiting() {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    lane_works(i, [&] {
      while (generator(i).has_room()) {
        std::unique_ptr<Sequence> next;
        {
          const std::lock_guard lock(mutex_);
          next = take_next(i);
          starting_ = next != nullptr;
        }
        if (!next) return;
        start(std::move(next));
        if (held_[i]) return;
      }
    });
  }
}

/// Tells who waits for a task that it has ended. The caller holds the mutex.
void Engine::end_task(Task& task, std::exception_ptr error) {
  task.work = nullptr;  // what it holds may be a generator's
  task.error = std::move(error);
  task.done = true;
  task.changed.notify_all();
}

/// Runs the next part of the task that has begun, or else begins the next one.
void Engine::run_task() {
  std::shared_ptr<Task> task;
  bool begins = false;
  {
    const std::lock_guard lock(mutex_);
    task = task_;
    if (!task) {
      if (auto next = tasks_.pop()) task = *next;
      if (!task || task->abandoned) return;
      begins = task->begun = true;
    }
  }
  if (begins) {
    task->changed.notify_all();
    share(task->receipt.get());
  }
  std::exception_ptr caught;
  std::string lost;
  bool more = false;
  try {
    if (begins) begin_receipt(task->receipt);
    more = task->work();
  } catch (const std::exception& error) {
    caught = std::current_exception();
    if (ends_all(error)) lost = error.what();
  } catch (...) {
    caught = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    task_ = more ? task : nullptr;
    if (more) return;
    end_task(*task, caught);
    if (!lost.empty()) state_.failure = lost;
  }
  if (!lost.empty()) end_everything(503, "device_lost", "the model cannot run any more: " + lost);
}

void Engine::take(Sequence& sequence, const models::GeneratedToken& token) {
  const EngineClock::time_point now = EngineClock::now();
  if (sequence.tokens++ == 0) {
    sequence.first_token = engine_seconds(now - sequence.taken);
    state_.first_token_seconds.add(sequence.first_token);
  } else {
    const double gap = engine_seconds(now - sequence.last_token);
    sequence.longest_gap = std::max(sequence.longest_gap, gap);
    state_.gap_seconds.add(gap);
  }
  sequence.last_token = now;
  ++state_.tokens;
  if (sequence.request.options.logprobs >= 0) sequence.logprobs.push_back(sequence.text.logprobs(token));
  std::string text = sequence.text.push(token.token);
  if (text.empty()) return;
  sequence.stream->push({.choice = sequence.choice, .text = std::move(text), .logprobs = std::move(sequence.logprobs)});
  sequence.logprobs.clear();
}

void Engine::step(std::size_t lane) {
  models::Generator& generator = this->generator(lane);
  std::vector<models::GeneratedToken> tokens;
  std::optional<AnswerError> lack;
  try {
    tokens = generator.step();
  } catch (const models::CacheFull& full) {
    lack = AnswerError{503, full.what(), "cache_full"};
  } catch (const OutOfMemory& memory) {
    lack = AnswerError{503, memory.what(), "out_of_memory"};
  }
  if (lack) {
    // A text that is read beside them takes blocks, and gives them back.
    if (lack->code == "cache_full" && task_) return;
    // All wait for blocks, or for memory: the youngest gives way.
    generator.leave(running_[lane].back()->id);
    generator.forget(running_[lane].back()->id);
    const std::lock_guard lock(mutex_);
    const std::unique_ptr<Sequence> youngest = std::move(running_[lane].back());
    running_[lane].pop_back();
    finish(*youngest, FinishReason::failed, *lack);
    return;
  }
  const std::lock_guard lock(mutex_);
  ++state_.steps;
  for (const models::GeneratedToken& token : tokens) {
    const auto found = std::find_if(running_[lane].begin(), running_[lane].end(),
                                    [&](const auto& sequence) { return sequence->id == token.sequence; });
    // With guesses there may be tokens after a stop text.
    if (found != running_[lane].end() && !(*found)->text.stopped()) take(**found, token);
  }
}

/// Takes out sequences that have ended, and ends those that must.
void Engine::sweep(std::size_t lane) {
  models::Generator& generator = this->generator(lane);
  const EngineClock::time_point now = EngineClock::now();
  std::vector<std::unique_ptr<Sequence>>& running = running_[lane];
  for (std::size_t i = 0; i < running.size();) {
    Sequence& sequence = *running[i];
    const models::StopReason stopped = generator.stopped(sequence.id);
    FinishReason reason = finish_of(stopped);
    AnswerError error;
    if (stopped == models::StopReason::failed) {
      reason = FinishReason::failed;
      const bool memory = generator.ran_out_of_memory(sequence.id);
      error = {memory ? 503 : 500, generator.error_of(sequence.id), memory ? "out_of_memory" : "generation_failed"};
    } else if (stopped == models::StopReason::none) {
      if (sequence.text.stopped()) {
        reason = FinishReason::stop;
      } else if (sequence.stream->cancelled()) {
        reason = FinishReason::failed;
        error = {499, "the client went away", "cancelled"};
      } else if (now - sequence.taken > options_.answer_time) {
        reason = FinishReason::failed;
        error = late("took too long");
      } else if (sequence.stream->stalled() > options_.stall_time) {
        reason = FinishReason::failed;
        error = {503, "the client reads the answer too slowly", "slow_client"};
      } else {
        ++i;
        continue;
      }
      generator.leave(sequence.id);
    }
    generator.forget(sequence.id);
    const std::lock_guard lock(mutex_);
    finish(sequence, reason, error);
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    state_.caches[lane] = generator.cache().stats();
  }
}

void Engine::step_all() {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (running_[i].empty()) continue;
    lane_works(i, [&] {
      step(i);
      sweep(i);
    });
  }
}

void Engine::loop() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const auto wanted = [&] { return stopping_ || waiting() > 0; };
      if (running() == 0 && !wake_.wait_for(lock, kIdle, wanted)) {
        lock.unlock();
        try {
          trim_when_idle(kIdle.count());
        } catch (const Error&) {
          // A device that is lost is found, and told, by the next request.
        }
        continue;
      }
      if (stopping_) break;
    }
    expire();
    start_waiting();
    run_task();
    for (std::size_t i = 0; i < lanes_.size(); ++i) lane_works(i, [&] { see(i); });
    step_all();
  }
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    lane_works(i, [&] {
      for (const auto& sequence : running_[i]) generator(i).leave(sequence->id);
    });
  end_everything(503, "shutting_down", "the server is shutting down");
}

}  // namespace etna::serve
