#pragma once

#include <array>
#include <cstddef>
#include <string>

/// What is used of NCCL, which is loaded at run time. Types and numbers are those of nccl.h.
namespace etna::distributed::nccl {

using Result = int;
using Communicator = void*;
struct UniqueId {
  std::array<char, 128> bytes;
};

enum Type : int { kI8 = 0, kU8 = 1, kI32 = 2, kI64 = 4, kF16 = 6, kF32 = 7, kF64 = 8, kBf16 = 9 };
enum Reduction : int { kSum = 0, kProduct = 1, kMax = 2, kMin = 3, kMean = 4 };

struct Library {
  Result (*version)(int*) = nullptr;
  Result (*unique_id)(UniqueId*) = nullptr;
  Result (*join)(Communicator*, int ranks, UniqueId, int rank) = nullptr;
  Result (*split)(Communicator, int color, int key, Communicator*, void* config) = nullptr;
  Result (*destroy)(Communicator) = nullptr;
  Result (*abort)(Communicator) = nullptr;
  Result (*all_reduce)(const void*, void*, std::size_t, int, int, Communicator, void* stream) = nullptr;
  Result (*reduce_scatter)(const void*, void*, std::size_t, int, int, Communicator, void* stream) = nullptr;
  Result (*all_gather)(const void*, void*, std::size_t, int, Communicator, void* stream) = nullptr;
  Result (*broadcast)(const void*, void*, std::size_t, int, int root, Communicator, void* stream) = nullptr;
  Result (*send)(const void*, std::size_t, int, int peer, Communicator, void* stream) = nullptr;
  Result (*receive)(void*, std::size_t, int, int peer, Communicator, void* stream) = nullptr;
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
  const char* (*error_text)(Result) = nullptr;
  const char* (*last_error)(Communicator) = nullptr;
  std::string name;  ///< "NCCL 2.28.9"
};

/// libnccl.so.2, or the file that $ETNA_NCCL names. Null, and `why`, where it cannot be loaded.
const Library* library(std::string& why);

}  // namespace etna::distributed::nccl
