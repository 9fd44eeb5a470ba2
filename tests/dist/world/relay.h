#pragma once

namespace etna {

/// Forwards the frames of two network devices to each other, each after a delay and in order: a cable with delay, where
/// the kernel has no netem. Returns when it does so, in a process of its own that ends with one of the devices; that
/// process' id is printed. arguments: FIRST SECOND MICROSECONDS
/// @return the exit code; 77, and the reason is printed, where the system does not allow it
int relay(int count, char** arguments);

}  // namespace etna
