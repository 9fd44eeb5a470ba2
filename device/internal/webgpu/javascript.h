#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

/// device/internal/webgpu/webgpu.mjs as C++ sees it: the object `etna_webgpu` of the module. Functions marked "waits"
/// suspend WebAssembly until a promise settles (JavaScript Promise Integration); the browser works meanwhile.
namespace etna::webgpu::javascript {

/// One dispatch of a batch, as JavaScript reads it.
struct EncodedDispatch {
  std::uint32_t pipeline = 0;
  std::uint32_t groups[3] = {1, 1, 1};
  std::uint32_t block = 0;  ///< which of the batch's blocks of arguments
};
static_assert(sizeof(EncodedDispatch) == 20);

/// Bytes [address, address + bytes) of the heap, multiples of 4.
struct HeapRange {
  std::uint64_t address = 0;
  std::size_t bytes = 0;
};

/// Whether the module was given a device.
bool is_open();
/// What it tells of its adapter, as JSON.
std::string facts();
/// Why the device is gone; empty while it is there.
std::string lost();
/// An error that no call has told of; empty without one.
std::string take_error();

/// Waits. @returns false where there is no memory for that
bool grow(std::size_t bytes);
void write(std::uint64_t address, std::span<const std::byte> bytes);

/// Why there is no such kernel; empty where there is one.
std::string missing(const std::string& kernel);
/// Begins to build a kernel. @returns its number
std::uint32_t pipeline(const std::string& kernel, std::span<const std::uint32_t> constants, const std::string& op);
/// Names a fused kernel by its text (fused_kernel.h).
void define_fused(const std::string& kernel, const std::string& text);
bool building();
/// Waits. @returns what went wrong; empty if nothing did
std::string finish_building();

void submit(std::span<const EncodedDispatch> commands, std::span<const std::byte> blocks);
std::uint32_t make_program(std::span<const std::byte> blocks);
void run_program(std::uint32_t program, std::span<const EncodedDispatch> commands);
void drop_program(std::uint32_t program);

std::size_t in_flight();
void finish_oldest();  ///< waits
void finish();         ///< waits

/// Begins to read two ranges, the second of which may be empty. @returns the read's number
std::uint32_t start_read(const HeapRange& first, const HeapRange& second);
/// Waits for a moment only.
bool is_read(std::uint32_t read);
/// Waits for the bytes of both ranges; the read is then over. @returns what went wrong; empty if nothing did
std::string finish_read(std::uint32_t read, std::span<std::byte> first, std::span<std::byte> second);
void drop_read(std::uint32_t read);

}  // namespace etna::webgpu::javascript
