// SPDX-License-Identifier: Apache-2.0
#include "suites/faults/rewrite.h"

namespace lockstep::suites {

Rewriter::Rewriter(const oracle::Case& c) {
  out_.c = c;
  out_.c.program.calls.clear();
  for (size_t i = 0; i < c.program.inputs.size(); ++i) add_old(static_cast<int64_t>(i));
  next_ = std::ssize(c.program.inputs);
}

void Rewriter::add_old(int64_t number) {
  values_.push_back(number);
  uses_.push_back(number);
}

oracle::Ref Rewriter::insert(const std::string& op, std::vector<oracle::Arg> args) {
  out_.c.program.calls.push_back({op, std::move(args), 1});
  return {next_++};
}

std::vector<oracle::Arg> Rewriter::arguments(oracle::Call call) const {
  oracle::each_ref(call, [&](oracle::Ref& ref) {
    if (ref.id >= 0) ref.id = uses_.at(static_cast<size_t>(ref.id));
  });
  return std::move(call.args);
}

void Rewriter::copy(const oracle::Call& call, std::vector<oracle::Arg> arguments) {
  out_.c.program.calls.push_back({call.op, std::move(arguments), call.results});
  for (int64_t i = 0; i < call.results; ++i) add_old(next_++);
}

Rewritten Rewriter::finish() && {
  out_.values = values_;
  return std::move(out_);
}

}  // namespace lockstep::suites
