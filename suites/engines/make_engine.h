// SPDX-License-Identifier: Apache-2.0
// Engines by name. Suites are handed what this makes, and know no engine of their own.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "suites/core/engine_under_test.h"
#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites {

struct EngineRow {
  const char* name;
  const char* what;
};
// The engines that have a name of their own; the first is the default.
std::span<const EngineRow> engines();

struct EngineOptions {
  std::string world = "local";  // of "lockstep": which World hosts the ranks of each run; or "thread"
  double seconds = 120;         // of an engine in another process: for one answer
  LockstepEngine::Decorate decorate = nullptr;  // of "lockstep" in the local World: around that of each run
};
// A name of the table, or a command (a word with a slash, or several words) that speaks the wire (WIRE.md).
// Throws Error that lists the names, or says why the command did not begin to speak.
// @pre options.world is "local", or name is "lockstep".
EnginePtr make_engine(const std::string& name, const EngineOptions& options = {});

}  // namespace lockstep::suites
