#pragma once

#include <etna/tensor/tensor.h>

namespace etna {

/// Logits with minus infinity for tokens that a row's mask does not allow. Bit i % 32 of word i / 32 allows token i.
/// @param logits [B, V] floating @param masks [N, ceil(V / 32)] i32 @param rows [B] i32: which mask each row has;
/// negative: none, all are allowed @return [B, V], dtype of logits
/// @throws ShapeError, DtypeError; IndexError for a row of N or more
Tensor mask_tokens(const Tensor& logits, const Tensor& masks, const Tensor& rows);

}  // namespace etna
