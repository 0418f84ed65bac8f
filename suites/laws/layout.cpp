// SPDX-License-Identifier: Apache-2.0
// Law: each rank holds exactly the elements that cutting by brute force gives it, in that order, of the value
// or of its term; the locals together are the tensor. And a sub-mesh of the mesh is the ranks that differ in
// its dimensions alone.
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

// Whether two positions differ in no dimension but these.
bool agree_beside(const DeviceMesh& mesh, int64_t a, int64_t b, const std::vector<bool>& free) {
  for (size_t d = free.size(); d-- > 0; a /= mesh.shape()[d], b /= mesh.shape()[d])
    if (!free[d] && a % mesh.shape()[d] != b % mesh.shape()[d]) return false;
  return true;
}

std::optional<Failed> wrong_sub_mesh(const oracle::Case& c) {
  const auto& shape = c.mesh.shape();
  std::vector<std::string> all;
  for (size_t d = 0; d < shape.size(); ++d) all.push_back(concat("d", d));
  const DeviceMesh mesh(shape, all, c.mesh.ranks());
  const auto from = static_cast<int64_t>(c.program.seed % static_cast<uint64_t>(mesh.size()));
  for (size_t chosen = 1; chosen < size_t{1} << shape.size(); ++chosen) {
    std::vector<std::string> names;
    std::vector<bool> free(shape.size());
    for (size_t d = 0; d < shape.size(); ++d)
      if ((free[d] = (chosen >> d & 1) != 0)) names.push_back(all[d]);
    std::vector<int64_t> ranks;
    for (int64_t p = 0; p < mesh.size(); ++p)
      if (agree_beside(mesh, from, p, free)) ranks.push_back(mesh.ranks()[static_cast<size_t>(p)]);
    const auto rank = mesh.ranks()[static_cast<size_t>(from)];
    const auto got = rank == 0 ? mesh.sub_mesh(names) : mesh.sub_mesh(names, rank);
    if (got.ranks() != ranks || got.names() != names ||
        got.flatten("flat") != DeviceMesh({got.size()}, {"flat"}, ranks))
      return failed(
          "layout", "placement", "", placement_pattern(c), "",
          concat("the sub-mesh of rank ", rank, " in dimensions ", at::ArrayRef<std::string>(names), " of ",
                 mesh, " has ranks ", at::IntArrayRef(got.ranks()), "; they are ", at::IntArrayRef(ranks)));
  }
  return std::nullopt;
}

}  // namespace

Outcome judge_layout(const oracle::Case& c, EngineUnderTest& engine) {
  if (auto failure = wrong_sub_mesh(c)) return *failure;
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
