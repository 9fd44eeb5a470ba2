#pragma once

#include <optional>

#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>

/// Fuses quantized matmuls with the ops around them into one call: the norm before, other matmuls with the same
/// activations, the gate, the residual, and quantizing the result for the next matmul.
namespace etna::quantized {

/// rms_norm?, one to four matmuls, and the op that combines them: an activation and mul, cat, or add. A further matmul
/// at the end, after an rms_norm or not, is not fused, but gets its activations quantized.
bool fuse(fusion::Calls calls, fusion::Fused& fused);
/// rms_norm and a matmul that shares its activations with later ones: the norm's result is quantized once.
bool fuse_norm(fusion::Calls calls, fusion::Fused& fused);
/// gated_rms_norm of heads, and a matmul that reads it in bytes: the norm's kernel quantizes its result.
bool fuse_gated_norm(fusion::Calls calls, fusion::Fused& fused);
/// A cast of f16 or bf16 to f32 for a matmul that would round to 16 bits again.
bool fuse_cast(fusion::Calls calls, fusion::Fused& fused);

/// ActivationRows as a form of `of`. @param eps of the norm, for activations in bytes
fusion::Form form_of(const Tensor& of, const ActivationRows& x, double eps = 0);
bool read_form(const fusion::Form& form, fusion::Call& call);

/// The form that is best for the activations of a matmul (a quantized_linear call with one weight); nullopt: the
/// present one. @param fits whether they are known to fit in f16
std::optional<DType> wanted_form(const fusion::Call& matmul, bool fits = false);

}  // namespace etna::quantized
