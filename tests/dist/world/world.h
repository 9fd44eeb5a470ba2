#pragma once

#include <cstdlib>
#include <vector>

#include <etna/dist/dist.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/random/random.h>
#include <etna/tensor/tensor.h>

namespace etna {

/// Short limits where a test asks for them.
inline distributed::Options world_options() {
  distributed::Options options;
  if (const char* seconds = std::getenv("ETNA_WORLD_LIMIT")) options.limit_seconds = std::atof(seconds);
  if (const char* seconds = std::getenv("ETNA_WORLD_LATE")) options.late_seconds = std::atof(seconds);
  return options;
}

/// What rank r's tensor of this name and shape is: every rank can make every other's.
inline Tensor tensor_of(int r, const Shape& shape, DType dtype = f32, std::uint64_t name = 0) {
  manual_seed(1000 * name + static_cast<std::uint64_t>(r) + 1);
  if (dtype == boolean) return gt(randn(shape), 0.5);
  return is_floating(dtype) ? cast(randn(shape), dtype) : cast(randint(-5, 6, shape, {i64}), dtype);
}

inline std::vector<Tensor> tensors_of_all(const Shape& shape, DType dtype = f32, std::uint64_t name = 0) {
  std::vector<Tensor> all;
  for (int r = 0; r < distributed::size(); ++r) all.push_back(tensor_of(r, shape, dtype, name));
  return all;
}

}  // namespace etna
