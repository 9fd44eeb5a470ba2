#pragma once

#include <cstddef>
#include <vector>

namespace etna {

/// RUN_ALL_TESTS(), which fails where no test was chosen, so that a wrong filter or shard is seen. $ETNA_TESTS_RAN
/// names a file that gets the names of the tests that ran, one a line; tests/runner/every_test.cmake looks whether they
/// are all. Programs that tests start inherit neither that file nor the shard.
/// @return the exit code
int run_all_tests();

/// A number that the file gets beside the names, summed over all processes: "# NAME: COUNT".
void report_count(const char* name, long long count);

/// Whether claims are to be repeated in many more variants, too: `./run test --all`.
bool test_all();

/// Whether vulkan:0 is a software rasterizer, whose kernels take up to seconds each to compile.
bool rasterizes();

/// Whether what differs little from its neighbors is left out: rasterizes(), and nobody asked for all.
bool thins();

/// A list whole, or every `step`-th of it where thins().
template <typename T>
std::vector<T> thinned(const std::vector<T>& all, std::size_t step = 2) {
  if (!thins()) return all;
  std::vector<T> some;
  for (std::size_t i = 0; i < all.size(); i += step) some.push_back(all[i]);
  return some;
}

}  // namespace etna
