#pragma once

#include <memory>

#include <etna/device/backend.h>

namespace etna::cpu {

/// The host. Its kernels are ops' own `cpu` functions, run at once by the thread that asks.
std::unique_ptr<Backend> make_backend();

}  // namespace etna::cpu
