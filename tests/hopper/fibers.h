#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Blocks of threads on the CPU, each thread a fiber. Blocks run in a random order, as many at once as asked, and now
// and then a warp or a warpgroup pauses.

namespace emulated {

/// Threads that do something together: the last one to come does it for all.
struct Meeting {
  int here = 0;
  std::uint64_t rounds = 0;
};
/// The copy engine's barrier.
struct MemoryBarrier {
  int arrivals = 0, missing = 0;
  std::int64_t bytes = 0;  ///< that are expected, less those that came
  std::uint32_t phase = 0;
};
struct Fiber {
  ucontext_t context = {};
  std::vector<char> stack = std::vector<char>(96 << 10);
  std::function<void()> body;
  std::uint32_t thread = 0;
  bool done = false;
  struct Store {
    void* to;
    std::uint32_t from;
    int bytes;
    bool adds;
    std::vector<char> read = {};
  };
  std::vector<Store> stores;
  using Copies = std::vector<std::pair<void*, const void*>>;
  Copies copied;
  std::deque<Copies> groups;  ///< that are under way
};
struct Warpgroup {
  Meeting meeting;
  std::array<float*, 128> sums = {};
  std::array<const std::uint32_t*, 128> operands = {};
  std::vector<std::function<void()>> issued;
  std::deque<std::vector<std::function<void()>>> committed;
};
struct Warp {
  Meeting meeting;
  std::array<std::uint32_t, 32> words = {}, addresses = {};
  std::array<std::array<std::uint32_t, 4>, 32> matrices = {};
};
struct Block {
  std::uint32_t number = 0;
  std::vector<char> memory;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::map<std::uint32_t, MemoryBarrier> barriers;
  std::array<Meeting, 16> named;
  std::array<Warp, 32> warps;
  std::array<Warpgroup, 8> groups;
  std::uint32_t pausing = 0, warps_pausing = 0, rounds = 0;  ///< the first of so many warps that pause, and how long
};

struct State {
  ucontext_t main = {};
  Block* block = nullptr;
  Fiber* fiber = nullptr;
  std::uint64_t progress = 0;
  std::uint32_t blocks = 0, threads = 0;
  std::string error;
};
inline State state;

inline void yield() { swapcontext(&state.fiber->context, &state.main); }
template <typename Condition>
void wait(Condition met) {
  while (!met()) yield();
  ++state.progress;
}
[[noreturn]] inline void fail(const std::string& error) {
  state.error = error;
  for (;;) yield();
}

template <typename Work>
void meet(Meeting& m, int threads, Work work) {
  const std::uint64_t round = m.rounds;
  if (++m.here == threads) {
    work();
    m.here = 0;
    ++m.rounds;
    ++state.progress;
  } else {
    wait([&] { return m.rounds != round; });
  }
}
inline void arrive(Meeting& m, int threads) {
  if (++m.here < threads) return;
  m.here = 0;
  ++m.rounds;
  ++state.progress;
}
inline Warp& warp() { return state.block->warps[state.fiber->thread / 32]; }
inline Warpgroup& group() { return state.block->groups[state.fiber->thread / 128]; }

template <typename T>
T from_lane(T x, std::uint32_t lane) {
  Warp& w = warp();
  std::memcpy(&w.words[state.fiber->thread % 32], &x, 4);
  meet(w.meeting, 32, [] {});
  std::memcpy(&x, &w.words[lane], 4);
  meet(w.meeting, 32, [] {});
  return x;
}

inline void start_fiber() {
  state.fiber->body();
  state.fiber->done = true;
  for (;;) yield();
}

/// Apart from loops, whose variables the compiler would take to be clobbered.
inline void prepare(Fiber& fiber) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.data();
  fiber.context.uc_stack.ss_size = fiber.stack.size();
  makecontext(&fiber.context, start_fiber, 0);
}

/// Stops a warp or a warpgroup of the block for a while.
inline void pause(Block& block, std::mt19937& random) {
  block.rounds = random() % 50;
  block.warps_pausing = random() % 2 == 0 ? 1 : 4;
  block.pausing = random() % (state.threads / 32 / block.warps_pausing + 1) * block.warps_pausing;
}

/// Runs a grid. @param resident blocks that run at once @param seed of the order in which they run
/// @throws std::runtime_error where no thread can go on, and for what the hardware would not take
inline void launch(std::uint32_t blocks, std::uint32_t threads, std::size_t shared_bytes, std::size_t resident,
                   unsigned seed, const std::function<void(char*)>& kernel) {
  state = {};
  state.blocks = blocks, state.threads = threads;
  std::mt19937 order(seed);
  std::vector<std::unique_ptr<Block>> running;
  std::uint32_t begun = 0;
  int idle = 0;
  while (begun < blocks || !running.empty()) {
    while (running.size() < resident && begun < blocks) {
      auto block = std::make_unique<Block>();
      block->number = begun++;
      block->memory.assign(shared_bytes + 1024, '\xAB');
      for (std::uint32_t i = 0; i < threads; ++i) {
        auto fiber = std::make_unique<Fiber>();
        fiber->thread = i;
        fiber->body = [&kernel] { kernel(state.block->memory.data()); };
        prepare(*fiber);
        block->fibers.push_back(std::move(fiber));
      }
      running.push_back(std::move(block));
    }
    std::shuffle(running.begin(), running.end(), order);
    const std::uint64_t before = state.progress;
    for (const auto& block : running) {
      state.block = block.get();
      if (block->rounds > 0)
        --block->rounds;
      else if (order() % 8 == 0)
        pause(*block, order);
      for (const auto& fiber : block->fibers) {
        if (fiber->done || (block->rounds > 0 && fiber->thread / 32 - block->pausing < block->warps_pausing)) continue;
        state.fiber = fiber.get();
        swapcontext(&state.main, &fiber->context);
        if (!state.error.empty()) throw std::runtime_error(state.error);
      }
    }
    const std::size_t ended = std::erase_if(running, [](const auto& block) {
      return std::all_of(block->fibers.begin(), block->fibers.end(), [](const auto& fiber) { return fiber->done; });
    });
    idle = ended > 0 || state.progress != before ? 0 : idle + 1;
    if (idle > 100) throw std::runtime_error("no thread can go on");
  }
}

struct Index {
  struct Thread {
    operator std::uint32_t() const { return state.fiber->thread; }
  };
  struct Number {
    operator std::uint32_t() const { return state.block->number; }
  };
  struct Blocks {
    operator std::uint32_t() const { return state.blocks; }
  };
  struct Threads {
    operator std::uint32_t() const { return state.threads; }
  };
};
template <typename X>
struct OneDimension {
  X x;
};

}  // namespace emulated
