// SPDX-License-Identifier: Apache-2.0
// What the engine tells libtorch's dispatcher: before main, when no thread runs an op yet.
#pragma once

namespace lockstep {

// Called where DTensors are made, so that whoever makes one has it all in a static link. @pre the first call.
void engine_init();

// Each file's, for engine_init().
void register_dispatch();    // dispatch.cpp: the fallback behind DispatchKey::Fake
void register_composites();  // composites.cpp
void register_gradients();   // gradients.cpp: what autograd makes itself

}  // namespace lockstep
