#pragma once

/// Parts of a training program: steps, the loop around them, checkpoints, progress, metrics, reports, a forecast of
/// memory, the folder of a run, the list of runs, settings, fit(). Language models train by text_training.h.
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
#include <etna/train/run_comparison.h>
#include <etna/train/run_folder.h>
#include <etna/train/run_list.h>
#include <etna/train/run_records.h>
#include <etna/train/run_summary.h>
#include <etna/train/settings.h>
#include <etna/train/terminal_text.h>
#include <etna/train/training_loop.h>
#include <etna/train/training_step.h>
