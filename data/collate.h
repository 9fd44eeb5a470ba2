#pragma once

#include <string>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna::data {

/// A sample, or a batch of samples: what a network gets and what it should answer. Either may be undefined.
struct Example {
  Tensor data, target;

  Example to(Device device) const;
};

/// Tensors of equal shape and dtype, stacked along a new first dimension; undefined if all are undefined.
/// @param what for errors: "data"
/// @throws ShapeError, DtypeError naming the first sample that differs
Tensor collate(const std::vector<Tensor>& samples, const std::string& what = "the tensor");
Example collate(const std::vector<Example>& samples);
/// Stacks the first tensors of all samples, the second ones, and so on.
std::vector<Tensor> collate(const std::vector<std::vector<Tensor>>& samples);

}  // namespace etna::data
