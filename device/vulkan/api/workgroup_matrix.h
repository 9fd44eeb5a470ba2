#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <etna/device/vulkan/api/types.h>

namespace etna::vulkan {

struct Adapter;

/// A product that a workgroup of so many threads does at once with NV_cooperative_matrix2: sums [M, N] += a [M, K] · b [K, N], where M, N
/// and K are multiples of these.
struct WorkgroupMatrix {
  std::uint32_t m, n, k;
  MatrixElement operands, sums;
  std::uint32_t threads;
};

/// Empty where the device lacks the extension, or what kernels use of it: tensor addressing and functions of elements.
std::span<const WorkgroupMatrix> workgroup_matrices(Device device);
std::vector<WorkgroupMatrix> find_workgroup_matrices(const Adapter& adapter);

}  // namespace etna::vulkan
