#pragma once

#include <atomic>

/// Work that callers have asked for and that is not queued yet. tensor/ holds back some calls of ops to fuse them with
/// the next ones (tensor/internal/fusion.h). Whoever looks at a device or at memory must find them done. So these
/// functions are called where everybody passes: by DeviceQueue (device_queue.h), Storage::host(), and what decides by
/// the thread's settings or by the owners of a tensor. A test names the few files that may call them.
namespace etna {

namespace detail {
inline constinit std::atomic<int> pending_work{0};  ///< who holds back work; at 0 nobody does
void run_pending();
void run_pending_on_host();
}  // namespace detail

inline bool has_pending() { return detail::pending_work.load(std::memory_order_acquire) != 0; }

/// Queues all work that was held back. Costs one load where there is none.
inline void finish_pending() {
  if (has_pending()) detail::run_pending();
}

/// Does what this thread holds back on the CPU: the host is about to read or write memory of storages.
inline void finish_pending_on_host() {
  if (detail::pending_work.load(std::memory_order_relaxed) != 0) detail::run_pending_on_host();
}

/// @param run, run_on_host are called by the functions above
void set_pending_work(void (*run)(), void (*run_on_host)());

}  // namespace etna
