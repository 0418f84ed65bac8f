// SPDX-License-Identifier: Apache-2.0
// For tests: an engine by hand. Whoever writes the test says what each rank does and how it is placed; the
// entries of the timeline follow from that, right or wrong.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/values/digest.h"
#include "engine/values/testing_orders.h"
#include "oracle/judge/check.h"
#include "oracle/ownership/ownership.h"
#include "oracle/program/values.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::oracle {

// A tensor as the engine holds it.
struct Held {
  SpecPtr spec;
  std::vector<at::Tensor> locals;
  TensorRecord record() const { return lockstep::record(spec, locals); }
};

class HandEngine {
 public:
  explicit HandEngine(const Case& c) : mesh_(c.mesh), plain_(evaluate_recorded(c, source_)), case_(c) {}

  const PlainRun& plain() const { return plain_; }
  Timeline timeline;

  Held place(const at::Tensor& global, const std::string& placements) const {
    auto spec = make_spec(global, placements);
    auto locals = slices(global.detach(), *spec);
    return {std::move(spec), std::move(locals)};
  }
  // Input i as the Case places it.
  Held input(size_t i) const {
    const auto& target = case_.placements[i];
    auto spec = std::make_shared<const Spec>(mesh_, target.placements, plain_.inputs[i].sizes().vec(),
                                             plain_.inputs[i].strides().vec(), plain_.inputs[i].scalar_type(),
                                             target.order);
    return {std::move(spec), make_locals(case_, static_cast<int64_t>(i))};
  }

  using Local = std::function<at::Tensor(const std::vector<at::Tensor>&)>;
  // An op with one tensor for each of its first arguments, then `constants`.
  Held op(const std::string& name, const std::vector<Held>& inputs, const std::vector<c10::IValue>& constants,
          const at::Tensor& like, const std::string& placements, const Local& local) {
    Held out{make_spec(like, placements), {}};
    for (size_t p = 0; p < static_cast<size_t>(mesh_.size()); ++p) {
      std::vector<at::Tensor> locals;
      for (const Held& h : inputs) locals.push_back(h.locals[p]);
      out.locals.push_back(local(locals));
    }
    add(name, inputs, constants, out, -1);
    return out;
  }
  // An op that writes to its first input.
  void in_place(const std::string& name, std::vector<Held> inputs, const std::vector<c10::IValue>& constants,
                const std::function<void(const std::vector<at::Tensor>&)>& local) {
    TimelineEntry entry = begin(name, inputs, constants);
    for (size_t p = 0; p < inputs[0].locals.size(); ++p) {
      std::vector<at::Tensor> locals;
      for (const Held& h : inputs) locals.push_back(h.locals[p]);
      local(locals);
    }
    entry.outputs = {inputs[0].record()};
    entry.aliases = {0};
    timeline.push_back(std::move(entry));
  }
  // Reduces to `global`, declares `declared`.
  Held redistribute(const Held& value, const std::string& placements, const at::Tensor& global,
                    const ReductionOrder& declared) {
    Held out = place(global, placements);
    add("lockstep::redistribute", {value}, {}, out, -1);
    timeline.back().order = declared;
    return out;
  }
  Held redistribute(const Held& value, const std::string& placements) {
    return redistribute(value, placements, assemble(value.locals, *value.spec).global,
                        fold_over(*value.spec));
  }

  // The host reads the value.
  void read(const std::string& name, const Held& value) { timeline.push_back(begin(name, {value}, {})); }

  // The judgement if the engine ends with these values.
  Judgement judge(const std::vector<Held>& finals) const {
    std::vector<TensorRecord> records;
    for (const Held& h : finals) records.push_back(h.spec ? h.record() : TensorRecord{});
    return check(case_, plain_, timeline, records);
  }

 private:
  SpecPtr make_spec(const at::Tensor& like, const std::string& placements) const {
    return std::make_shared<const Spec>(mesh_, parse_placements(placements), like.sizes().vec(),
                                        like.strides().vec(), like.scalar_type());
  }
  static TimelineEntry begin(const std::string& name, const std::vector<Held>& inputs,
                             const std::vector<c10::IValue>& constants) {
    TimelineEntry entry;
    entry.op = name;
    for (const Held& h : inputs) {
      entry.inputs.push_back(h.record());
      entry.args.emplace_back();
      entry.tensors_per_arg.push_back(1);
    }
    for (const c10::IValue& v : constants) {
      entry.args.push_back(v);
      entry.tensors_per_arg.push_back(-1);
    }
    return entry;
  }
  void add(const std::string& name, const std::vector<Held>& inputs,
           const std::vector<c10::IValue>& constants, const Held& out, int64_t alias) {
    TimelineEntry entry = begin(name, inputs, constants);
    entry.outputs = {out.record()};
    entry.aliases = {alias};
    timeline.push_back(std::move(entry));
  }

  DeviceMesh mesh_;
  SimulatedSource source_;
  PlainRun plain_;
  Case case_;
};

inline Input input(std::vector<int64_t> shape, uint64_t seed,
                   c10::ScalarType dtype = c10::ScalarType::Float) {
  return {dtype, std::move(shape), {}, {ValueKind::kNormal, seed, 0, 0, {}}, false};
}

inline Case make_case(std::vector<Input> inputs, const std::vector<std::string>& placements,
                      std::vector<Call> calls, std::vector<int64_t> mesh = {3}) {
  Case c;
  c.mesh = DeviceMesh(std::move(mesh));
  c.device = {1, 256};
  c.program.inputs = std::move(inputs);
  c.program.calls = std::move(calls);
  for (const auto& p : placements) c.placements.push_back({parse_placements(p), {}});
  validate(c);
  return c;
}

inline void expect_fault(const Judgement& j, Condition condition, size_t entry, const std::string& text) {
  ASSERT_TRUE(j.mismatch) << describe(j);
  EXPECT_EQ(j.mismatch->condition, condition) << describe(j);
  EXPECT_EQ(j.mismatch->entry, entry) << describe(j);
  EXPECT_NE(describe(j).find(text), std::string::npos) << describe(j);
  EXPECT_FALSE(j.equal);
  EXPECT_FALSE(j.passed());
}

}  // namespace lockstep::oracle
