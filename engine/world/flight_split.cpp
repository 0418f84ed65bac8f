// SPDX-License-Identifier: Apache-2.0
// Where the flights of several ranks part.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "engine/world/flight_log.h"

namespace lockstep {
namespace {

struct Key {
  std::string ranks;
  int64_t meeting = 0;
  auto operator<=>(const Key&) const = default;
};

// An exchange in the record: the least number that a rank began it as, how many ranks were at what asks for
// it as their exchange of that number, which of the ops in their order that is, and how many came.
struct Met {
  int64_t number = 0, together = 0, entry = 0, came = 0;
};
using Order = std::vector<std::pair<Met, Key>>;

// Which exchange of a rank, of what op.
using Stage = std::tuple<int64_t, int64_t, std::string, std::string>;
Stage stage_of(const FlightEntry& e) {
  return {e.number, e.entry, e.asker, e.op};
}

// Of those in one place nothing says which came first.
std::tuple<int64_t, int64_t, int64_t, int64_t> place(const Met& met) {
  return {met.number, -met.together, met.entry, -met.came};
}

// By number. Of two with the same number some ranks wait in one and some in the other, and the fewer have
// gone astray: where ranks left an exchange out they wait in another, of a later op, and for whom they ought
// to have met.
Order in_order(const std::vector<Flight>& flights) {
  std::map<Stage, int64_t> together;
  for (const auto& flight : flights)
    for (const auto& e : flight.entries) ++together[stage_of(e)];
  std::map<Key, Met> all;
  for (const auto& flight : flights) {
    int64_t nobody = -1;  // what no op asks for comes before the first of them, or behind the last
    for (const auto& e : flight.entries) {
      if (e.entry >= 0) nobody = std::numeric_limits<int64_t>::max();
      const int64_t entry = e.entry < 0 ? nobody : e.entry;
      auto& met = all.try_emplace(Key{e.ranks, e.meeting}, Met{e.number, 0, entry, 0}).first->second;
      met.number = std::min(met.number, e.number);
      met.together = std::max(met.together, together[stage_of(e)]);
      met.entry = std::min(met.entry, entry);
      ++met.came;
    }
  }
  Order order;
  for (const auto& [key, met] : all) order.emplace_back(met, key);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return place(a.first) < place(b.first); });
  return order;
}

FlightTurn turn_of(const std::vector<Flight>& flights, int64_t rank, const Key& key) {
  FlightTurn turn{.rank = rank};
  for (const auto& flight : flights)
    if (flight.rank == rank) turn.flight = &flight;
  if (turn.flight == nullptr) return turn;
  const auto& entries = turn.flight->entries;
  const bool whole = std::ssize(entries) == turn.flight->begun;
  bool later = false, any = whole;
  for (const auto& e : entries) {
    if (e.ranks != key.ranks) continue;
    any = true;
    later |= e.meeting > key.meeting;
    if (e.meeting == key.meeting) turn.entry = &e;
  }
  if (turn.entry != nullptr) return turn;
  turn.forgotten = later || !any;
  if (!entries.empty()) turn.last = &entries.back();
  return turn;
}

std::string asker(const FlightEntry& e) {
  const auto op = e.asker.empty() ? std::string("no op") : e.asker;
  return e.entry < 0 ? op : concat("op ", e.entry, " ", op);
}

// Of "0:f32[2x3] 1:f32[4]" what stands for a place; nothing where the text was cut.
std::optional<std::string> at_place(const std::string& list, int64_t place) {
  if (list.ends_with('~')) return std::nullopt;
  std::string found;
  const auto head = concat(place, ":");
  for (const auto part : split(list, ' '))
    if (part.starts_with(head)) found += concat(found.empty() ? "" : "+", part.substr(head.size()));
  return found;
}

