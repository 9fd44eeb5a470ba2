#pragma once

#include <memory>

#include <etna/device/internal/backend.h>

namespace etna::cpu {

/// The host. Its kernels are the `cpu` functions of ops; they run at once in the calling thread.
std::unique_ptr<Backend> make_backend();

}  // namespace etna::cpu
