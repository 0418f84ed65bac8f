// SPDX-License-Identifier: Apache-2.0
// The words of a stream that is forged, after the law in oracle/README.md, and the threads that draw them.
#pragma once
#include "engine/stream/random_call.h"
#include "oracle/random/random_simulation_thread.h"

namespace lockstep::oracle {

// Null: Philox's own.
ForgedWords forgery_of(RandomWords words);

// The generator of a thread, from so many words after the state on.
inline ThreadGenerator thread_of(const RandomState& state, uint64_t subsequence, uint64_t offset = 0) {
  return {state.seed, subsequence, state.offset + offset, forgery_of(state.words)};
}

}  // namespace lockstep::oracle
