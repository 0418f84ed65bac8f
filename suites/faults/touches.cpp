// SPDX-License-Identifier: Apache-2.0
// In which cases a fault can act at all.
#include <algorithm>

#include "engine/values/text.h"
#include "generators/random/random_ops.h"
#include "oracle/program/statements.h"
#include "suites/faults/tables.h"

namespace lockstep::suites {
namespace {

template <class Predicate>
bool any_call(const oracle::Case& c, Predicate predicate) {
  return std::any_of(c.program.calls.begin(), c.program.calls.end(),
                     [&](const oracle::Call& call) { return predicate(std::string_view(call.op)); });
}

}  // namespace

bool any(const oracle::Case&) {
  return true;
}
bool many_ranks(const oracle::Case& c) {
  return c.mesh.size() > 1;
}
bool has_backward(const oracle::Case& c) {
  return any_call(c, oracle::runs_backward);
}
bool has_random(const oracle::Case& c) {
  return any_call(c, [](std::string_view op) { return generators::find_random_op(op) != nullptr; });
}
bool writes(const oracle::Case& c) {
  return any_call(c, oracle::is_in_place);
}

Touches calls(std::string_view name) {
  return [name](const oracle::Case& c) {
    return any_call(c, [name](std::string_view op) {
      auto base = oracle::stem(op);
      if (base.ends_with('_')) base.remove_suffix(1);
      return base == name;
    });
  };
}

Touches mentions(std::string_view stems) {
  return [stems = split(stems, ' ')](const oracle::Case& c) {
    return any_call(c, [&](std::string_view op) {
      return std::any_of(stems.begin(), stems.end(),
                         [&](std::string_view stem) { return op.find(stem) != op.npos; });
    });
  };
}

Touches on_ranks(Touches touches) {
  return [touches = std::move(touches)](const oracle::Case& c) { return many_ranks(c) && touches(c); };
}

Touches pending_on_ranks(Touches touches) {
  return on_ranks([touches = std::move(touches)](const oracle::Case& c) {
    bool pends = false;
    oracle::each_target(c, [&](const oracle::Target& target) { pends |= has_partial(target); });
    return pends && touches(c);
  });
}

}  // namespace lockstep::suites
