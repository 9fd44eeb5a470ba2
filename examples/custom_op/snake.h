#pragma once

#include <etna/etna.h>

/// The snake activation (Ziyin, Hartwig & Ueda 2020): x + sin²(αx) / α. It learns periodic functions.
/// @param x [..., C] f32 @param alpha [C] f32, positive @return of x's shape
etna::Tensor snake(const etna::Tensor& x, const etna::Tensor& alpha);
