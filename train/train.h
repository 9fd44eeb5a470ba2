#pragma once

/// Parts of a training program: checkpoints, progress, metrics, a forecast of memory, the folder of a run, the list of
/// runs, receipts, settings, fit() and the loop that it has, language models. <etna/train/report.h> has plots.
#include <etna/train/checkpointer.h>
#include <etna/train/evaluator.h>
#include <etna/train/fit.h>
#include <etna/train/metrics.h>
#include <etna/train/progress.h>
#include <etna/train/receipt.h>
#include <etna/train/runs.h>
#include <etna/train/settings.h>
#include <etna/train/text_training.h>
#include <etna/train/training_loop.h>
#include <etna/train/training_step.h>
