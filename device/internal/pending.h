#pragma once

#include <atomic>

/// Work that callers have asked for and that is not queued yet. tensor/ holds back some calls of ops to fuse them with
/// the next ones (tensor/internal/fusion.h). Whoever looks at memory or at the queue of a device calls finish_pending()
/// first.
namespace etna {

namespace detail {
inline constinit std::atomic<int> pending_work{0};  ///< who holds back work; at 0 nobody does
void run_pending();
}  // namespace detail

/// Queues all work that was held back. Costs one load where there is none.
inline void finish_pending() {
  if (detail::pending_work.load(std::memory_order_acquire) != 0) detail::run_pending();
}

/// @param run queues what is held back; called by finish_pending()
void set_pending_work(void (*run)());

}  // namespace etna
