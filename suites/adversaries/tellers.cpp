// SPDX-License-Identifier: Apache-2.0
// Engines that run the right rules and tell of ops, meshes, moves and places that were not.
#include <ATen/ATen.h>

#include "oracle/ownership/ownership.h"
#include "suites/adversaries/adversary.h"
#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites::plant {
namespace {

void op_unheard_of(const oracle::Case&, EngineResult& result) {
  for (auto& entry : result.timeline) entry.op = "aten::there_is_no_such_op";
}
void on_another_mesh(const oracle::Case& c, EngineResult& result) {
  const DeviceMesh larger({c.mesh.size() + 1});
  for (auto& entry : result.timeline)
    for (auto& input : entry.inputs) {
      const auto& spec = *input.spec;
      input.spec = std::make_shared<const Spec>(larger, spec.placements(), spec.shape(), spec.dtype());
      input.digests.push_back(input.digests.back());
    }
}

// The last value is whole on every rank, which no op and no move has made it.
void whole_for_nothing(const oracle::Case& c, EngineResult& result) {
  auto& value = result.values.back();
  const auto whole = oracle::assemble(value.locals, *value.spec).global;
  value.spec = std::make_shared<const Spec>(
      value.spec->with_placements(Placements(static_cast<size_t>(c.mesh.ndim()), Replicate{})));
  for (auto& local : value.locals) local = whole.clone();
}

constexpr const char* kDoubled =
    "v1:ops;mesh=3;seed=1;dev=1x256;x0=f32[64]:normal(1)@[R];v0=aten::mul.Scalar(x0,2.0)#96981f69";
constexpr const char* kByAnAverage =
    "v1:program;mesh=3;seed=1;dev=1x256;x0=f32[64]:normal(1)@[R];v0=lockstep::redistribute(x0,@[Pavg]);"
    "v1=lockstep::redistribute(v0,@[R]);v2=aten::mul.Scalar(v1,2.0)#a12027ab";

// The op reads what has gone by way of an average, which the engine does for it alone.
void by_way_of_an_average(const oracle::Case&, EngineResult& result) {
  LockstepEngine engine;
  auto there = engine.run(oracle::parse_token(kByAnAverage), true);
  for (auto& entry : there.timeline) entry.implicit = true;
  result.timeline = std::move(there.timeline);
  result.values.back() = there.values.back();
}

constexpr const char* kGradient =
    "v1:gradient;mesh=2;seed=0;dev=1x256;x0=f32[4x6]:normal(1)@[S0]!;x1=f32[4x6]:normal(2)@[S0];"
    "v0=aten::neg(x0);v1=lockstep::backward(t[v0],t[x1])#89f3bec2";
constexpr const char* kMatrix =
    "v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[4x6]:normal(1)@[S0];v0=aten::neg(x0)#71ba5654";

}  // namespace

std::vector<Adversary> tellers() {
  return {
      {"op-unheard-of", "that there is such an op", {kMatrix}, "", any, with_result(op_unheard_of)},
      {"on-another-mesh", "the mesh of what is read", {kMatrix}, "", any, with_result(on_another_mesh)},
      {"whole-for-nothing",
       "the placements of a result or a gradient",
       {kMatrix, kGradient},
       "",
       any,
       with_result(whole_for_nothing)},
      {"by-way-of-an-average",
       "that a move for one op leaves the value as it was",
       {kDoubled},
       "",
       any,
       with_result(by_way_of_an_average)},
  };
}

}  // namespace lockstep::suites::plant
