#pragma once

#include <etna/tensor/ops/activations/activations.h>
#include <etna/tensor/ops/attention/attention.h>
#include <etna/tensor/ops/convolution/convolution.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/elementwise/elementwise.h>
#include <etna/tensor/ops/fft/fft.h>
#include <etna/tensor/ops/fills/fills.h>
#include <etna/tensor/ops/indexing/indexing.h>
#include <etna/tensor/ops/join/join.h>
#include <etna/tensor/ops/linalg/linalg.h>
#include <etna/tensor/ops/loss/loss.h>
#include <etna/tensor/ops/matmul/matmul.h>
#include <etna/tensor/ops/normalization/normalization.h>
#include <etna/tensor/ops/pooling/pooling.h>
#include <etna/tensor/ops/random/random.h>
#include <etna/tensor/ops/rearrange/rearrange.h>
#include <etna/tensor/ops/recurrent/recurrent.h>
#include <etna/tensor/ops/reduce/reduce.h>
#include <etna/tensor/ops/resample/resample.h>
#include <etna/tensor/ops/scan/scan.h>
#include <etna/tensor/ops/softmax/softmax.h>
#include <etna/tensor/ops/sorting/sorting.h>

/// The public ops. Each is differentiable where that makes sense. Ops of several tensors broadcast as NumPy does and
/// promote dtypes as PyTorch does. f16 and bf16 are computed in f32 and rounded once. Integers meet numbers in 64 bits
/// and results wrap; where the result would be a number that the dtype cannot hold, as in where(m, x, 300) of u8, it is
/// a DtypeError.
namespace etna {}
