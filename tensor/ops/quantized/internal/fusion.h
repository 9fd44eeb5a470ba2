#pragma once

#include <optional>

#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>

/// Products with what is around them as one call: the norm in front, other products of the same rows, the gate, the
/// residual, and quantizing the result for the product that reads it.
namespace etna::quantized {

/// rms_norm?, one to three products, and what joins them: an activation and mul, cat, or add. A further product at the
/// end, behind an rms_norm or not, remains; it gets its activations quantized.
bool fuse(fusion::Calls calls, fusion::Fused& fused);
/// rms_norm and a product that shares its rows with products to come: the normed rows are quantized once.
bool fuse_norm(fusion::Calls calls, fusion::Fused& fused);
/// f16 or bf16 that were widened for a product which rounds them again.
bool fuse_cast(fusion::Calls calls, fusion::Fused& fused);

/// ActivationRows as a form of `of`. @param eps of the norm that bytes are of
fusion::Form form_of(const Tensor& of, const ActivationRows& x, double eps = 0);
bool read_form(const fusion::Form& form, fusion::Call& call);

/// The form in which a product, a call of quantized_linear with one weight, is best given its rows, if in another than
/// they have. @param fits whether f16 is known to hold them
std::optional<DType> wanted_form(const fusion::Call& product, bool fits = false);

}  // namespace etna::quantized
