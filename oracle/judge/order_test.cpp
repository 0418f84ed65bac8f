// SPDX-License-Identifier: Apache-2.0
// Engines made by hand that reduce in every kind of order: each is explained in its own and in no other.
#include <gtest/gtest.h>

#include "oracle/judge/testing.h"

namespace lockstep::oracle {
namespace {

using c10::ScalarType;
using Locals = std::vector<at::Tensor>;

// Engines that reduce what pends by plain operators of their own, each with the order in which it does.
struct InOrder {
  std::string order;
  std::function<at::Tensor(const Locals&)> reduce;
};
struct Orders {
  std::string placements, target;
  ScalarType dtype;
  std::vector<int64_t> mesh;
  std::vector<InOrder> engines;

  Judgement judge(const InOrder& engine, const std::string& declared) const {
    Case c;
    c.mesh = DeviceMesh(mesh);
    c.device = {1, 256};
    c.program.inputs = {{dtype, {5, 6}, {}, {ValueKind::kNormal, 1, 0, 0, {}}, false}};
    c.program.calls = {{"aten::neg", {Ref{0}}, 1}};
    c.placements = {{parse_placements(placements), {}}};
    HandEngine e(c);
    const Held x = e.input(0);
    const Held y = e.redistribute(x, target, engine.reduce(x.locals), parse_reduction_order(declared));
    const Held n = e.op("aten::neg", {y}, {}, e.plain().values[1], target,
                        [](const Locals& in) { return at::neg(in[0]); });
    return e.judge({x, n});
  }
  // Explained in its own order, a difference in any other.
  void expect_told_apart() const {
    for (const InOrder& engine : engines)
      for (const InOrder& other : engines) {
        const Judgement j = judge(engine, other.order);
        EXPECT_EQ(j.passed(), &engine == &other) << engine.order << '\n' << other.order << describe(j);
        if (j.passed()) continue;
        EXPECT_EQ(j.mismatch->condition, Condition::kOp);
        EXPECT_NE(j.mismatch->text.find("in the order that is declared: " + other.order), std::string::npos)
            << describe(j);
      }
  }
};

// Of the first, the elements before this one, row-major; of the second, the others.
at::Tensor joined(const at::Tensor& first, const at::Tensor& second, int64_t element) {
  return at::cat({first.flatten().slice(0, 0, element), second.flatten().slice(0, element)})
      .view(first.sizes());
}

// Would catch: a kind, a slice or a hop's dtype that the replay does not tell from another.
TEST(Order, EveryKindOfOrderIsReplayedAndNoOtherPasses) {
  const auto f32 = [](const at::Tensor& t) { return t.to(at::kFloat); };
  const auto f64 = [](const at::Tensor& t) { return t.to(at::kDouble); };
  const auto bf16 = [](const at::Tensor& t) { return t.to(at::kBFloat16); };
  const auto down = [](const Locals& t) { return ((t[3] + t[2]) + t[1]) + t[0]; };
  const auto next = [](const Locals& t) { return ((t[0] + t[3]) + t[2]) + t[1]; };
  Orders{"[P]",
         "[S0]",
         ScalarType::BFloat16,
         {4},
         {{"over 0: sum:bf16(fold 0 1 2 3)", [](const Locals& t) { return ((t[0] + t[1]) + t[2]) + t[3]; }},
          {"over 0: sum:bf16(tree 0 1 2 3)", [](const Locals& t) { return (t[0] + t[1]) + (t[2] + t[3]); }},
          {"over 0: sum:bf16(exact 0 1 2 3)",
           [&](const Locals& t) { return bf16(((f64(t[0]) + f64(t[1])) + f64(t[2])) + f64(t[3])); }},
          {"over 0: sum:f32(fold sum:bf16(fold 0 3) (fold 2 1))",
           [&](const Locals& t) { return bf16(f32(t[0] + t[3]) + (f32(t[2]) + f32(t[1]))); }},
          {"over 0: [0:11]=sum:bf16(fold 3 2 1 0); [11:]=sum:bf16(fold 0 3 2 1)",
           [&](const Locals& t) { return joined(down(t), next(t), 11); }},
          {"over 0: [0:12]=sum:bf16(fold 3 2 1 0); [12:]=sum:bf16(fold 0 3 2 1)",
           [&](const Locals& t) { return joined(down(t), next(t), 12); }}}}
      .expect_told_apart();
}

// FSDP on two mesh dimensions: one before the other, an average divided once or on the way. Would catch: a
// nested order taken for another, a division at another node.
TEST(Order, TwoMeshDimensionsAreNested) {
  Orders{"[P,P]",
         "[R,S1]",
         ScalarType::Float,
         {2, 2},
         {{"over 0.1: sum:f32(fold (fold 0 1) (fold 2 3))",
           [](const Locals& t) { return (t[0] + t[1]) + (t[2] + t[3]); }},
          {"over 0.1: sum:f32(fold (fold 0 2) (fold 1 3))",
           [](const Locals& t) { return (t[0] + t[2]) + (t[1] + t[3]); }}}}
      .expect_told_apart();
  Orders{"[Pavg,Pavg]",
         "[S0,R]",
         ScalarType::Float,
         {3, 3},
         {{"over 0.1: sum/9:f32(fold (fold 0 1 2) (fold 3 4 5) (fold 6 7 8))",
           [](const Locals& t) {
             return (((t[0] + t[1]) + t[2]) + ((t[3] + t[4]) + t[5]) + ((t[6] + t[7]) + t[8])) / 9;
           }},
          {"over 0.1: sum/3:f32(fold sum/3:f32(fold 0 1 2) sum/3:f32(fold 3 4 5) sum/3:f32(fold 6 7 8))",
           [](const Locals& t) {
             const auto third = [&](size_t r) { return ((t[r] + t[r + 1]) + t[r + 2]) / 3; };
             return (third(0) + third(3) + third(6)) / 3;
           }}}}
      .expect_told_apart();
}

// Would catch: elements that are one in memory, of which each is reduced in an order of its own, taken for
// the last one.
TEST(Order, OfElementsInOneMemoryIsEachOnesOwn) {
  using Ints = std::vector<int64_t>;
  Case c;
  c.mesh = DeviceMesh({3});
  c.device = {1, 256};
  c.program.inputs = {{ScalarType::Float, {1}, {}, {ValueKind::kNormal, 1, 0, 0, {}}, false}};
  c.program.calls = {{"aten::expand", {Ref{0}, Ints{8}, false}, 1}, {"aten::neg", {Ref{1}}, 1}};
  c.placements = {{parse_placements("[P]"), {}}};
  HandEngine e(c);
  const Held x = e.input(0);
  const Held w = e.op("aten::expand", {x}, {Ints{8}, false}, e.plain().values[1], "[P]",
                      [](const Locals& in) { return in[0].expand({8}); });
  const Locals& t = w.locals;
  const at::Tensor down = (t[2] + t[1]) + t[0], next = (t[0] + t[2]) + t[1];
  ASSERT_FALSE(down.equal(next));
  const Held y =
      e.redistribute(w, "[R]", joined(down, next, 5),
                     parse_reduction_order("over 0: [0:5]=sum:f32(fold 2 1 0); [5:]=sum:f32(fold 0 2 1)"));
  const Held n =
      e.op("aten::neg", {y}, {}, e.plain().values[2], "[R]", [](const Locals& in) { return at::neg(in[0]); });
  const Judgement j = e.judge({x, w, n});
  EXPECT_TRUE(j.passed() && !j.equal) << describe(j);
}

// An engine that keeps the terms of three passes apart, on two ranks, and adds up all of them.
Judgement judge_passes(const std::string& declared, const std::function<at::Tensor(const Locals&)>& sum) {
  const DeviceMesh mesh({2});
  const auto spec = [&](const char* placements, const at::Tensor& like) {
    return std::make_shared<const Spec>(mesh, parse_placements(placements), like.sizes().vec(),
                                        like.strides().vec(), like.scalar_type());
  };
  Recording recording;
  Locals terms, passes;  // of ranks 0 and 1, pass by pass
  for (uint64_t seed = 0; seed < 6; ++seed)
    terms.push_back(at::randn({5, 6}, at::detail::createCPUGenerator(seed), at::kFloat).to(at::kBFloat16));
  for (size_t pass = 0; pass < 3; ++pass) passes.push_back(terms[2 * pass] + terms[2 * pass + 1]);
  const at::Tensor plain = recording.add_up(passes);
  const Held made{spec("[R]", plain), {sum(terms), sum(terms)}};
  TimelineEntry entry;
  entry.op = "lockstep::redistribute";
  std::vector<Start> starts;
  for (size_t pass = 0; pass < 3; ++pass) {
    const Held held{spec("[P]", plain), {terms[2 * pass], terms[2 * pass + 1]}};
    starts.push_back({passes[pass], held.spec, held.locals});
    entry.inputs.push_back(held.record());
  }
  entry.args.resize(3);
  entry.tensors_per_arg = {1, 1, 1};
  entry.outputs = {made.record()};
  entry.aliases = {-1};
  entry.order = parse_reduction_order(declared);
  const Final end{plain, made.record(), true};
  return check(recording, {entry}, starts, {&end, 1}, Lane::kExact);
}

// Would catch: passes and ranks that change places, a sum of one of them in another dtype, an exact sum that
// rounds twice, a term that is taken twice, or not at all.
TEST(Order, OfPassesIsNestedAndTakesEachTermOnce) {
  const auto f32 = [](const at::Tensor& t) { return t.to(at::kFloat); };
  const auto f64 = [](const at::Tensor& t) { return t.to(at::kDouble); };
  const auto bf16 = [](const at::Tensor& t) { return t.to(at::kBFloat16); };
  const std::vector<InOrder> engines = {
      {"over 0: sum:bf16(fold (fold 0 0.m1 0.m2) (fold 1 1.m1 1.m2))",
       [](const Locals& t) { return ((t[0] + t[2]) + t[4]) + ((t[1] + t[3]) + t[5]); }},
      {"over 0: sum:bf16(fold (fold 0 1) (fold 0.m1 1.m1) (fold 0.m2 1.m2))",
       [](const Locals& t) { return ((t[0] + t[1]) + (t[2] + t[3])) + (t[4] + t[5]); }},
      {"over 0: sum:bf16(fold sum:f32(fold 0 0.m1 0.m2) sum:f32(fold 1 1.m1 1.m2))",
       [&](const Locals& t) {
         return bf16((f32(t[0]) + f32(t[2])) + f32(t[4])) + bf16((f32(t[1]) + f32(t[3])) + f32(t[5]));
       }},
      {"over 0: sum:f32(fold sum:bf16(fold 0 1) sum:bf16(fold 0.m1 1.m1) sum:bf16(fold 0.m2 1.m2))",
       [&](const Locals& t) { return bf16((f32(t[0] + t[1]) + f32(t[2] + t[3])) + f32(t[4] + t[5])); }},
      {"over 0: sum:bf16(exact 0 1 0.m1 1.m1 0.m2 1.m2)",
       [&](const Locals& t) {
         return bf16(((((f64(t[0]) + f64(t[1])) + f64(t[2])) + f64(t[3])) + f64(t[4])) + f64(t[5]));
       }},
  };
  for (const InOrder& engine : engines)
    for (const InOrder& other : engines) {
      const Judgement j = judge_passes(other.order, engine.reduce);
      EXPECT_EQ(j.passed(), &engine == &other) << engine.order << '\n' << other.order << describe(j);
    }
  for (const auto* order :
       {"over 0: sum:bf16(fold (fold 0 0 0.m2) (fold 1 1.m1 1.m2))", "over 0: sum:bf16(fold 0 1 0.m1 1.m1)",
        "over 0: sum/2:bf16(fold (fold 0 0.m1 0.m2) (fold 1 1.m1 1.m2))", "none"}) {
    const Judgement j = judge_passes(order, engines.front().reduce);
    ASSERT_TRUE(j.mismatch) << order;
    EXPECT_EQ(j.mismatch->condition, Condition::kOp) << describe(j);
  }
}

}  // namespace
}  // namespace lockstep::oracle