// What each says, the one that most say last: "broadcast on rank 1, all_gather on ranks 0,2". "": all say the
// same.
template <class F>
std::string dissent(const std::vector<FlightTurn>& turns, const char* word, F&& says) {
  std::map<std::string, std::vector<int64_t>> by;
  for (const auto& turn : turns)
    if (turn.entry != nullptr) by[says(*turn.entry)].push_back(turn.rank);
  if (by.size() < 2) return "";
  std::vector<std::pair<std::string, std::vector<int64_t>>> sorted(by.begin(), by.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  auto text = concat(word, ": ");
  for (const auto& [what, ranks] : sorted)
    text += concat(&ranks == &sorted.front().second ? "" : ", ", what,
                   ranks.size() > 1 ? " on ranks " : " on rank ", join(ranks, ','));
  return text;
}

std::string misfit(const std::vector<FlightTurn>& turns) {
  for (size_t a = 0; a < turns.size(); ++a)
    for (size_t b = 0; b < turns.size(); ++b) {
      if (a == b || turns[a].entry == nullptr || turns[b].entry == nullptr) continue;
      const auto sent = at_place(turns[a].entry->sends, static_cast<int64_t>(b));
      const auto expected = at_place(turns[b].entry->expects, static_cast<int64_t>(a));
      if (!sent || !expected || *sent == *expected) continue;
      const auto shown = [](const std::string& text) { return text.empty() ? "nothing" : text; };
      return concat("rank ", turns[a].rank, " sends ", shown(*sent), ", and rank ", turns[b].rank,
                    " expects of it ", shown(*expected));
    }
  return "";
}

// "rank 1", "ranks 1,2"; "": all came.
std::string absent_ranks(const std::vector<FlightTurn>& turns) {
  std::vector<int64_t> ranks;
  for (const auto& turn : turns)
    if (turn.flight != nullptr && turn.entry == nullptr && !turn.forgotten) ranks.push_back(turn.rank);
  return ranks.empty() ? "" : concat(ranks.size() > 1 ? "ranks " : "rank ", join(ranks, ','));
}

std::string absent(const std::vector<FlightTurn>& turns) {
  const auto ranks = absent_ranks(turns);
  return ranks.empty() ? "" : ranks + " did not come";
}

std::vector<int64_t> without_file(const std::vector<FlightTurn>& turns) {
  std::vector<int64_t> ranks;
  for (const auto& turn : turns)
    if (turn.flight == nullptr) ranks.push_back(turn.rank);
  return ranks;
}

// Where all have begun it alike, and none waits, something else has stopped them.
std::string unfinished(const std::vector<FlightTurn>& turns) {
  const auto begun = [](const FlightTurn& turn) {
    return turn.entry != nullptr && turn.entry->state == FlightState::kBegun;
  };
  if (std::all_of(turns.begin(), turns.end(), begun)) return "";
  std::string text;
  for (const auto& turn : turns)
    if (turn.entry != nullptr && turn.entry->state != FlightState::kDone)
      text += concat(text.empty() ? "" : ", ", "rank ", turn.rank,
                     turn.entry->state == FlightState::kBegun ? " has begun it and does not wait for it"
                                                              : " waits for it");
  const auto lacking = without_file(turns);
  if (text.empty() || lacking.empty()) return text;
  return concat(text, "; there is no file of ", lacking.size() > 1 ? "ranks " : "rank ", join(lacking, ','));
}

bool any_is(const std::vector<FlightTurn>& turns, FlightState state) {
  return std::any_of(turns.begin(), turns.end(), [state](const FlightTurn& turn) {
    return turn.entry != nullptr && turn.entry->state == state;
  });
}

// Of exchanges in which ranks wait: one of whose ranks there is no file has lost them, one that a rank has
// begun and does not wait for lacks it, and one that some have left holds the others. Where all wait, and all
// came, it may be for what holds them in another; and so may a rank that others have left, whose process
// waits for all of its ranks.
int64_t tells(const std::vector<FlightTurn>& turns) {
  if (!without_file(turns).empty()) return 3;
  return any_is(turns, FlightState::kBegun) ? 2 : any_is(turns, FlightState::kDone);
}

// What the ranks of an exchange disagree in; "": nothing.
std::string disagreement(const std::vector<FlightTurn>& turns) {
  std::string text = dissent(turns, "not one exchange", [](const FlightEntry& e) { return e.op; });
  if (text.empty()) text = dissent(turns, "not for one op", asker);
  if (text.empty()) text = misfit(turns);
  return text.empty() ? absent(turns) : text;
}

void check(const std::vector<Flight>& flights) {
  std::set<int64_t> ranks;
  for (const auto& flight : flights) {
    LOCKSTEP_CHECK(flight.ranks == flights[0].ranks && flight.token == flights[0].token,
                   "[show flight] the files are of different runs: of ", flights[0].ranks, " and of ",
                   flight.ranks, " ranks, or of different cases");
    LOCKSTEP_CHECK(ranks.insert(flight.rank).second, "[show flight] two files are of rank ", flight.rank);
  }
}

std::string line(const FlightEntry& e) {
  const auto listed = [](const std::string& text) { return text.empty() ? "nothing" : text; };
  return concat(name(e.state), ", asked by ", asker(e), ", its exchange ", e.number, ", sends ",
                listed(e.sends), " (", e.sent, " bytes), expects ", listed(e.expects), " (", e.received,
                " bytes)");
}

// Of what a rank has begun before its last, what it has not left: where exchanges overlap it may have stopped
// at any of them.
std::string not_left(const FlightTurn& turn) {
  std::map<std::tuple<std::string, std::string, std::string>, std::string> numbers;  // by op, ranks, asker
  for (const auto& e : turn.flight->entries) {
    if (&e == turn.last || e.state == FlightState::kDone) continue;
    auto& meetings = numbers[{e.op, e.ranks, asker(e)}];
    meetings += concat(meetings.empty() ? "" : ",", e.meeting);
  }
  std::string text;
  for (const auto& [alike, meetings] : numbers) {
    const auto& [op, ranks, asks] = alike;
    text += concat(text.empty() ? "; nor has it left " : " and ", op, ", exchange ", meetings, " of ranks ",
                   ranks, ", asked by ", asks);
  }
  return text;
}

std::string line(const FlightTurn& turn) {
  if (turn.flight == nullptr) return "no file";
  if (turn.entry != nullptr) return concat(turn.entry->op, ", ", line(*turn.entry));
  if (turn.forgotten) return "its file no longer says";
  if (turn.last == nullptr) return "did not come; it came to none";
  return concat("did not come; its last is ", turn.last->op, ", exchange ", turn.last->meeting, " of ranks ",
                turn.last->ranks, ", ", name(turn.last->state), ", asked by ", asker(*turn.last),
                not_left(turn));
}

std::vector<FlightTurn> turns_of(const std::vector<Flight>& flights, const Key& key) {
  std::vector<FlightTurn> turns;
  for (const int64_t rank : parse_integers(key.ranks, ',').value_or(std::vector<int64_t>()))
    turns.push_back(turn_of(flights, rank, key));
  return turns;
}

// Whether those who did not come to the one are at the other.
bool awaits(const std::vector<FlightTurn>& one, const std::vector<FlightTurn>& other) {
  return std::all_of(one.begin(), one.end(), [&](const FlightTurn& turn) {
    return turn.entry != nullptr || std::any_of(other.begin(), other.end(), [&](const FlightTurn& it) {
             return it.rank == turn.rank && it.entry != nullptr;
           });
  });
}

// Where some wait in one exchange for those who wait in another of the same op, and as many for them, either
// may have been left out.
std::string or_another(const std::vector<Flight>& flights, const Order& order, size_t i,
                       const std::vector<FlightTurn>& mine) {
  for (size_t k = i + 1; k < order.size() && place(order[k].first) == place(order[i].first); ++k) {
    const auto& key = order[k].second;
    const auto turns = turns_of(flights, key);
    const auto ranks = absent_ranks(turns);
    if (!ranks.empty() && disagreement(turns) == absent(turns) && awaits(mine, turns) && awaits(turns, mine))
      return concat(", or ", ranks, " to exchange ", key.meeting, " of ranks ", key.ranks);
  }
  return "";
}

}  // namespace

