// SPDX-License-Identifier: Apache-2.0
// lockstep show flight FILE…
#include <fstream>
#include <iterator>

#include "ci/program/show.h"
#include "engine/values/error.h"
#include "engine/world/flight_log.h"

namespace lockstep::program {
namespace {

using Json = nlohmann::json;

Flight read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  LOCKSTEP_CHECK(in.good(), "[show flight] cannot read ", path);
  return parse_flight({std::istreambuf_iterator<char>(in), {}}, path);
}

Json to_json(const FlightEntry* e) {
  if (e == nullptr) return nullptr;
  return {{"number", e->number},     {"exchange", e->meeting}, {"ranks", e->ranks},      {"op", e->op},
          {"state", name(e->state)}, {"entry", e->entry},      {"asker", e->asker},      {"sends", e->sends},
          {"expects", e->expects},   {"sent", e->sent},        {"received", e->received}};
}

Json to_json(const FlightSplit& split) {
  Json turns = Json::array();
  for (const auto& turn : split.turns)
    turns.push_back({{"rank", turn.rank},
                     {"file", turn.flight != nullptr},
                     {"did", to_json(turn.entry)},
                     {"last", to_json(turn.last)},
                     {"forgotten", turn.forgotten}});
  return {{"exchange", split.meeting},
          {"ranks", split.ranks},
          {"op", split.op},
          {"what", split.what},
          {"turns", turns}};
}

}  // namespace

Shown show_flight(const ShowRequest& request) {
  std::vector<Flight> flights;
  for (const auto& path : request.files) flights.push_back(read(path));
  const auto split = split_of(flights);
  std::string text = split ? concat("ranks part in ", describe(*split))
                           : concat("ranks do not part in what these ", flights.size(), " files say");
  Json ranks = Json::array();
  for (const auto& f : flights) {
    text += concat("\nrank ", f.rank, " of ", f.ranks, ": ", f.begun, " exchanges begun");
    if (!f.entries.empty())
      text += concat(", the last ", f.entries.back().op, ", ", name(f.entries.back().state));
    Json entries = Json::array();
    for (const auto& e : f.entries) entries.push_back(to_json(&e));
    ranks.push_back(
        {{"rank", f.rank}, {"ranks", f.ranks}, {"where", f.where}, {"begun", f.begun}, {"did", entries}});
  }
  const auto& token = flights.front().token;
  if (!token.empty()) text += concat("\ncase ", token);
  return {text, {{"case", token}, {"split", split ? to_json(*split) : Json()}, {"flights", ranks}}};
}

}  // namespace lockstep::program
