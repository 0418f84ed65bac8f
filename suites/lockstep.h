// SPDX-License-Identifier: Apache-2.0
// All of Lockstep that a program of your own may include: <lockstep/lockstep.h>. DTensors with what trains
// them, and the oracle's answer and comparison.
#pragma once
#include "engine/fsdp/fully_shard.h"
#include "engine/fsdp/held_memory.h"
#include "engine/lane/numerics.h"
#include "engine/nn/blocks.h"
#include "engine/nn/checkpoint.h"
#include "engine/nn/deferred.h"
#include "engine/nn/init.h"
#include "engine/nn/layers.h"
#include "engine/nn/parallel.h"
#include "engine/ops/rules/table.h"
#include "engine/optim/adamw8bit.h"
#include "engine/optim/muon.h"
#include "engine/optim/optimizer.h"
#include "engine/random/random_policy.h"
#include "engine/tensor/dtensor.h"
#include "engine/tensor/timeline_log.h"
#include "engine/world/world.h"
#include "oracle/judge/check.h"
#include "oracle/ownership/compare.h"
#include "oracle/plain/evaluate.h"
