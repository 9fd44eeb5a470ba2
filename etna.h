#pragma once

/// Everything a program needs.
#include <etna/autograd/autograd.h>
#include <etna/autograd/functional.h>
#include <etna/autograd/saved_tensors.h>
#include <etna/data/data.h>
#include <etna/device/device.h>
#include <etna/device/error.h>
#include <etna/device/memory.h>
#include <etna/device/profile/profiler.h>
#include <etna/device/profile/report.h>
#include <etna/device/profile/step_profiler.h>
#include <etna/device/profile/trace_file.h>
#include <etna/device/transfers.h>
#include <etna/nn/nn.h>
#include <etna/optim/optim.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/io/checkpoint.h>
#include <etna/tensor/io/npy.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/io/torch_file.h>
#include <etna/tensor/literal.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/readback.h>
#include <etna/tensor/tensor.h>
#include <etna/train/train.h>
