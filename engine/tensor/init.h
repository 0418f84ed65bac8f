// SPDX-License-Identifier: Apache-2.0
// What the engine tells libtorch's dispatcher: before main, when no thread runs an op yet. Called where
// DTensors are made (dtensor_impl.cpp), so that whoever makes one has it all in a static link.
#pragma once

namespace lockstep {

// @pre the first call of each
void register_dispatch();     // dispatch.cpp: the fallback behind DispatchKey::Fake
void register_composites();   // composites.cpp
void register_collectives();  // collectives.cpp: _c10d_functional
void register_gradients();    // gradients.cpp: what autograd makes itself

}  // namespace lockstep
