// SPDX-License-Identifier: Apache-2.0
// Breakpoints: all ranks stop at one place of the program, and one terminal, that of rank 0, shows any
// DTensor, what each rank holds of it, and its Layout (torch: torch.distributed.breakpoint).
#pragma once
#include <stdexcept>
#include <string>

#include "engine/debug/console.h"

namespace lockstep {

// `quit`, on every rank: no mistake, so that no handler of errors takes it for one.
struct QuitAtBreakpoint : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Stops until `continue`; standard input and output have the commands (console.h). Shows the tensors that are
// named here, and the parameters and buffers of the outermost module that this thread is calling. All that
// host ranks call it alike. Once `detach` was said, or standard input has ended, it does nothing in this
// thread. Throws QuitAtBreakpoint at `quit`, and Error where nothing says which ranks are to stop.
// @param world its ranks stop; null: that of the first DTensor
void breakpoint(nn::Named<at::Tensor> tensors = {}, WorldPtr world = nullptr);

// The model stops whenever the module of this path is called, with what its forward is about to be given as
// inputs.0, inputs.1, … Plans and hooks that are to change it are registered before. Throws Error that names
// the nearest path where there is no such module.
void break_at(nn::Module& model, const std::string& path, debug::Console& console = debug::terminal());
// Throws what that would.
void check_break_at(nn::Module& model, const std::string& path);

}  // namespace lockstep
