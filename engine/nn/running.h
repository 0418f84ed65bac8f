// SPDX-License-Identifier: Apache-2.0
// The modules that a thread is calling, and what they are called: by the path from the outermost, which has
// the name of its class.
#pragma once
#include <string>
#include <vector>

#include "engine/context/activity.h"

namespace lockstep::nn {

class Module;

// Outermost first.
const std::vector<Module*>& running();

// While alive, this thread calls the module.
class Running {
 public:
  explicit Running(Module& module);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

// "Llama" of lockstep::suites::Llama.
std::string class_name(const Module& module);

// The call of a module that is running, as who records is told of it: below the innermost running module that
// it is a part of; else as it was called before, since what runs again on the way back has nobody around it.
Activity activity_of(Module& module, ActivityLog& log);

}  // namespace lockstep::nn
