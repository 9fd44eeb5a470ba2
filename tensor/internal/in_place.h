#pragma once

#include <functional>

#include <etna/tensor/op.h>

/// What writes in place share.
namespace etna::in_place {

/// Checks that x may be written, and returns whether the write must be recorded.
/// @param source what is written, undefined for numbers
/// @throws ShapeError where x repeats its elements, GradError as GradRecorder::wants_write()
bool wants_record(const char* op, const Tensor& x, const Tensor& source = {});

/// Writes result(x), computed by recorded ops, into x. @param result returns x's shape and dtype, or what broadcasts
Tensor& record(const char* op, Tensor& x, const std::function<Tensor(const Tensor&)>& result);

}  // namespace etna::in_place
