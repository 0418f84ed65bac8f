// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/witnesses.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "dashboard/store/read_back.h"
#include "dashboard/store/store.h"
#include "engine/values/error.h"
#include "generators/cases/labels.h"
#include "oracle/program/program.h"

namespace lockstep::suites {
namespace {

using dashboard::KeptCase;
using Pairs = std::set<std::pair<std::string, std::string>>;  // suite, boundary label

// @return what of `pairs` a case adds, none if this version cannot read it: whoever replays it will tell.
Pairs missing(const Pairs& pairs, const std::string& suite, const std::string& token) {
  Pairs more;
  try {
    const auto labels = generators::labels(oracle::parse_token(token));
    for (const char* label : boundary_labels())
      if (std::binary_search(labels.begin(), labels.end(), label) && !pairs.contains({suite, label}))
        more.emplace(suite, label);
  } catch (const Error&) {
  }
  return more;
}

std::string note_of(const Pairs& pairs) {
  std::string note;
  for (const auto& [suite, label] : pairs) note += (note.empty() ? "first with " : ", ") + label;
  return note;
}

bool slower(const KeptCase& a, const KeptCase& b) {
  return std::tuple(-a.time_ns, a.token.size(), a.token) < std::tuple(-b.time_ns, b.token.size(), b.token);
}

// One of each token, with the shortest time in which it was seen: a single slow moment of a machine heals.
std::vector<KeptCase> slowest(std::vector<KeptCase> all) {
  std::sort(all.begin(), all.end(), [](const KeptCase& a, const KeptCase& b) {
    return std::tie(a.token, a.time_ns, a.since_ms) < std::tie(b.token, b.time_ns, b.since_ms);
  });
  const auto same = [](const KeptCase& a, const KeptCase& b) { return a.token == b.token; };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  std::sort(all.begin(), all.end(), slower);
  if (std::ssize(all) > kSlowKept) all.resize(kSlowKept);
  return all;
}

std::vector<KeptCase> take(std::vector<KeptCase>& from, std::string_view origin) {
  const auto at =
      std::stable_partition(from.begin(), from.end(), [&](const auto& k) { return k.origin != origin; });
  std::vector<KeptCase> taken(std::make_move_iterator(at), std::make_move_iterator(from.end()));
  from.erase(at, from.end());
  return taken;
}

void add_boundary(const dashboard::Store& store, const dashboard::Run& run, const std::string& suite,
                  Pairs pairs, std::vector<KeptCase>& found) {
  for (const auto& c :
       dashboard::passed_cases(store, run.id, suite, dashboard::PassedOrder::kFirst, kBoundarySearched)) {
    const auto more = missing(pairs, suite, c.token);
    if (more.empty()) continue;
    found.push_back({c.token, suite, "", "boundary", run.started_ms, note_of(more)});
    pairs.insert(more.begin(), more.end());
  }
}

// Cases that are kept for another reason are replayed anyway: they leave no room for others.
void add_slow(const dashboard::Store& store, const dashboard::Run& run, const std::string& suite,
              const std::set<std::string>& others, std::vector<KeptCase>& slow) {
  const auto limit = kSlowKept + std::ssize(others);
  for (const auto& c : dashboard::passed_cases(store, run.id, suite, dashboard::PassedOrder::kSlowest, limit))
    if (!others.contains(c.token))
      slow.push_back({c.token, suite, "", "slow", run.started_ms, "", c.time_ns});
}

bool draws(const Suite& suite) {
  return !suite.self_check && suite.limit == kEndless;
}

}  // namespace

const std::vector<const char*>& boundary_labels() {
  static const std::vector<const char*> labels = {"empty-shard", "one-rank",       "size-0",
                                                  "size-1",      "special-values", "uneven"};
  return labels;
}

std::vector<KeptCase> thin_witnesses(std::vector<KeptCase> known) {
  auto boundary = take(known, "boundary");
  std::sort(boundary.begin(), boundary.end(), [](const KeptCase& a, const KeptCase& b) {
    return std::tuple(a.token.size(), a.token) < std::tuple(b.token.size(), b.token);
  });
  Pairs pairs;
  for (auto& k : boundary) {
    const auto more = missing(pairs, k.suite, k.token);
    pairs.insert(more.begin(), more.end());
    if (!more.empty()) known.push_back(std::move(k));
  }
  for (auto& k : slowest(take(known, "slow"))) known.push_back(std::move(k));
  return known;
}

std::vector<KeptCase> new_witnesses(const dashboard::Store& store, const dashboard::Run& run,
                                    const std::vector<const Suite*>& chosen, std::vector<KeptCase> known) {
  std::vector<KeptCase> slow = take(known, "slow"), found;
  std::set<std::string> slow_before, others;
  for (const auto& k : slow) slow_before.insert(k.token);
  Pairs pairs;
  for (const auto& k : known) {
    others.insert(k.token);
    if (k.origin == "boundary") pairs.merge(missing({}, k.suite, k.token));
  }
  for (const Suite* s : chosen)
    if (draws(*s)) add_boundary(store, run, s->name, pairs, found);
  for (const auto& k : found) others.insert(k.token);
  for (const Suite* s : chosen)
    if (draws(*s)) add_slow(store, run, s->name, others, slow);
  for (auto& k : slowest(std::move(slow)))
    if (!slow_before.contains(k.token)) found.push_back(std::move(k));
  return found;
}

}  // namespace lockstep::suites
