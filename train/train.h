#pragma once

/// Parts of a training program: checkpoints, progress, the folder of a run.
#include <etna/train/checkpointer.h>
#include <etna/train/early_stopping.h>
#include <etna/train/interrupt.h>
#include <etna/train/progress.h>
#include <etna/train/run_folder.h>
