#pragma once

#include <memory>
#include <string>

#include <etna/tensor/recording.h>

namespace etna::recording {

/// Null if the device's backend does not record graphs.
std::unique_ptr<Session> make_gpu_session(std::string name, Device device, bool one_by_one);
std::unique_ptr<Session> make_cpu_session(std::string name);

}  // namespace etna::recording
