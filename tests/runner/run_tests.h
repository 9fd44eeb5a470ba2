#pragma once

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

}  // namespace etna
