#pragma once

/// Everything in nn/.
#include <etna/nn/activations.h>
#include <etna/nn/adaptive_softmax.h>
#include <etna/nn/containers.h>
#include <etna/nn/convolution.h>
#include <etna/nn/dropout.h>
#include <etna/nn/embedding.h>
#include <etna/nn/fuse.h>
#include <etna/nn/init.h>
#include <etna/nn/linear.h>
#include <etna/nn/losses.h>
#include <etna/nn/lstm_language_model.h>
#include <etna/nn/module.h>
#include <etna/nn/multihead_attention.h>
#include <etna/nn/normalization.h>
#include <etna/nn/parameters.h>
#include <etna/nn/pooling.h>
#include <etna/nn/recurrent.h>
#include <etna/nn/resampling.h>
#include <etna/nn/transformer.h>
