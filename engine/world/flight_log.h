// SPDX-License-Identifier: Apache-2.0
// What ranks did before something failed, as a file for each rank (FLIGHT.md), and where they part.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/world/flight.h"

namespace lockstep {

// A FlightRecord, read.
struct FlightEntry {
  int64_t number = 0, meeting = 0;
  FlightState state{};
  int64_t sent = 0, received = 0, entry = -1;
  std::string asker, op, ranks, sends, expects;
};
const char* name(FlightState state);  // "begun", "waited", "done"

// What is left of what one rank did.
struct Flight {
  int64_t rank = 0, ranks = 0;
  std::string where;                 // "process 4711 on one, log /tmp/x.log"; "": not known
  std::string token;                 // of the case; "": not known
  int64_t begun = 0;                 // exchanges
  std::vector<FlightEntry> entries;  // the last of them, oldest first
};

Flight flight_of(const FlightRing& ring, int64_t rank, int64_t ranks, std::string where, std::string token);

// @post parse_flight(to_text(f), name) is f, but for control characters in `where`.
std::string to_text(const Flight& flight);
// Throws Error that says what is wrong with the file of this name, and where.
Flight parse_flight(const std::string& text, const std::string& file);

// What a rank did in one exchange of its group.
struct FlightTurn {
  int64_t rank = 0;
  const Flight* flight = nullptr;      // null: no file of this rank
  const FlightEntry* entry = nullptr;  // null: it did not come, or its file no longer says
  const FlightEntry* last = nullptr;   // where it did not come: what it did last, in whatever group
  bool forgotten = false;
};

// The first exchange in which ranks did not all do the same to the end.
struct FlightSplit {
  std::string ranks, op;
  int64_t meeting = 0;
  std::string what;  // "rank 1 did not come"
  std::vector<FlightTurn> turns;
};
// Exchanges are looked at in the order in which ranks began them. Throws Error if the flights are not of
// different ranks of one case. Points into `flights`.
std::optional<FlightSplit> split_of(const std::vector<Flight>& flights);

// For people: "exchange 3 of ranks 0,1, all_gather: rank 1 did not come", and below a line for each rank.
std::string describe(const FlightSplit& split);

}  // namespace lockstep
