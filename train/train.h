#pragma once

/// Parts of a training program: checkpoints, progress, metrics, the folder of a run.
#include <etna/train/interrupt.h>
