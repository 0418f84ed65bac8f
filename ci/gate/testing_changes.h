// SPDX-License-Identifier: Apache-2.0
// What the gate's tests change in a run that is otherwise as its baseline, and what each is called: cases
// that fail, come out worse or are given up.
#pragma once
#include <functional>

#include "ci/gate/testing.h"

namespace lockstep::gate::testing {

struct Change {
  const char* what;
  std::function<void(Story&)> apply;
  Lines expected;
  std::set<int> codes;
};

// So many more cases of `ops` that gave up, of 80 more cases.
inline void refuse(Recorded& run, int64_t cases) {
  for (int64_t i = 0; i < 80; ++i) {
    CaseRow row = i < cases ? sample_case(2000 + i, Verdict::kGaveUp) : sample_case(1000 + i);
    if (i < cases) row.refusal = {"aten::t", "view"};
    run.cases.push_back(row);
  }
}

inline const Change kFailures[] = {
    {"a new difference",
     [](Story& s) { s.candidate.cases[0] = failing(0); },
     {"new_difference: " + kBucket + " (block)"},
     {1}},
    {"two cases of one bucket",
     [](Story& s) { s.candidate.cases[0] = failing(0), s.candidate.cases[2] = failing(2); },
     {"new_difference: " + kBucket + " (block)"},
     {1}},
    {"a difference on both sides",
     [](Story& s) { s.base.cases[0] = s.candidate.cases[0] = failing(0); },
     {"known_difference: " + kBucket + " (block)"},
     {1}},
    {"a mended difference", [](Story& s) { s.base.cases[0] = failing(0); }, {}, {}},
    {"a crash",
     [](Story& s) { s.candidate.cases[0] = failing(0, Verdict::kCrashed); },
     {"crash: ops | crashed | aten::mm | S | f32 (block)"},
     {1}},
    {"a hang",
     [](Story& s) { s.candidate.cases[0] = failing(0, Verdict::kHung); },
     {"hang: ops | hung | aten::mm | S | f32 (block)"},
     {1}},
    {"a flaky case",
     [](Story& s) { s.candidate.cases[0] = failing(0, Verdict::kNondeterministic); },
     {"nondeterminism: ops | nondeterministic | aten::mm | S | f32 (block)"},
     {6}},
    {"the same case in two ways",
     [](Story& s) { s.candidate.cases.push_back(sample_case(0, Verdict::kExplained)); },
     {"worse_verdict: ops | aten::mm | equal -> explained (block)", "nondeterminism: ops: v1:case-0 (block)"},
     {1, 6}},
    {"the same binary, another outcome",
     [](Story& s) {
       s.candidate.run.build_hash = s.base.run.build_hash;
       s.candidate.cases[5] = sample_case(5);
       s.candidate.cases[5].suite = "gradient";
     },
     {"nondeterminism: gradient: v1:case-5 (block)"},
     {6}},
    {"a broken harness",
     [](Story& s) { s.candidate.cases[0] = failing(0, Verdict::kBroken); },
     {"harness_error: ops | broken | aten::mm | S | f32 (block)"},
     {3}},
    {"a golden",
     [](Story& s) {
       CaseRow row = failing(200);
       row.suite = "golden";
       s.candidate.cases.push_back(row);
     },
     {"golden_mismatch: " + kBucket + " (block)"},
     {1}},
};

// So many of the 30 of aten::mm.
inline void explain(Recorded& side, int64_t cases) {
  for (int64_t i = 0; i < cases; ++i)
    side.cases[static_cast<size_t>(2 * i)] = sample_case(2 * i, Verdict::kExplained);
}

// Another draw, in which 20 cases of aten::mul are explained that were equal, each with a change of its own.
inline void scatter(Story& s, const std::function<void(CaseRow&, int64_t)>& change) {
  s.candidate.run.seed = 8;
  for (int64_t i = 0; i < 20; ++i)
    for (auto* side : {&s.base, &s.candidate}) {
      CaseRow row = sample_case(3000 + i, side == &s.base ? Verdict::kEqual : Verdict::kExplained);
      row.coverage = {{"aten::mul", "R", 1, "even", row.verdict}};
      change(row, i);
      side->cases.push_back(row);
    }
}

// Cases that come out worse.
inline const Change kVerdicts[] = {
    {"equal becomes explained",
     [](Story& s) { s.candidate.cases[0] = sample_case(0, Verdict::kExplained); },
     {"worse_verdict: ops | aten::mm | equal -> explained (block)"},
     {1}},
    {"equal becomes bounded",
     [](Story& s) { s.candidate.cases[0] = sample_case(0, Verdict::kBounded); },
     {"worse_verdict: ops | aten::mm | equal -> bounded (block)"},
     {1}},
    {"the same cases move more",
     [](Story& s) { s.candidate.cases[0].bytes_moved += 8; },
     {"moved_more: ops (block)"},
     {1}},
    {"the same cases move less", [](Story& s) { s.candidate.cases[0].bytes_moved -= 8; }, {}, {}},
    {"one case more, which moves",
     [](Story& s) {
       s.candidate.cases.push_back(sample_case(200));
       s.candidate.cases.back().bytes_moved = 800;
     },
     {},
     {}},
    {"explained becomes equal",
     [](Story& s) {
       s.candidate.cases[5].verdict = Verdict::kEqual;
       s.candidate.cases[5].coverage[0].verdict = Verdict::kEqual;
     },
     {},
     {}},
    {"another draw explains some more",
     [](Story& s) { s.candidate.run.seed = 8, explain(s.candidate, 8); },
     {},
     {}},
    {"another draw explains far more",
     [](Story& s) { s.candidate.run.seed = 8, explain(s.candidate, 9); },
     {"explained_more: ops | aten::mm | S0,R (block)"},
     {1}},
    {"another draw explains an op that has one case on each placement",
     [](Story& s) {
       scatter(s, [](CaseRow& row, int64_t i) { row.coverage[0].placement = concat("S", i); });
     },
     {"explained_more: ops | aten::mul (block)"},
     {1}},
    {"another draw explains an op that has one case in each suite",
     [](Story& s) { scatter(s, [](CaseRow& row, int64_t i) { row.suite = concat("suite", i); }); },
     {"explained_more: aten::mul (block)"},
     {1}},
    {"another draw explains ops that have one case each",
     [](Story& s) {
       scatter(s, [](CaseRow& row, int64_t i) { row.coverage[0].op = concat("aten::op", i); });
     },
     {"explained_more: ops (block)"},
     {1}},
    {"equal is given up",
     [](Story& s) { s.candidate.cases[0] = sample_case(0, Verdict::kGaveUp); },
     {"no_longer_judged: ops | equal -> gave_up (block)"},
     {5}},
};

// Cases that are given up.
inline const Change kRefusals[] = {
    {"an op gives up one case more",
     [](Story& s) { refuse(s.base, 2), refuse(s.candidate, 3); },
     {"refuses_more: ops | aten::t | view (block)"},
     {5}},
    {"another draw gives up ops once each",
     [](Story& s) {
       s.candidate.run.seed = 8;
       refuse(s.base, 0), refuse(s.candidate, 12);
       for (int64_t i = 0; CaseRow & row : s.candidate.cases)
         if (row.refusal) row.refusal->op = concat("aten::op", i++);
     },
     {"refuses_more: ops | view (block)"},
     {5}},
    {"as many cases are given up", [](Story& s) { refuse(s.base, 3), refuse(s.candidate, 3); }, {}, {}},
    {"fewer cases are given up", [](Story& s) { refuse(s.base, 3), refuse(s.candidate, 2); }, {}, {}},
    {"another draw gives up some more",
     [](Story& s) { s.candidate.run.seed = 8, refuse(s.base, 0), refuse(s.candidate, 7); },
     {},
     {}},
    {"another draw gives up far more",
     [](Story& s) { s.candidate.run.seed = 8, refuse(s.base, 0), refuse(s.candidate, 8); },
     {"refuses_more: ops | aten::t | view (block)"},
     {5}},
    {"a larger draw gives up in proportion",
     [](Story& s) {
       refuse(s.base, 8), refuse(s.candidate, 24);
       for (int64_t i = 200; i < 400; ++i) s.candidate.cases.push_back(sample_case(i));
     },
     {},
     {}},
    {"a baseline that did not count refusals",
     [](Story& s) { s.base.run.version = "", refuse(s.candidate, 3); },
     {},
     {}},
};

}  // namespace lockstep::gate::testing
