// SPDX-License-Identifier: Apache-2.0
#include "suites/faults/touches.h"

#include <algorithm>

#include "generators/random/random_ops.h"

namespace lockstep::suites {
namespace {

template <class Predicate>
bool any_call(const oracle::Case& c, Predicate predicate) {
  return std::any_of(c.program.calls.begin(), c.program.calls.end(), predicate);
}

bool partial_in(const oracle::Target& target) {
  return std::any_of(target.placements.begin(), target.placements.end(),
                     [](const Placement& p) { return is_partial(p); });
}

}  // namespace

bool calls(const oracle::Case& c, std::string_view name) {
  return any_call(c, [&](const oracle::Call& call) {
    auto base = std::string_view(call.op).substr(0, call.op.find('.'));
    if (base.ends_with('_')) base.remove_suffix(1);
    return base == name;
  });
}

bool mentions(const oracle::Case& c, std::string_view stem) {
  return any_call(c, [&](const oracle::Call& call) { return call.op.find(stem) != std::string::npos; });
}

bool has_backward(const oracle::Case& c) {
  return any_call(c, [](const oracle::Call& call) { return call.op == "lockstep::backward"; });
}

bool has_partial(const oracle::Case& c) {
  if (std::any_of(c.placements.begin(), c.placements.end(), partial_in)) return true;
  return any_call(c, [](const oracle::Call& call) {
    return std::any_of(call.args.begin(), call.args.end(), [](const oracle::Arg& arg) {
      const auto* target = std::get_if<oracle::Target>(&arg);
      return target != nullptr && partial_in(*target);
    });
  });
}

bool has_random(const oracle::Case& c) {
  return any_call(c, [](const oracle::Call& call) { return generators::find_random_op(call.op) != nullptr; });
}

bool many_ranks(const oracle::Case& c) {
  return c.mesh.size() > 1;
}

}  // namespace lockstep::suites
