// SPDX-License-Identifier: Apache-2.0
// Engines that run the right rules and make up what they hand in.
#include <ATen/ATen.h>

#include "engine/values/digest.h"
#include "oracle/ownership/ownership.h"
#include "oracle/program/statements.h"
#include "suites/adversaries/adversary.h"
#include "suites/faults/rewrite.h"

namespace lockstep::suites::plant {
namespace {

void record_again(EngineResult& result, size_t entry, const EngineValue& value) {
  if (entry < result.timeline.size()) result.timeline[entry].outputs = {record(value.spec, value.locals)};
}

// ---- orders ----

c10::ScalarType narrower(c10::ScalarType dtype) {
  return dtype == at::kDouble ? at::kFloat : at::kBFloat16;
}

// The last redistribution reduces in a shorter dtype, and says so.
void reduces_narrowly(const oracle::Case& c, EngineResult& result) {
  if (result.timeline.empty() || result.timeline.size() != c.program.calls.size()) return;
  auto& order = result.timeline.back().order;
  auto& value = result.values.back();
  if (order.slices.size() != 1 || !c10::isFloatingType(value.spec->dtype()) || value.spec->has_partial())
    return;
  order.slices[0].root.dtype = narrower(value.spec->dtype());
  const auto& source = result.values.rbegin()[1];
  const auto whole = oracle::reduce(source.locals, *source.spec, order);
  for (size_t p = 0; p < value.locals.size(); ++p)
    value.locals[p] = oracle::slice(whole[p], *value.spec, static_cast<int64_t>(p));
  record_again(result, result.timeline.size() - 1, value);
}

// ---- layouts ----

// The strides of each result that is a matrix are those of its transpose.
void strides_of_results(const oracle::Case& c, EngineResult& result) {
  for (size_t i = c.program.inputs.size(); i < result.values.size(); ++i) {
    auto& v = result.values[i];
    if (!v.defined() || v.spec->ndim() != 2 || v.spec->shape()[0] < 2 || v.spec->shape()[1] < 2) continue;
    const auto& s = v.spec->stride();
    v.spec = std::make_shared<const Spec>(
        v.spec->with_tensor(v.spec->shape(), {s[1], s[0] == s[1] ? 1 : s[0]}, v.spec->dtype()));
  }
}

// A sum reads the first row again and again, and says that its rows are one.
void reads_one_row(const oracle::Case& c, EngineResult& result) {
  if (c.program.calls.size() != 1 || c.program.calls[0].op != "aten::sum" || result.timeline.size() != 1)
    return;
  auto& read = result.timeline[0].inputs[0];
  auto& value = result.values.back();
  for (size_t p = 0; p < value.locals.size(); ++p) {
    const auto& local = result.values[0].locals[p];
    if (local.dim() != 2 || local.size(0) < 2) return;
    read.strides.resize(value.locals.size());
    read.strides[p] = {0, 1};
    value.locals[p] = at::sum(local.narrow(0, 0, 1).expand(local.sizes()));
  }
  record_again(result, 0, value);
}

void huge_strides(const oracle::Case&, EngineResult& result) {
  for (auto& entry : result.timeline)
    for (auto& input : entry.inputs)
      if (input.spec != nullptr && input.spec->ndim() > 0)
        input.strides.assign(input.digests.size(),
                             std::vector<int64_t>(static_cast<size_t>(input.spec->ndim()), int64_t{1} << 40));
}

// ---- what has no elements ----

template <class Change>
void each_empty(EngineResult& result, Change change) {
  for (auto& v : result.values)
    for (auto& local : v.locals)
      if (local.defined() && local.numel() == 0) local = change(local);
}
void empty_of_another_shape(const oracle::Case&, EngineResult& result) {
  each_empty(result, [](const at::Tensor& t) { return at::empty({0, 7, 1}, t.options()); });
}
void empty_of_another_dtype(const oracle::Case&, EngineResult& result) {
  each_empty(result,
             [](const at::Tensor& t) { return t.to(t.scalar_type() == at::kInt ? at::kLong : at::kInt); });
}

// ---- what is no result ----

void local_lost(const oracle::Case&, EngineResult& result) {
  auto& locals = result.values.back().locals;
  if (locals.size() > 1) locals.pop_back();
}
void local_more(const oracle::Case&, EngineResult& result) {
  auto& locals = result.values.back().locals;
  if (!locals.empty()) locals.push_back(locals.front());
}
void local_undefined(const oracle::Case&, EngineResult& result) {
  auto& locals = result.values.back().locals;
  if (!locals.empty()) locals.back() = at::Tensor();
}
void value_lost(const oracle::Case&, EngineResult& result) {
  result.values.pop_back();
}
void digest_lost(const oracle::Case&, EngineResult& result) {
  for (auto& entry : result.timeline)
    for (auto& output : entry.outputs)
      if (output.digests.size() > 1) output.digests.pop_back();
}
void placements_lost(const oracle::Case&, EngineResult& result) {
  for (auto& entry : result.timeline)
    for (auto& input : entry.inputs) input.spec = nullptr;
}
void arguments_lost(const oracle::Case&, EngineResult& result) {
  for (auto& entry : result.timeline) entry.args.clear();
}

// ---- one value for another ----

// The copy of x0 that went by way of an average, and x0 itself, are exchanged for whoever reads them.
Rewritten reads_the_copy(const oracle::Case& c) {
  Rewriter r(c);
  for (size_t k = 0; k < c.program.calls.size(); ++k) {
    r.copy(c.program.calls[k]);
    if (k == 1) r.replace_uses({0}, {r.now({static_cast<int64_t>(c.program.inputs.size()) + 1})});
  }
  return std::move(r).finish();
}
Rewritten reads_the_original(const oracle::Case& c) {
  Rewriter r(c);
  for (size_t k = 0; k < c.program.calls.size(); ++k) {
    r.copy(c.program.calls[k]);
    if (k == 1) r.replace_uses({static_cast<int64_t>(c.program.inputs.size()) + 1}, {0});
  }
  return std::move(r).finish();
}

// x0 ends as the copy of it that went by way of an average, or the copy was never made.
EngineValue& copy_of_x0(const oracle::Case& c, EngineResult& result) {
  return result.values.at(c.program.inputs.size() + 1);
}
void overwritten_by_its_copy(const oracle::Case& c, EngineResult& result) {
  result.values[0].locals = copy_of_x0(c, result).locals;
}
void copy_never_made(const oracle::Case& c, EngineResult& result) {
  auto& copy = copy_of_x0(c, result);
  copy.locals.clear();
  for (const auto& local : result.values[0].locals) copy.locals.push_back(local.clone());
  std::erase_if(result.timeline, [](const auto& entry) { return entry.op == oracle::kRedistribute; });
}

constexpr const char* kThereAndBack =
    "v1:program;mesh=3;seed=1;dev=1x256;x0=f32[64]:normal(1)@[R];v0=lockstep::redistribute(x0,@[Pavg]);"
    "v1=lockstep::redistribute(v0,@[R]);v2=aten::mul.Scalar(x0,2.0)#94014bb1";
constexpr const char* kThereAndOn =
    "v1:program;mesh=3;seed=1;dev=1x256;x0=f32[64]:normal(1)@[R];v0=lockstep::redistribute(x0,@[Pavg]);"
    "v1=lockstep::redistribute(v0,@[R]);v2=aten::mul.Scalar(v1,2.0)#a12027ab";
constexpr const char* kNothing =
    "v1:ops;mesh=3;seed=1;dev=1x256;x0=f32[2]:normal(1)@[S0];v0=aten::neg(x0)#f6705122";
constexpr const char* kMatrix =
    "v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[4x6]:normal(1)@[S0];v0=aten::neg(x0)#71ba5654";

constexpr const char* kBits = "a value stands for another of its bits";
std::vector<Adversary> exchanged() {
  return {
      {"reads-the-copy", kBits, {kThereAndBack}, "", any, with_program(reads_the_copy)},
      {"reads-the-original", kBits, {kThereAndOn}, "", any, with_program(reads_the_original)},
      {"overwritten-by-its-copy", kBits, {kThereAndBack}, "", any, with_result(overwritten_by_its_copy)},
      {"copy-never-made", kBits, {kThereAndBack}, "", any, with_result(copy_never_made)},
  };
}

std::vector<Adversary> made_up() {
  return {
      {"reduces-narrowly",
       "the dtype of an order",
       {"v1:program;mesh=4;seed=1;dev=1x256;x0=f32[64]:normal(1)@[P];v0=lockstep::redistribute(x0,@[R])#"
        "db9095b7",
        "v1:program;mesh=4;seed=1;dev=1x256;x0=f64[64]:normal(1)@[P];v0=lockstep::redistribute(x0,@[R])#"
        "c60e7a70",
        "v1:program;mesh=4;seed=1;dev=1x256;x0=f16[64]:normal(1)@[P];v0=lockstep::redistribute(x0,@[S0])#"
        "da66697a",
        "v1:program;mesh=4;seed=1;dev=1x256;x0=f32[64]:normal(1)@[R];v0=lockstep::redistribute(x0,@[P]);"
        "v1=lockstep::redistribute(v0,@[R])#d163c26d"},
       "",
       any,
       with_result(reduces_narrowly)},
      {"strides-of-results",
       "the strides of a result",
       {kMatrix},
       "ops",
       any,
       with_result(strides_of_results)},
      {"reads-one-row",
       "the strides of what is read",
       {"v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[6x5]:normal(1)@[S0];v0=aten::sum(x0,none)#d3bf8282"},
       "",
       any,
       with_result(reads_one_row)},
      {"empty-of-another-shape",
       "the shape of what has no elements",
       {kNothing},
       "ops",
       any,
       with_result(empty_of_another_shape),
       true},
      {"empty-of-another-dtype",
       "the dtype of what has no elements",
       {kNothing},
       "ops",
       any,
       with_result(empty_of_another_dtype),
       true},
      {"local-lost", "the number of locals", {kMatrix}, "ops", many_ranks, with_result(local_lost)},
      {"local-more", "the number of locals", {kMatrix}, "ops", many_ranks, with_result(local_more)},
      {"local-undefined", "that there is a local", {kMatrix}, "ops", any, with_result(local_undefined)},
      {"value-lost", "the number of values", {kMatrix}, "ops", any, with_result(value_lost)},
      {"digest-lost", "the length of lists", {kMatrix}, "", any, with_result(digest_lost)},
      {"placements-lost", "that a value has placements", {kMatrix}, "", any, with_result(placements_lost)},
      {"arguments-lost", "the length of lists", {kMatrix}, "", any, with_result(arguments_lost)},
      {"huge-strides",
       "the strides of what is read",
       {"v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[6x5]:normal(1)@[S0];v0=aten::sum(x0,none)#d3bf8282"},
       "",
       any,
       with_result(huge_strides)},
  };
}

}  // namespace

std::vector<Adversary> forgers() {
  auto all = made_up();
  for (auto& one : exchanged()) all.push_back(std::move(one));
  return all;
}

}  // namespace lockstep::suites::plant
