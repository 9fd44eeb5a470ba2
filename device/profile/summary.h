#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/profile/profile.h>

namespace etna::profile {

/// The part of a step that an op's time counts towards.
enum class Part : std::uint8_t {
  forward,
  backward,
  rest,  ///< clipping, the optimizer, transfers
};

/// One op's time, over the whole profile.
struct OpTime {
  std::string name;
  std::array<std::int64_t, 3> calls{}, ns{};  ///< indexed by Part
  std::int64_t all_calls() const { return calls[0] + calls[1] + calls[2]; }
  std::int64_t all_ns() const { return ns[0] + ns[1] + ns[2]; }
};

/// A profile in numbers. Nanoseconds over the whole profile; the report divides by steps.
struct Summary {
  std::int64_t steps = 0;
  std::int64_t wall_ns = 0;

  /// True: op times are the GPU's. False: they are the host's, and an op called by another counts towards that one.
  bool of_gpu = false;
  std::vector<OpTime> ops;  ///< longest first
  std::int64_t ops_ns = 0;  ///< their sum
  std::int64_t product_ns = 0, attention_ns = 0;

  struct Phase {
    std::string name;  ///< forward, backward, clip, optimizer, transfer ...
    std::int64_t ns = 0;
  };
  std::vector<Phase> phases;  ///< share the time base of `ops`

  /// The busiest GPU, an index into Profile::gpus; -1 where there is none. The members below describe that GPU; zero
  /// where it reported no times.
  int gpu = -1;
  std::int64_t busy_ns = 0;  ///< something ran: the union of its spans
  std::int64_t gaps_ns = 0;  ///< idle between the spans of a batch, if each was timed individually: barriers, launches
  std::int64_t latency_ns = 0;     ///< idle although work was submitted
  std::int64_t host_bound_ns = 0;  ///< idle with nothing submitted, while the host was not waiting for it
  std::int64_t waking_ns = 0;      ///< idle with nothing submitted, while the host still waited for it
  std::int64_t idle_ns() const { return wall_ns - busy_ns; }

  std::int64_t wait_ns = 0;    ///< the host waited for a GPU
  std::int64_t submit_ns = 0;  ///< the host submitted work to a GPU
};

Summary summarize(const Profile& profile);

/// A matmul, of a linear layer or its gradient.
bool is_product(const char* op);
bool is_attention(const char* op);

}  // namespace etna::profile
