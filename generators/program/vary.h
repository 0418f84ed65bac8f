// SPDX-License-Identifier: Apache-2.0
// Other arguments for a call: read off the operator's schema, never off its name, so that no flag of any op
// stays at its default for want of somebody who thought of it. What plain libtorch refuses is no variation.
#pragma once
#include <c10/core/ScalarType.h>

#include <optional>
#include <vector>

#include "generators/program/trial.h"
#include "generators/space/random.h"
#include "generators/space/shapes.h"

namespace lockstep::generators {

// A call with one argument changed. `given`: the argument is now a tensor, still to be made: the place, and
// what it must be. Nullopt if there is nothing to change.
struct Variation {
  struct Given {
    size_t arg;
    c10::ScalarType dtype;
    Shape shape;
  };
  oracle::Call call;
  std::optional<Given> given = std::nullopt;
};

// @param call all of its arguments, defaults written out.
// @param exact only what leaves the magnitude of the result as it is: dimensions counted from the end.
std::optional<Variation> vary(Random& random, const oracle::Call& call, const Lookup& lookup, bool exact);

// Another value of argument i, which is no tensor; nullopt if there is none to draw. @pre is_value
std::optional<oracle::Arg> other_value(Random& random, const oracle::Call& call, size_t i,
                                       const Lookup& lookup);
// Whether argument i is no tensor, nor one of those of which one value alone is of use.
bool is_value(const std::string& op, size_t i);

// The arguments that vary() may change, by their place: those with a default, and dimensions.
std::vector<size_t> variable_arguments(const std::string& op);
// Whether argument i may be left out, or be None.
bool may_stay_default(const std::string& op, size_t i);
bool is_dimension(const std::string& op, size_t i);
// Whether argument i is something else than the schema's default, or than None. @pre may_stay_default
bool differs_from_default(const oracle::Call& call, size_t i);

}  // namespace lockstep::generators
