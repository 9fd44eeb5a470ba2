#pragma once

#include <string>
#include <vector>

#include <etna/device/internal/os/child.h>

/// `etna chat` on a terminal with a model that is divided over processes. mpirun starts these in the background, where
/// they have no terminal: the process that the user started reads the lines, and hands them on.
namespace etna::cli {

/// Runs the processes, shows what they print, and reads a line whenever rank 0 waits for one. Ctrl-C while it answers
/// reaches rank 0.
os::ChildEnd talk_to_ranks(const std::vector<std::string>& command, os::ChildOptions options);

/// What rank 0 prints before it waits for a line; empty where nobody asked for it.
std::string waits_for_line();

}  // namespace etna::cli
