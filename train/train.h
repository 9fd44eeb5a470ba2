#pragma once

/// Parts of a training program: checkpoints, progress, metrics, reports, a forecast of memory, the folder of a run, the
/// list of runs, fit(). Programs with a loop of their own include training_loop.h and training_step.h; those with a
/// command line settings.h, run_records.h and run_comparison.h; those that train language models text_training.h.
#include <etna/train/checkpointer.h>
#include <etna/train/early_stopping.h>
#include <etna/train/evaluator.h>
#include <etna/train/event_file.h>
#include <etna/train/fit.h>
#include <etna/train/html_report.h>
#include <etna/train/interrupt.h>
#include <etna/train/memory_forecast.h>
#include <etna/train/metric_log.h>
#include <etna/train/metrics.h>
#include <etna/train/plot.h>
#include <etna/train/progress.h>
#include <etna/train/run_folder.h>
#include <etna/train/run_list.h>
#include <etna/train/terminal_text.h>
