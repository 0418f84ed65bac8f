// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/localize.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "ci/curves/hash_log.h"
#include "engine/values/error.h"

namespace lockstep::curves {
namespace {

using Entries = std::span<const HashEntry>;

// In the order in which they win at one position.
enum class What { kSequence, kMissing, kInput, kOutput };
constexpr const char* kNames[] = {"sequence", "missing", "input", "output"};

struct Found {
  int64_t position = 0;
  What what = What::kOutput;
  int64_t rank = 0;
  const HashEntry *expected = nullptr, *got = nullptr;  // null: nothing stands there
  bool extra = false;                                   // sequence: the candidate has one op more
  auto order() const { return std::tie(position, what, rank); }
};

bool same_op(const HashEntry& a, const HashEntry& b) {
  return a.op == b.op && a.phase == b.phase;
}

// How many entries after the first until one is the op; kLookAhead: not among the next.
size_t until(Entries entries, size_t from, const HashEntry& op) {
  size_t n = 0;
  while (n < kLookAhead && (from + n >= entries.size() || !same_op(entries[from + n], op))) ++n;
  return n;
}

std::optional<Found> first_of_rank(Entries expected, Entries got, int64_t& compared) {
  for (size_t i = 0; i < std::max(expected.size(), got.size()); ++i) {
    const auto* e = i < expected.size() ? &expected[i] : nullptr;
    const auto* g = i < got.size() ? &got[i] : nullptr;
    Found found{.position = static_cast<int64_t>(i), .rank = (e ? e : g)->rank, .expected = e, .got = g};
    if (e == nullptr || g == nullptr) {
      found.what = g == nullptr ? What::kMissing : What::kSequence;
      found.extra = e == nullptr;
      return found;
    }
    ++compared;
    if (!same_op(*e, *g)) {
      const auto added = until(got, i, *e), lost = until(expected, i, *g);
      found.what = lost < added ? What::kMissing : What::kSequence;
      found.extra = added < lost;
      return found;
    }
    if (e->has_inputs && g->has_inputs && e->inputs != g->inputs)
      found.what = What::kInput;
    else if (e->outputs == g->outputs)
      continue;
    return found;
  }
  return std::nullopt;
}

// The entries of one rank. @pre sorted by rank
Entries of_rank(const std::vector<HashEntry>& entries, int64_t rank) {
  const auto [from, to] =
      std::equal_range(entries.begin(), entries.end(), HashEntry{.rank = rank},
                       [](const HashEntry& a, const HashEntry& b) { return a.rank < b.rank; });
  return {from, to};
}

std::optional<Found> first_of_step(const std::vector<HashEntry>& expected, const std::vector<HashEntry>& got,
                                   int64_t& compared) {
  std::vector<int64_t> ranks;
  for (const auto* side : {&expected, &got})
    for (const auto& entry : *side) ranks.push_back(entry.rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::optional<Found> first;
  for (const auto rank : ranks) {
    const auto found = first_of_rank(of_rank(expected, rank), of_rank(got, rank), compared);
    if (found && (!first || found->order() < first->order())) first = found;
  }
  return first;
}

struct Two {
  Names names{};
  HashLog reference, candidate;
  Two(const std::string& a, const std::string& b) : reference(a, names), candidate(b, names) {}

  std::string op(const HashEntry& entry) const {
    const auto& phase = names.at(entry.phase);
    return names.at(entry.op) + (phase.empty() ? "" : " (" + phase + ")");
  }
};

// The first place at which two lists differ, as "output 1: 3fa9…"; where one is longer, its length.
std::pair<std::string, std::string> differing(const std::string& what, const std::vector<std::string>& a,
                                              const std::vector<std::string>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] != b[i]) return {concat(what, " ", i, ": ", a[i]), concat(what, " ", i, ": ", b[i])};
  return {concat(a.size(), " ", what, "s"), concat(b.size(), " ", what, "s")};
}

void describe(const Two& two, const Found& f, int64_t step, Localized& out) {
  auto& row = out.row;
  row.step = step;
  row.position = f.position;
  row.rank = f.rank;
  row.what = kNames[static_cast<size_t>(f.what)];
  row.op = two.op(f.expected ? *f.expected : *f.got);
  const auto at = concat("step ", step, ", position ", f.position, ", rank ", f.rank);
  if (f.what == What::kInput || f.what == What::kOutput) {
    const auto a = two.reference.digests(*f.expected), b = two.candidate.digests(*f.got);
    const bool input = f.what == What::kInput;
    std::tie(row.expected, row.got) =
        input ? differing("input", a.inputs, b.inputs) : differing("output", a.outputs, b.outputs);
    const bool known = f.expected->has_inputs && f.got->has_inputs;
    out.text =
        concat(row.op, " at ", at, ": ", row.expected, " in the reference, ", row.got, " in the candidate. ",
               input   ? "Every op before it on this rank agrees: what changed the input was not logged."
               : known ? "Its inputs agree: the op itself is at fault."
                       : "Inputs were not logged: the op is the first that shows the difference.");
    return;
  }
  row.expected = f.expected ? two.op(*f.expected) : "the end of the step";
  row.got = f.got ? two.op(*f.got) : "the end of the step";
  out.text = concat("at ", at, " the reference has ", row.expected, ", the candidate ", row.got, ": ",
                    f.what == What::kMissing ? concat(row.op, " is missing.")
                    : f.extra                ? concat(row.got, " was added.")
                                             : "another op ran.");
}

// A step of the reference that the candidate skipped, or the other way round, between steps that both have.
void describe_step(const Two& two, const HashEntry& entry, bool lost, Localized& out) {
  out.row.step = entry.step;
  out.row.position = 0;
  out.row.rank = entry.rank;
  out.row.op = two.op(entry);
  out.row.what = kNames[static_cast<size_t>(lost ? What::kMissing : What::kSequence)];
  out.row.expected = lost ? out.row.op : "no such step";
  out.row.got = lost ? "no such step" : out.row.op;
  out.text = concat("step ", entry.step, " is in the ", lost ? "reference" : "candidate",
                    " alone, between steps that both have.");
}

// Steps that one side has alone before the first or after the last common one.
struct Alone {
  int64_t reference = 0, candidate = 0;
};

void note(Localized& out, const Alone& alone, const char* when) {
  for (const auto& [side, n] : {std::pair{"reference", alone.reference}, {"candidate", alone.candidate}})
    if (n > 0) out.notes.push_back(concat(n, " steps ", when, " are in the ", side, " alone: not compared"));
}

}  // namespace

