// SPDX-License-Identifier: Apache-2.0
// Console: what one may ask where all ranks have stopped, on one terminal, that of rank 0.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "engine/nn/module.h"
#include "engine/world/worlds.h"

namespace lockstep::debug {

// Where all ranks have stopped, and what can be looked at there.
struct Stopped {
  std::string where;  // "before Llama.layers.0 (LlamaLayer)"
  nn::Named<at::Tensor> tensors;
  std::vector<std::string> stack;  // modules that run, outermost first
  WorldPtr world;                  // null: this thread hosts all ranks
};

enum class GoOn { kContinue, kDetach, kQuit };

// Commands are lines of a file, of which it may have read more than it has answered.
class Console {
 public:
  // @param in a descriptor; only the thread that hosts rank 0 reads it, and writes to `out`
  Console(int in, std::ostream& out) : in_(in), out_(out) {}

  // Answers until a command, which may be cut to where it is unambiguous, lets the program go on; so does the
  // end of input, as `detach`. All that host ranks call it with the same names of tensors, and wait for as
  // long as rank 0's takes.
  GoOn ask(const Stopped& stopped);

 private:
  // The next line where this thread leads, in every other one, too.
  std::string next(const WorldPtr& world);
  // "": none came in time.
  std::string read_line(int milliseconds);

  int in_;
  std::ostream& out_;
  std::string read_;
};

// On standard input and output, of the process.
Console& terminal();

}  // namespace lockstep::debug
