// SPDX-License-Identifier: Apache-2.0
// A mistake planted in a training, on one device and on meshes alike: what only a reference that shares no
// code with the model can find.
#pragma once
#include "suites/train/language_model.h"
#include "suites/train/optimizer.h"

namespace lockstep::suites {

// Null functions change nothing.
struct TrainFault {
  void (*options)(TrainOptions& options) = nullptr;
  void (*model)(nn::Module& model) = nullptr;  // before it is placed
  // Before each update: gradients are clipped.
  void (*update)(const optim::Tensors& parameters, Optimizer& optimizer) = nullptr;
};

}  // namespace lockstep::suites
