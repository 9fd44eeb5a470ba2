#pragma once

#include <functional>

#include <etna/tensor/op.h>

namespace etna::indexing {

/// @throws GradError, ShapeError where x, or the values, may not be written
void check_in_place(const char* op, const Tensor& x, const Tensor& values);
/// Calls write(table) with x itself, or with a contiguous copy that is copied back.
/// @throws as check_in_place()
void write_in_place(const char* op, Tensor& x, const Tensor& values, const std::function<void(const Tensor&)>& write);

}  // namespace etna::indexing