Localized localize(const std::string& reference, const std::string& candidate) {
  Two two(reference, candidate);
  Localized out;
  out.row.reference = reference;
  out.row.curve = candidate;
  Alone before, since;
  std::optional<HashEntry> skipped;  // first entry of the first step alone since the last common one
  bool skipped_reference = false;
  while (!out.row.step) {
    const auto a = two.reference.next_step(), b = two.candidate.next_step();
    if (!a && !b) break;
    if (a && b && *a == *b) {
      if (skipped) {
        describe_step(two, *skipped, skipped_reference, out);
        break;
      }
      const auto expected = two.reference.take_step(), got = two.candidate.take_step();
      ++out.steps;
      if (const auto found = first_of_step(expected, got, out.row.compared)) describe(two, *found, *a, out);
      continue;
    }
    const bool lost = a && (!b || *a < *b);
    const auto entries = (lost ? two.reference : two.candidate).take_step();
    auto& alone = out.steps == 0 ? before : since;
    (lost ? alone.reference : alone.candidate) += 1;
    if (out.steps > 0 && !skipped) skipped = entries.front(), skipped_reference = lost;
  }
  note(out, before, "before the first common one");
  if (!out.row.step) note(out, since, "after the last common one");
  for (const auto* log : {&two.reference, &two.candidate})
    out.notes.insert(out.notes.end(), log->notes().begin(), log->notes().end());
  if (!out.row.step && out.steps > 0)
    out.text = concat("all ", out.row.compared, " entries of ", out.steps, " common steps agree.");
  if (out.steps == 0) out.text = "the two logs have no step in common: nothing was compared.";
  return out;
}

}  // namespace lockstep::curves
