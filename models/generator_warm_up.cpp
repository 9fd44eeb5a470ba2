#include <algorithm>
#include <utility>
#include <vector>

#include <etna/autograd/autograd.h>
#include <etna/models/internal/draft.h>
#include <etna/models/internal/generator_ranks.h>
#include <etna/models/internal/generator_slots.h>
#include <etna/models/internal/latent_prompts.h>
#include <etna/models/internal/mtp_draft.h>
#include <etna/tensor/ops.h>

// Building pipelines and capturing steps before the first sequence.
namespace etna::models {
namespace {

/// The tokens of the next shorter captured step; 0 behind the shortest.
std::int64_t shorter_prompt(std::int64_t tokens) {
  const std::int64_t rows = captured_prompt_rows(tokens);
  std::int64_t shorter = rows - 16;
  while (shorter > 0 && captured_prompt_rows(shorter) == rows) shorter -= 16;
  return shorter;
}

}  // namespace

/// Reads chunks of several lengths into free blocks, for the kernels that their rows choose.
void Generator::warm_up_prompts() {
  const KvCacheStats stats = cache_.stats();
  const std::int64_t free = (stats.blocks - stats.in_use - stats.cached) * kCacheBlock,
                     most = std::min({options_.chunk, free, model_.config.context});
  if (most < 1) return;
  const KvCache::Started started = cache_.start({});
  try {
    cache_.reserve(started.id, most);
    const std::vector<std::int32_t> blocks = cache_.row(started.id, most_blocks());
    const Tensor row = from_vector(blocks, {1, std::ssize(blocks)}, options_.device);
    const Tensor states = full({1}, static_cast<double>(cache_.state_row(started.id)), {i32, options_.device});
    const auto read = [&](std::int64_t count) {
      if (captures_prompt(count))
        return read_captured(std::vector<std::int32_t>(static_cast<std::size_t>(count)), 0, 0, -1, started.id);
      return model_
          .extend(zeros({1, count}, {i32, options_.device}),
                  with_states({&cache_.layers(),
                               {table_to(model_.own_config, row, count), zeros({1}, {i32, options_.device})},
                               adapter_row(-1)},
                              states))
          .select(1, count - 1);
    };
    // The longest first: shorter ones then fit into its memory. Of captured ones, the first call runs eagerly.
    bool captured = false;
    for (std::int64_t count = most; count > 0;) {
      if (captures_prompt(count) && !std::exchange(captured, true)) read(count);
      draw(model_.head(read(count)), 0, 1, {});
      // Of long steps only the longest: others are captured when they are first needed.
      count = count <= kFewCapturedTokens && captures_prompt(count)
                  ? shorter_prompt(count)
                  : std::max(count / 4, captures_prompt(1) ? kFewCapturedTokens : 0);
    }
  } catch (...) {
    cache_.finish(started.id, {});
    throw;
  }
  cache_.finish(started.id, {});
}

void Generator::warm_up() {
  on_all_ranks(
      RankCall::warm_up, [](CallWriter&) {}, [&] { warm_up_steps(); });
}

void Generator::warm_up_steps() {
  if (busy()) throw Error("Generator: warm_up() was called while sequences run; call it before the first begins");
  const NoGrad no_grad;
  const std::int64_t width = width_, most = (std::min(model_.config.context, cache_.capacity()) - 1) / kCacheBlock + 1;
  warm_up_prompts();
  // Sequences that are not there have no position: their keys and values are not written.
  for (std::int64_t w = kGeneratorFirstWidth;; w *= 2) {
    set_width(w);
    for (const bool greedy : {true, false}) {
      for (int i = 0; i < 2; ++i) {  // the first call runs, the second one captures
        for (std::int64_t rows = options_.all_slots ? options_.slots : 1;; rows = std::min(2 * rows, options_.slots)) {
          // Of steps of some slots, those of short texts.
          if (w == kGeneratorFirstWidth || rows == 1 || rows == options_.slots) {
            if (model_.host_layers() > 0) extend_on_host(read_by_steps(rows));
            run_step({.greedy = greedy, .width = w, .rows = rows});
          }
          if (rows == options_.slots) break;
        }
        if (draft_ && w == kGeneratorFirstWidth)
          draft_->guess(guessed_.select(0, 0).slice(1, 1, 1 + options_.guesses), greedy);
        if (mtp_)
          mtp_->guess(guessed_.select(0, 0).slice(1, 1, 1 + options_.guesses), greedy, cache_.layers(),
                      {table_, positions_});
        if (options_.guesses > 0) {
          check_guesses(greedy);
          take_up(zeros({options_.slots}, {i32, options_.device}));
        }
      }
    }
    if (w >= most) break;
  }
  set_width(width);
  tokens_.to_vector<std::int32_t>();  // waits
}

}  // namespace etna::models
