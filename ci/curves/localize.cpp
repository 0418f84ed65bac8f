// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/localize.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "ci/curves/align.h"
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
  // Of another sequence: how many ops of the reference are not there, how many others are instead; where they
  // stand on the other side, if they only moved. Not aligned: too many edits.
  int64_t lost = 0, added = 0;
  std::optional<int64_t> moved{};
  bool aligned = true;
  auto order() const { return std::tie(position, what, rank); }
};

bool same_op(const HashEntry& a, const HashEntry& b) {
  return a.op == b.op && a.phase == b.phase;
}

std::vector<uint64_t> ops_of(Entries entries) {
  std::vector<uint64_t> ops;
  for (const auto& e : entries) ops.push_back(uint64_t{e.op} << 32 | e.phase);
  return ops;
}

// Where the same run of ops stands on the other side, in a later hunk that has it alone.
std::optional<size_t> moved_to(std::span<const uint64_t> run, std::span<const uint64_t> other, bool removed,
                               std::span<const Hunk> later) {
  for (const auto& h : later) {
    const auto from = removed ? h.from_b : h.from_a, to = removed ? h.to_b : h.to_a;
    const auto here = other.subspan(from, to - from);
    if (std::equal(run.begin(), run.end(), here.begin(), here.end())) return from;
  }
  return std::nullopt;
}

// What became of the ops from `at` on, where both sides have another one. @pre what is before them agrees
void tell_sequences_apart(Entries expected, Entries got, Found& found) {
  const auto at = static_cast<size_t>(found.position);
  const auto a = ops_of(expected.subspan(at)), b = ops_of(got.subspan(at));
  found.what = What::kSequence;
  const auto hunks = align(a, b);
  found.aligned = hunks.has_value();
  if (!hunks) return;
  const auto& first = hunks->front();
  found.lost = static_cast<int64_t>(first.to_a - first.from_a);
  found.added = static_cast<int64_t>(first.to_b - first.from_b);
  const auto later = std::span(*hunks).subspan(1);
  std::optional<size_t> moved;
  if (found.added == 0)
    moved = moved_to(std::span(a).first(first.to_a), b, true, later);
  else if (found.lost == 0)
    moved = moved_to(std::span(b).first(first.to_b), a, false, later);
  if (moved) found.moved = found.position + static_cast<int64_t>(*moved);
  if (found.added == 0 && !moved) found.what = What::kMissing;
}

std::optional<Found> first_of_rank(Entries expected, Entries got, int64_t& compared) {
  for (size_t i = 0; i < std::max(expected.size(), got.size()); ++i) {
    const auto* e = i < expected.size() ? &expected[i] : nullptr;
    const auto* g = i < got.size() ? &got[i] : nullptr;
    Found found{.position = static_cast<int64_t>(i), .rank = (e ? e : g)->rank, .expected = e, .got = g};
    if (e != nullptr && g != nullptr) ++compared;
    if (e == nullptr || g == nullptr || !same_op(*e, *g)) {
      tell_sequences_apart(expected, got, found);
      return found;
    }
    if (e->inputs && g->inputs && *e->inputs != *g->inputs)
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
std::pair<std::string, std::string> differing(const char* what, const Digests& a, const Digests& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] != b[i]) return {concat(what, " ", i, ": ", a[i]), concat(what, " ", i, ": ", b[i])};
  return {concat(a.size(), " ", what, "s"), concat(b.size(), " ", what, "s")};
}

// "relu is missing", "1000 ops were added, relu the first", …
std::string what_happened(const Found& f, const dashboard::Divergence& row) {
  if (!f.aligned)
    return concat("another op ran, and the rest of the step is too different to be aligned (more than ",
                  kMostEdits, " edits).");
  const auto ops = [](int64_t n, const std::string& first, const char* one, const char* many) {
    return n == 1 ? concat(first, " ", one) : concat(n, " ops ", many, ", ", first, " the first");
  };
  if (f.moved)
    return concat(ops(f.lost + f.added, f.added == 0 ? row.expected : row.got, "was moved", "were moved"),
                  ": position ", *f.moved, f.added == 0 ? " in the candidate." : " in the reference.");
  if (f.added == 0) return ops(f.lost, row.expected, "is missing", "are missing") + ".";
  if (f.lost == 0) return ops(f.added, row.got, "was added", "were added") + ".";
  if (f.lost == 1 && f.added == 1) return "another op ran.";
  return concat("other ops ran, ", f.added, " instead of ", f.lost, ".");
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
    const bool input = f.what == What::kInput, known = f.expected->inputs && f.got->inputs;
    std::tie(row.expected, row.got) = input ? differing("input", *f.expected->inputs, *f.got->inputs)
                                            : differing("output", f.expected->outputs, f.got->outputs);
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
                    what_happened(f, row));
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
