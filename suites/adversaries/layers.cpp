// SPDX-License-Identifier: Apache-2.0
// Engines that come to the right values and lay them elsewhere: in other placements, in memory of their own
// or of another value, in another order of memory.
#include <ATen/ATen.h>

#include "engine/values/digest.h"
#include "oracle/ownership/ownership.h"
#include "oracle/program/statements.h"
#include "suites/adversaries/adversary.h"

namespace lockstep::suites::plant {
namespace {

// ---- gradients ----

// The result lies so by a redistribution that the engine says it inserted.
void move(EngineResult& result, EngineValue& value, const Spec& to) {
  if (value.spec->has_partial()) return;
  TimelineEntry entry;
  entry.op = "lockstep::redistribute";
  entry.implicit = true;
  entry.inputs = {record(value.spec, value.locals)};
  const auto whole = oracle::assemble(value.locals, *value.spec).global;
  value.spec = std::make_shared<const Spec>(to);
  value.locals = oracle::slices(whole, to);
  entry.outputs = {record(value.spec, value.locals)};
  entry.aliases = {-1};
  result.timeline.push_back(std::move(entry));
}

template <class Change>
void each_gradient(const oracle::Case& c, EngineResult& result, Change change) {
  size_t value = c.program.inputs.size();
  for (const auto& call : c.program.calls)
    for (int64_t i = 0; i < call.results; ++i, ++value)
      if (oracle::runs_backward(call.op) && result.values[value].defined()) change(result.values[value]);
}

void move_everywhere(EngineResult& result, EngineValue& value) {
  const auto to = value.spec->with_placements(Placements(value.spec->placements().size(), Replicate{}));
  if (to != *value.spec) move(result, value, to);
}

void gradients_everywhere(const oracle::Case& c, EngineResult& result) {
  each_gradient(c, result, [&](EngineValue& value) { move_everywhere(result, value); });
}

// What ops have made; the last of them, since what is read again must lie as it is read.
void results_everywhere(const oracle::Case& c, EngineResult& result) {
  auto& value = result.values.back();
  if (!oracle::runs_backward(c.program.calls.back().op) && value.defined()) move_everywhere(result, value);
}

void gradients_in_another_order(const oracle::Case& c, EngineResult& result) {
  each_gradient(c, result, [&](EngineValue& value) {
    const Spec& now = *value.spec;
    const std::vector<int64_t> order(now.order().rbegin(), now.order().rend());
    const auto to = now.with_placements(now.placements(), order);
    if (to != now) move(result, value, to);
  });
}

// ---- memory ----

bool share(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.storage().is_alias_of(b.storage());
}

// What shares memory with an earlier value gets memory of its own.
void views_are_copies(const oracle::Case& c, EngineResult& result) {
  for (size_t v = c.program.inputs.size(); v < result.values.size(); ++v)
    for (size_t p = 0; p < result.values[v].locals.size(); ++p) {
      auto& local = result.values[v].locals[p];
      const bool shares =
          std::any_of(result.values.begin(), result.values.begin() + static_cast<ptrdiff_t>(v),
                      [&](const EngineValue& earlier) {
                        return p < earlier.locals.size() && share(earlier.locals[p], local);
                      });
      if (shares) local = local.clone();
    }
}

// Ops of which nobody knows whether they copy.
bool is_safe(const oracle::Case& c) {
  return std::none_of(c.program.calls.begin(), c.program.calls.end(),
                      [](const oracle::Call& call) { return call.op.find("unsafe_") != std::string::npos; });
}

// What has the bits of an earlier value lies in its memory.
void copies_are_views(const oracle::Case& c, EngineResult& result) {
  for (size_t v = c.program.inputs.size(); v < result.values.size(); ++v)
    for (size_t u = 0; u < v; ++u) {
      auto &value = result.values[v], &earlier = result.values[u];
      if (!value.defined() || !earlier.defined() || *value.spec != *earlier.spec) continue;
      if (record(value.spec, value.locals).digests == record(earlier.spec, earlier.locals).digests)
        value.locals = earlier.locals;
    }
}

// Each local begins at the first element of its storage.
void views_without_offset(const oracle::Case&, EngineResult& result) {
  for (auto& value : result.values)
    for (auto& local : value.locals)
      if (local.defined()) local = local.as_strided(local.sizes(), local.strides(), 0);
}

// The memory of each result that is a matrix is that of its transpose.
void locals_transposed(const oracle::Case& c, EngineResult& result) {
  for (size_t v = c.program.inputs.size(); v < result.values.size(); ++v)
    for (auto& local : result.values[v].locals)
      if (local.defined() && local.dim() == 2 && local.size(0) > 1 && local.size(1) > 1)
        local = local.t().clone(at::MemoryFormat::Contiguous).t();
}

constexpr const char* kGradient =
    "v1:program;mesh=2;seed=1;dev=1x256;x0=f32[4x6]:normal(1)@[S0]!;x1=f32[4x6]:normal(2)@[S0];v0=aten::neg("
    "x0);"
    "v1=lockstep::backward(t[v0],t[x1])#29276a6a";
constexpr const char* kGradientInOrder =
    "v1:program;mesh=2x2;seed=1;dev=1x256;x0=f32[8x6]:normal(1)@[S0,S0]@1.0!;x1=f32[8x6]:normal(2)@[S0,S0]@1."
    "0;"
    "v0=aten::neg(x0);v1=lockstep::backward(t[v0],t[x1])#65f5f717";
constexpr const char* kView =
    "v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[4x6]:normal(1)@[S0];v0=aten::t(x0)#9c6c9c62";
constexpr const char* kViewOfAView =
    "v1:program;mesh=2;seed=1;dev=1x256;x0=f32[4x6]:normal(1)@[S0];v0=aten::t(x0);v1=aten::t(v0)#e6c5dbf8";
constexpr const char* kOut =
    "v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[4x6]:normal(1)@[S0];x1=f32[4x6]:ones@[S0];v0=aten::neg.out(x0,x1)#"
    "d7a9461e";
constexpr const char* kCopy =
    "v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[4x6]:normal(1)@[S0];v0=aten::clone(x0,none)#340216d3";
constexpr const char* kSlice =
    "v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[4x6]:ones@[S0];v0=aten::slice.Tensor(x0,1,2,4,1)#31c9ca7c";
constexpr const char* kMatrix =
    "v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[4x6]:normal(1)@[S0];v0=aten::neg(x0)#71ba5654";

}  // namespace

std::vector<Adversary> layers() {
  return {
      {"gradients-everywhere",
       "the placements of a gradient",
       {kGradient},
       "gradient",
       on_ranks(has_backward),
       with_result(gradients_everywhere)},
      {"results-everywhere",
       "the placements of a result",
       {kMatrix, kCopy},
       "ops",
       any,
       with_result(results_everywhere)},
      {"gradients-in-another-order",
       "the order of a gradient's shards",
       {kGradientInOrder},
       "",
       any,
       with_result(gradients_in_another_order)},
      {"views-are-copies",
       "that a view is one",
       {kView, kViewOfAView, kOut},
       "ops",
       is_safe,
       with_result(views_are_copies)},
      {"copies-are-views", "that a copy is one", {kCopy}, "", any, with_result(copies_are_views)},
      {"views-without-offset",
       "where in its memory a view begins",
       {kSlice},
       "",
       any,
       with_result(views_without_offset)},
      {"locals-transposed",
       "how a rank's part lies in memory",
       {kMatrix},
       "ops",
       any,
       with_result(locals_transposed)},
  };
}

}  // namespace lockstep::suites::plant
