#pragma once

/// Everything in optim/.
#include <etna/optim/adagrad.h>
#include <etna/optim/adam.h>
#include <etna/optim/averaged_model.h>
#include <etna/optim/grad_scaler.h>
#include <etna/optim/lbfgs.h>
#include <etna/optim/optimizer.h>
#include <etna/optim/schedule.h>
#include <etna/optim/sgd.h>
