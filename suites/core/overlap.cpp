// SPDX-License-Identifier: Apache-2.0
#include "suites/core/overlap.h"

#include "oracle/program/statements.h"

namespace lockstep::suites {
namespace {

constexpr const char* kOption = "overlap";

}  // namespace

const char* name(Overlap overlap) {
  constexpr const char* kNames[] = {"none", "reversed", "never", "written"};
  return kNames[static_cast<size_t>(overlap)];
}

Overlap overlap_of(const oracle::Case& c) {
  if (const auto found = c.options.find(kOption); found != c.options.end())
    for (const auto overlap : kOverlaps)
      if (found->second == name(overlap)) return overlap;
  return Overlap::kNone;
}

oracle::Case overlapping(oracle::Case c, Overlap overlap) {
  c.options[kOption] = name(overlap);
  return c;
}

std::vector<Begun> begun_by(const oracle::Program& program) {
  std::vector<Begun> all;
  int64_t next = std::ssize(program.inputs);
  for (const auto& call : program.calls) {
    oracle::each_ref(call, [&](const oracle::Ref& ref) {
      for (auto& one : all) one.mentioned |= one.result == ref.id;
    });
    if (call.op == oracle::kRedistribute)
      all.push_back({std::get<oracle::Ref>(call.args.at(0)).id, next, false});
    next += call.results;
  }
  return all;
}

}  // namespace lockstep::suites
