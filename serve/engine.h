#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <etna/models/generator.h>
#include <etna/serve/answer_stream.h>
#include <etna/serve/fair_queue.h>
#include <etna/serve/histogram.h>

namespace etna::data {
class Tokenizer;
}

namespace etna::serve {

class ImageStore;
class RequestImages;
class RequestReceipt;

/// A model that answers. All that it points to must outlive the engine. Models of one generator, with different
/// adapters, share its slots and run in the same steps.
struct ServedModel {
  std::string name;  ///< as clients call it
  models::Decoder* decoder = nullptr;
  models::Generator* generator = nullptr;
  const data::Tokenizer* tokenizer = nullptr;  ///< null: none
  Device device = {};
  std::int64_t slots = 1;        ///< sequences that run at once
  std::int64_t context = 0;      ///< tokens that a sequence has at most
  std::int64_t adapter = -1;     ///< of its sequences (GenerationOptions::adapter)
  int ranks = 1;                 ///< processes that have a part of it each; this one leads them (Generator::lead())
  std::string cache_file = {};   ///< where its cached prefixes are saved (cache_file.h); empty: nowhere
  ImageStore* images = nullptr;  ///< those of its requests; null: it sees none
};

/// @throws ApiError 400 for a prompt without tokens, too long a one or tokens outside the vocabulary
void check_prompt(const std::vector<std::int32_t>& prompt, const ServedModel& model);

struct EngineOptions {
  std::int64_t max_queue = 64;  ///< sequences that wait for a slot
  std::chrono::milliseconds queue_time = std::chrono::seconds(60);
  std::chrono::milliseconds answer_time = std::chrono::seconds(600);  ///< of a request, waiting included
  std::chrono::milliseconds stall_time = std::chrono::seconds(30);    ///< for a reader that takes nothing
};

/// One text to be written.
struct SequenceRequest {
  std::vector<std::int32_t> prompt;
  models::GenerationOptions options;
  std::vector<std::string> stop = {};          ///< texts that end it
  bool show_special = false;                   ///< spell special tokens, such as those around calls of tools
  std::shared_ptr<RequestImages> images = {};  ///< in the prompt; null: none
};

/// A request: one or more texts that are written independently, with one stream for all.
struct Job {
  std::size_t model = 0;  ///< index of the engine's models
  std::vector<SequenceRequest> sequences;
  std::string client;                            ///< who takes turns with others
  std::int64_t priority = 0;                     ///< lower first, among those of the client
  std::shared_ptr<RequestReceipt> receipt = {};  ///< null: none
};

struct SlotState {
  std::string model;
  bool busy = false;
  std::int64_t prompt_tokens = 0, cached_tokens = 0, tokens = 0;
  double seconds = 0;  ///< since the slot was taken
};

/// What the engine has done and does. Counts are since its start.
struct EngineState {
  bool draining = false;
  std::string failure = {};  ///< why nothing runs any more; empty: it runs
  std::int64_t waiting = 0, running = 0, slots = 0, max_queue = 0;
  std::uint64_t taken = 0, refused = 0, finished = 0, failed = 0, cancelled = 0;  ///< sequences
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, tokens = 0, steps = 0;
  Histogram queue_seconds, first_token_seconds, gap_seconds, total_seconds;
  std::vector<models::KvCacheStats> caches;  ///< by generator
};

/// Runs the generators of all models in one thread (continuous batching): takes waiting sequences into free slots
/// between steps, hands out tokens as text, and ends what is cancelled or too late. An error of one sequence ends that
/// one; a lost device, or a rank of a divided model, ends all of them, and everything that comes later is refused. Safe
/// to use from all threads.
class Engine {
 public:
  Engine(std::vector<ServedModel> models, const EngineOptions& options = {});
  /// As stop().
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues a request.
  /// @throws ApiError 400 for a prompt without tokens, too long a one or tokens outside the vocabulary, 429 if too many
  /// wait, 503 while draining and after a failure
  std::shared_ptr<AnswerStream> submit(Job job);
  /// Runs a function in the engine's thread, between two steps, and waits for it; rethrows what it throws.
  /// @throws ApiError as submit(), and 503 if it is not its turn in time
  /// @param receipt of the request that the task belongs to; null: none
  void run(const std::string& client, std::function<void()> task, std::shared_ptr<RequestReceipt> receipt = {});
  /// As run(), with a task that returns whether there is more to do: it is called again after the next steps of all
  /// generators. The engine's thread also deletes it.
  void run_in_parts(const std::string& client, std::function<bool()> part,
                    std::shared_ptr<RequestReceipt> receipt = {});

  /// Takes nothing more; what waits and runs goes on.
  void drain();
  bool idle() const;
  /// Ends everything that waits or runs; its clients are told. Nothing can be submitted any more.
  void stop();
  EngineState state() const;
  std::vector<SlotState> slots() const;
  const std::vector<ServedModel>& models() const { return models_; }
  /// The first model of each generator.
  const std::vector<std::size_t>& lanes() const { return lanes_; }
  const EngineOptions& options() const { return options_; }

 private:
  struct Sequence;
  struct Task;
  using Clock = std::chrono::steady_clock;

  void loop();
  void end_everything(int status, const std::string& code, const std::string& why);
  void expire();
  void start_waiting();
  std::unique_ptr<Sequence> take_next(std::size_t lane);
  void see(std::size_t lane);
  void step_all();
  bool begins_as_another(const Sequence& next, std::size_t lane) const;
  void start(std::unique_ptr<Sequence> sequence);
  void run_task();
  void end_task(Task& task, std::exception_ptr error);
  void step(std::size_t lane);
  void take(Sequence& sequence, const models::GeneratedToken& token);
  void sweep(std::size_t lane);
  void finish(Sequence& sequence, FinishReason reason, const AnswerError& error = {});
  void begin_receipt(const std::shared_ptr<RequestReceipt>& receipt);
  void share(const RequestReceipt* own);
  void require_open(std::int64_t sequences);
  int seconds_until_free() const;
  bool lane_works(std::size_t lane, const std::function<void()>& work);
  std::size_t lane_of(std::size_t model) const;
  models::Generator& generator(std::size_t lane) const { return *models_[lanes_[lane]].generator; }
  std::int64_t waiting() const;
  std::int64_t running() const;

  const std::vector<ServedModel> models_;
  const EngineOptions options_;
  const std::vector<std::size_t> lanes_;
  mutable std::mutex mutex_;  ///< guards everything below; the generators belong to the thread
  std::condition_variable wake_;
  bool stopping_ = false;
  std::vector<FairQueue<std::unique_ptr<Sequence>>> waiting_;  ///< by lane
  std::vector<std::unique_ptr<Sequence>> held_;                ///< by lane: the next, which the cache has no room for
  /// By lane: those whose prompts begin as one that is being read.
  std::vector<std::deque<std::unique_ptr<Sequence>>> followers_;
  /// By lane: those with images that the vision tower has not read.
  std::vector<std::deque<std::unique_ptr<Sequence>>> seeing_;
  bool starting_ = false;  ///< one is neither waiting nor running, but about to run
  FairQueue<std::shared_ptr<Task>> tasks_;
  std::shared_ptr<Task> task_;                                   ///< has more to do; null: none
  std::vector<std::vector<std::unique_ptr<Sequence>>> running_;  ///< by lane
  std::vector<std::shared_ptr<RequestReceipt>> receipts_;        ///< of requests that run
  EngineState state_;
  double seconds_per_sequence_ = 0;  ///< a moving average, for Retry-After
  std::thread thread_;
};

}  // namespace etna::serve
