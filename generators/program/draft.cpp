// SPDX-License-Identifier: Apache-2.0
#include "generators/program/draft.h"

#include "engine/values/error.h"
#include "generators/program/trial.h"
#include "oracle/program/schema.h"

namespace lockstep::generators {

using oracle::Arg;
using oracle::Ref;

Ref Draft::input(oracle::Input input, oracle::Target target) {
  program_.inputs.push_back(std::move(input));
  placements_.push_back(std::move(target));
  return {std::ssize(program_.inputs) - 1};
}

Ref Draft::call(const char* op, std::vector<Arg> args, int64_t results) {
  const bool own = oracle::is_own(op);
  program_.calls.push_back({op, own ? std::move(args) : with_defaults(op, std::move(args)), results});
  results_ += results;
  return {kResults + results_ - results};
}

Ref Draft::make(const char* op, std::vector<Arg> args, const oracle::Target& target) {
  const auto& schema = oracle::find_operator(op).args;
  args = with_defaults(op, std::move(args));
  for (size_t i = 0; i < schema.size(); ++i)
    if (schema[i].name == "device") args[i] = target;
  return call(op, std::move(args));
}

oracle::Case Draft::finish(const char* suite, uint64_t seed) && {
  const auto inputs = std::ssize(program_.inputs);
  for (auto& call : program_.calls)
    oracle::each_ref(call, [&](Ref& ref) {
      if (ref.id >= kResults) ref.id += inputs - kResults;
    });
  oracle::Case made;
  made.suite = suite;
  made.program = std::move(program_);
  made.program.seed = seed;
  made.mesh = mesh_;
  made.placements = std::move(placements_);
  made.device = device_;
  return made;
}

}  // namespace lockstep::generators
