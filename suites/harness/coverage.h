// SPDX-License-Identifier: Apache-2.0
// What the cases of a run must have had: labels (generators/cases/labels.h), and pairs of the ledger, each at
// least so often. A run that found nothing wrong where it did not look is not green.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/store/store.h"

namespace lockstep::suites {

// Name -> least. A name is a label, "optimizer", an op, "aten::mm", an argument that is not its default,
// "aten::sum(dtype)" (generators/cases/arguments.h), a row of a rule and how it was come to,
// "aten::mm[S0,R>S0]stood" (suites/core/facts.h), a statement, "statement item", a refusal, "refused: view",
// or a pair of two axes of the ledger, "A/B", where each side is an op, a kind of placement (R, S, I, P), a
// mesh rank ("mesh-2d") or even, uneven, empty. A case counts for a pair once for each op that it runs on
// both.
using Leasts = std::map<std::string, int64_t>;

// The list of a file, one "NAME=LEAST" a line. Throws Error that names file and line.
Leasts read_leasts(const std::string& file);
// What the default plan requires: the committed list golden/coverage.txt, or that which the environment's
// LOCKSTEP_COVERAGE names. Nothing of the engine is asked what there is to cover.
const Leasts& default_leasts();
// "NAME=LEAST". Throws Error for a name that can never be met.
std::pair<std::string, int64_t> parse_least(const std::string& text);
bool is_pair(const std::string& name);
bool is_op(const std::string& name);
bool is_argument(const std::string& name);
bool is_row(const std::string& name);

// Ops with a rule that no case can call, and why: the one exception to what a run must cover.
struct Uncalled {
  std::string_view op, reason;
};
std::span<const Uncalled> uncalled();
// Why no case calls this overload, though its op has a rule; empty if none of the reasons holds.
std::string_view why_not_generated(const std::string& overload);

struct Lacking {
  std::string name;
  int64_t least = 0, got = 0;
};
// Those of which the run has fewer, in order of name.
std::vector<Lacking> lacking(const dashboard::Store& store, const std::string& run, const Leasts& leasts);
// The rows that calls took in any run of the store, "aten::mm[S0,R>S0]", and the ways of each (kWays).
std::map<std::string, std::set<std::string>> taken_rows(const dashboard::Store& store);
// What there is to cover and the engine need not be asked for: labels, statements, refusals, arguments.
std::vector<std::string> all_names();
// "coverage: rows 177 of 177, arguments 212 of 212, …": of each kind of name how many had their least, of
// those demanded.
std::string text_of(const Leasts& demanded, const std::vector<Lacking>& lacking);
// "optimizer 3 of 100, S/mesh-2d 0 of 5"; "none" if nothing lacks.
std::string text_of(const std::vector<Lacking>& lacking);

}  // namespace lockstep::suites
