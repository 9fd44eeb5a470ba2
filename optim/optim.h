#pragma once

/// Everything in optim/.
#include <etna/optim/adadelta.h>
#include <etna/optim/adafactor.h>
#include <etna/optim/adagrad.h>
#include <etna/optim/adam.h>
#include <etna/optim/adamax.h>
#include <etna/optim/asgd.h>
#include <etna/optim/averaged_model.h>
#include <etna/optim/clip.h>
#include <etna/optim/grad_scaler.h>
#include <etna/optim/lamb.h>
#include <etna/optim/lbfgs.h>
#include <etna/optim/lion.h>
#include <etna/optim/muon.h>
#include <etna/optim/nadam.h>
#include <etna/optim/optimizer.h>
#include <etna/optim/plateau.h>
#include <etna/optim/radam.h>
#include <etna/optim/rmsprop.h>
#include <etna/optim/rprop.h>
#include <etna/optim/schedule.h>
#include <etna/optim/sgd.h>
#include <etna/optim/update_bn.h>
