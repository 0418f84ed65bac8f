// SPDX-License-Identifier: Apache-2.0
// Rewriter: copies a Program call by call, with more calls in between, and keeps track of which value became
// which.
#pragma once
#include "suites/faults/wrap.h"

namespace lockstep::suites {

class Rewriter {
 public:
  explicit Rewriter(const oracle::Case& c) {
    out_.c = c;
    out_.c.program.calls.clear();
    for (size_t i = 0; i < c.program.inputs.size(); ++i) add_old(next_++);
  }

  // The number in the new program of a value of the old one.
  int64_t now(oracle::Ref old) const { return values_.at(static_cast<size_t>(old.id)); }
  // A call of one result that the old program does not have; its arguments are new numbers. Returns the
  // result.
  oracle::Ref insert(const std::string& op, std::vector<oracle::Arg> args) {
    out_.c.program.calls.push_back({op, std::move(args), 1});
    return {next_++};
  }
  // From here on, uses of the old value mean this new one.
  void replace_uses(oracle::Ref old, oracle::Ref by) { uses_[static_cast<size_t>(old.id)] = by.id; }
  // The old value is this new one, here and at the end.
  void become(oracle::Ref old, oracle::Ref by) {
    replace_uses(old, by);
    values_[static_cast<size_t>(old.id)] = by.id;
  }
  // The arguments of an old call in new numbers.
  std::vector<oracle::Arg> arguments(oracle::Call call) const {
    oracle::each_ref(call, [&](oracle::Ref& ref) {
      if (ref.id >= 0) ref.id = uses_.at(static_cast<size_t>(ref.id));
    });
    return std::move(call.args);
  }
  // The next call of the old program, as it is or with other arguments.
  void copy(const oracle::Call& call) { copy(call, arguments(call)); }
  void copy(const oracle::Call& call, std::vector<oracle::Arg> arguments) {
    out_.c.program.calls.push_back({call.op, std::move(arguments), call.results});
    for (int64_t i = 0; i < call.results; ++i) add_old(next_++);
  }
  Rewritten finish() && {
    out_.values = values_;
    return std::move(out_);
  }

 private:
  void add_old(int64_t number) {
    values_.push_back(number);
    uses_.push_back(number);
  }
  Rewritten out_;
  std::vector<int64_t> values_, uses_;  // by old number
  int64_t next_ = 0;
};

}  // namespace lockstep::suites
