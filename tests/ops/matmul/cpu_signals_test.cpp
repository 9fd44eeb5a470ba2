#include <atomic>
#include <csignal>
#include <vector>

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/time.h>
#include <unistd.h>

#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/signals_held.h>

namespace etna::cpu {
namespace {

thread_local const std::byte *stack_begin = nullptr, *stack_end = nullptr;
std::atomic<int> handled = 0, elsewhere = 0;

void handle(int) {
  const auto* frame = static_cast<const std::byte*>(__builtin_frame_address(0));
  ++handled;
  if (stack_begin != nullptr && (frame < stack_begin || frame >= stack_end)) ++elsewhere;
}

/// A signal every 0.2 ms, whose handler looks where its frame is.
class Signals {
 public:
  Signals() {
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    void* begin = nullptr;
    std::size_t bytes = 0;
    pthread_attr_getstack(&attributes, &begin, &bytes);
    pthread_attr_destroy(&attributes);
    stack_begin = static_cast<const std::byte*>(begin);
    stack_end = stack_begin + bytes;
    handled = elsewhere = 0;
    struct sigaction action {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGALRM, &action, &before_);
    every(200);
  }
  ~Signals() {
    every(0);
    ::sigaction(SIGALRM, &before_, nullptr);
    stack_begin = stack_end = nullptr;
  }

 private:
  static void every(int microseconds) {
    const itimerval timer{{0, microseconds}, {0, microseconds}};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
  }
  struct sigaction before_ {};
};

TEST(SignalsDuringAProduct, FindAStack) {
  const Signals signals;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Gemm g{transpose_a, transpose_b, 32, 1125, 4096, transpose_a ? 32 : 4096, transpose_b ? 4096 : 1125, 1125};
      const std::vector<float> a(32 * 4096, 1), b(1125 * 4096, 1);
      std::vector<float> c(32 * 1125);
      for (int i = 0; i < 10; ++i) {
        gemm_one_thread(g, 1, a.data(), b.data(), 0, c.data());
        gemm(g, 1, a.data(), b.data(), 1, c.data());
      }
      for (const float x : c) ASSERT_EQ(x, 8192);
    }
  }
  EXPECT_GT(handled, 0);
  EXPECT_EQ(elsewhere, 0);
}

TEST(SignalsHeld, WaitForTheOutermost) {
  const Signals signals;
  {
    const SignalsHeld outer;
    const int before = handled;
    { const SignalsHeld inner; }
    sigset_t pending;
    do ::sigpending(&pending);
    while (sigismember(&pending, SIGALRM) == 0 && handled == before);
  }
  // Another thread of the process may have been given it, and be about to handle it.
  for (int tenths = 0; handled == 0 && tenths < 100; ++tenths) ::usleep(100'000);
  EXPECT_GT(handled, 0);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGALRM), 0);
}

}  // namespace
}  // namespace etna::cpu
