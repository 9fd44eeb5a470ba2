#pragma once

#include <functional>

#include <etna/tensor/op.h>

namespace etna::indexing {

/// Calls write(table) with x itself, or with a contiguous copy that is copied back. Not recorded.
void write_in_place(Tensor& x, const std::function<void(const Tensor&)>& write);
/// Copies result(x) into x. @param source the tensor that is written @throws as in_place::wants_record()
Tensor& replace_in_place(const char* op, Tensor& x, const Tensor& source,
                         const std::function<Tensor(const Tensor&)>& result);

}  // namespace etna::indexing
