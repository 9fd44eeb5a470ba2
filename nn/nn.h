#pragma once

/// Everything in nn/.
#include <etna/nn/activations.h>
#include <etna/nn/attention.h>
#include <etna/nn/dropout.h>
#include <etna/nn/embedding.h>
#include <etna/nn/feed_forward.h>
#include <etna/nn/functional_call.h>
#include <etna/nn/init.h>
#include <etna/nn/language_model.h>
#include <etna/nn/layer_norm.h>
#include <etna/nn/linear.h>
#include <etna/nn/losses.h>
#include <etna/nn/module.h>
#include <etna/nn/module_list.h>
#include <etna/nn/rms_norm.h>
#include <etna/nn/sequential.h>
#include <etna/nn/transformer_block.h>
