// SPDX-License-Identifier: Apache-2.0
// Law: each rank holds exactly the elements that cutting by brute force gives it, in that order, of the value
// or of its term; the locals together are the tensor.
#include "engine/values/error.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/ownership.h"
#include "oracle/program/values.h"
#include "suites/core/facts.h"
#include "suites/core/judge.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

Failed differs(const oracle::Case& c, const std::string& what, const oracle::Difference& d,
               c10::ScalarType dtype) {
  return failed("layout", oracle::name(d.bits), "", placement_pattern(c), dtype_name(dtype),
                what + ": " + oracle::describe(d, dtype));
}

// Strides aside: those of dimensions of one element mean nothing.
bool same_placement(const Spec& a, const Spec& b) {
  return a.with_tensor(a.shape(), contiguous_strides(a.shape()), a.dtype()) ==
         b.with_tensor(b.shape(), contiguous_strides(b.shape()), b.dtype());
}

}  // namespace

Outcome judge_layout(const oracle::Case& c, EngineUnderTest& engine) {
  const auto got = engine.run(c, false);
  for (size_t i = 0; i < c.program.inputs.size(); ++i) {
    const auto input = oracle::make_input(c, static_cast<int64_t>(i));
    const auto& value = got.values.at(i);
    const auto spec = oracle::spec_of(c, static_cast<int64_t>(i));
    if (!value.defined() || !same_placement(*value.spec, spec))
      return failed("layout", "placement", "", placement_pattern(c), dtype_name(spec.dtype()),
                    concat("x", i, ": asked for ", spec, ", got ",
                           value.defined() ? to_string(*value.spec) : "nothing"));
    for (size_t position = 0; position < value.locals.size(); ++position) {
      const auto d = oracle::compare(input.locals[position], value.locals[position]);
      if (!d.equal()) return differs(c, concat("x", i, " at position ", position), d, spec.dtype());
    }
    const auto assembly = oracle::assemble(value.locals, *value.spec);
    if (assembly.disagreement)
      return failed("layout", "replicas", "", placement_pattern(c), dtype_name(spec.dtype()),
                    assembly.disagreement->text);
    const auto d = oracle::compare(input.global, assembly.global);
    if (!d.equal()) return differs(c, concat("x", i, " put together"), d, spec.dtype());
  }
  return Passed{};
}

}  // namespace lockstep::suites
