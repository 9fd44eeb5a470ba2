#pragma once

#include <cstdint>
#include <string>

namespace etna::os {

/// "Debian GNU/Linux 12 (bookworm)"; empty where the system does not say.
std::string system_name();
/// "Linux 6.1.0-18-amd64 x86_64"; empty where the system does not say.
std::string kernel_name();
/// The most bytes of memory that this process had at a time (its resident set); 0 where the system does not say.
std::uint64_t peak_resident_bytes();

}  // namespace etna::os
