#pragma once

#include <cstddef>
#include <cstdint>
#include <system_error>

namespace etna::os {

/// Memory by whole pages, zeroed, aligned to 64 bytes at least; large blocks so that huge pages can cover them.
/// @return null after an error
std::byte* take_pages(std::size_t bytes, std::error_code& error);
void return_pages(std::byte* at, std::size_t bytes);

/// Of the machine; 0 where the system does not say.
std::uint64_t memory_bytes();
/// What can be taken without swapping, also by a limit of the container.
std::uint64_t available_memory_bytes();

}  // namespace etna::os
