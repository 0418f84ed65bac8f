// SPDX-License-Identifier: Apache-2.0
// Engines by name. Suites are handed what this makes, and know no engine of their own.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "suites/core/engine_under_test.h"
#include "suites/core/most_ranks.h"
#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites {

struct EngineOptions {
  std::string world = "local";                  // of "lockstep": one of worlds()
  c10::DeviceType device = c10::kCPU;           // of "lockstep" in the local World: where Cases are
  int64_t ranks = 0;                            // processes of the world "gloo"; 0: nobody said
  std::string chaos{};                          // and what happens to one of them (faults/chaos.h)
  double seconds = 120;                         // of an engine in another process: for one answer
  LockstepEngine::Decorate decorate = nullptr;  // of "lockstep" in the local World: around that of each run
  LockstepEngine::Spoil spoil = nullptr;        // likewise
  Remade remade = nullptr;                      // likewise
  SpoilForms forms = {};                        // likewise
};
struct EngineRow {
  const char* name;
  const char* what;
  EnginePtr (*make)(const EngineOptions& options);
};
// The engines that have a name of their own; the first is the default.
std::span<const EngineRow> engines();

struct WorldRow {
  const char* name;
  const char* what;
  EnginePtr (*make)(const EngineOptions& options);  // Lockstep's own engine in such a World
};
// The Worlds that "lockstep" runs in; the first is the default.
std::span<const WorldRow> worlds();

// The names of the rows, the last one after this word: "local or thread".
template <class Row>
std::string names_of(std::span<const Row> rows, const std::string& word) {
  std::string text;
  for (const auto& row : rows)
    text += (text.empty() ? "" : &row == &rows.back() ? " " + word + " " : ", ") + std::string(row.name);
  return text;
}

// A name of the table, or a command (a word with a slash, or several words) that speaks the wire (WIRE.md).
// Throws Error that lists the names, or says why the command did not begin to speak.
// @pre options.world is "local", or name is "lockstep".
EnginePtr make_engine(const std::string& name, const EngineOptions& options = {});
// Its profile. Processes that a launcher started meet once, for the engine that runs cases: not for this.
EngineProfile profile_of(const std::string& name, const EngineOptions& options);

// Whether the processes of a launcher are the World: where nobody says how many to start.
bool joins(const std::string& world, int64_t ranks);

}  // namespace lockstep::suites