std::optional<FlightSplit> split_of(const std::vector<Flight>& flights) {
  check(flights);
  // Who waits may do so for what ranks of another group disagree in, or for one that nobody can ask.
  // What nobody waits for has stopped nobody, and is told where nothing else is.
  std::optional<FlightSplit> waits, idle;
  int64_t number = 0;
  const auto order = in_order(flights);
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& [met, key] = order[i];
    if (waits && met.number > number) break;
    FlightSplit split{key.ranks, "", key.meeting, "", turns_of(flights, key)};
    if (split.turns.empty()) continue;  // more than the record had room for
    for (const auto& turn : split.turns)
      if (turn.entry != nullptr && split.op.empty()) split.op = turn.entry->op;
    split.what = disagreement(split.turns);
    if (!split.what.empty()) {
      if (split.what == absent(split.turns)) split.what += or_another(flights, order, i, split.turns);
      return split;
    }
    split.what = unfinished(split.turns);
    if (split.what.empty()) continue;
    if (!any_is(split.turns, FlightState::kWaited)) {
      if (!idle) idle = std::move(split);
      continue;
    }
    if (!waits) number = met.number;
    if (!waits || tells(split.turns) > tells(waits->turns)) waits = std::move(split);
  }
  return waits ? waits : idle;
}

std::string describe(const FlightSplit& split) {
  auto text = concat("exchange ", split.meeting, " of ranks ", split.ranks, ", ", split.op, ": ", split.what);
  for (const auto& turn : split.turns) {
    text += concat("\n  rank ", turn.rank, ": ", line(turn));
    if (turn.flight != nullptr && !turn.flight->where.empty()) text += concat("\n    ", turn.flight->where);
  }
  return text;
}

}  // namespace lockstep
