// SPDX-License-Identifier: Apache-2.0
#include "suites/core/judge.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "engine/values/refused.h"
#include "oracle/ownership/compare.h"
#include "oracle/plain/evaluate.h"
#include "suites/core/suite.h"
#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites {
namespace {

// The engine, with something done to its results.
class Changed : public EngineUnderTest {
 public:
  explicit Changed(std::function<void(EngineResult&)> change) : change_(std::move(change)) {}
  const EngineProfile& profile() const override { return engine_.profile(); }
  EngineResult run(const oracle::Case& c, bool want_timeline) override {
    auto result = engine_.run(c, want_timeline);
    change_(result);
    return result;
  }

 private:
  LockstepEngine engine_;
  std::function<void(EngineResult&)> change_;
};

oracle::Case sum_of(c10::ScalarType dtype) {
  oracle::Case c;
  c.suite = "ops";
  c.program.inputs = {{dtype, {5, 6}, {}, {oracle::ValueKind::kNormal, 7, 0, 0, {}}, false}};
  c.program.calls = {{"aten::neg", {oracle::Ref{0}}, 1}};
  c.mesh = DeviceMesh({2, 3});
  c.placements = {{{Shard{0}, Replicate{}}, {}}};
  return c;
}

Outcome judge_changed(std::function<void(EngineResult&)> change) {
  Changed engine(std::move(change));
  return judge_against_oracle(sum_of(c10::ScalarType::Float), engine, Allowed::kExplained);
}

bool fails(std::function<void(EngineResult&)> change) {
  return std::holds_alternative<Failed>(judge_changed(std::move(change)));
}

at::Tensor& last_local(EngineResult& r) {
  return r.values.back().locals.back();
}

// Catches: another number of nonzero elements called wrong where a library's order of a sum made one of them
// zero by proof, before the op or in it; and such a number believed where the elements are those of one
// device.
TEST(Judge, AShapeOfExplainedValuesIsNotJudged) {
  Changed shorter([](EngineResult& r) {
    auto& found = r.values.back();
    const auto& spec = *found.spec;
    if (spec.shape().size() != 2) return;
    found.spec = std::make_shared<const Spec>(
        spec.with_tensor({spec.shape()[0] - 1, spec.shape()[1]}, spec.stride(), spec.dtype()));
    for (auto& local : found.locals) local = local.narrow(0, 0, local.size(0) - 1);
  });
  LockstepEngine engine;
  for (const char* token :
       {"v2:program;mesh=3;seed=0;dev=1x256;options=reduce:library;x0=f32[7x3x3]:special(74628)@[P];"
        "v0=aten::to.dtype(x0,f64,false,false,none);v1=aten::nonzero(v0)#20b85926",
        "v2:program;mesh=3;seed=0;dev=1x256;options=reduce:library;x0=bf16[2x3x3]:uniform(8021)@[P];"
        "v0=aten::nonzero(x0)#f28b79e0"}) {
    auto c = oracle::parse_token(token);
    const auto by_library = judge_against_oracle(c, engine, Allowed::kExplained);
    ASSERT_TRUE(std::holds_alternative<GaveUp>(by_library)) << explanation_of(by_library);
    c.options.clear();
    EXPECT_TRUE(std::holds_alternative<Passed>(judge_against_oracle(c, engine, Allowed::kExplained)));
    EXPECT_TRUE(std::holds_alternative<Failed>(judge_against_oracle(c, shorter, Allowed::kExplained)));
  }
}

// What one device does is what it does unobserved. Catches: a recording that holds what libtorch would have
// changed in place, or that changes the order in which gradients are added up.
TEST(Judge, ThePlainRunIsThatOfNobodyWatching) {
  LockstepEngine engine;
  const auto random = engine.plain_source();
  for (const auto* name : {"ops", "gradient", "program", "edges", "cache", "random"})
    for (int64_t i = 0; i < 1500; ++i) {
      const auto c = find_suite(name).generate(5, i);
      std::vector<at::Tensor> alone;
      try {
        alone = oracle::evaluate(c, *random);
      } catch (const std::exception&) {
        continue;  // of a case that is refused
      }
      const auto watched = oracle::evaluate_recorded(c, *random).values;
      ASSERT_EQ(alone.size(), watched.size());
      for (size_t k = 0; k < alone.size(); ++k) {
        ASSERT_EQ(alone[k].defined(), watched[k].defined());
        if (!alone[k].defined()) continue;
        ASSERT_TRUE(oracle::compare(alone[k].detach(), watched[k].detach()).equal()) << oracle::to_token(c);
      }
    }
}

// Catches: another zero or NaN called wrong where a kernel of the fast lane may have chosen it on a mesh that
// the timeline does not show; any other number, what the timeline shows, or the exact lane believed there.
TEST(Judge, NobodyTellsWhichZeroOrNanAMeshMapChose) {
  const oracle::Target halves{{Shard{0}, Replicate{}}, {}};
  auto c = sum_of(c10::ScalarType::Float);
  c.mesh = DeviceMesh({2, 2});
  c.placements = {halves};
  c.numerics = Lane::kFast;
  c.program.inputs[0].shape = {4};
  c.program.inputs[0].values = {oracle::ValueKind::kBits, 0, 0, 0, {0, 0x7fc00000, 0x3f800000, 0x40000000}};
  const std::vector<oracle::Arg> mapped = {
      std::string("1"), std::string("aten::neg"), oracle::Ref{0}, halves, halves,
      halves,           std::vector<int64_t>{4}};
  c.program.calls = {{"lockstep::mesh_map", mapped, 1}, {"aten::neg", {oracle::Ref{1}}, 1}};
  oracle::validate(c);
  const auto with_sign = [](int64_t element) {  // of v0 the other one
    return [element](EngineResult& r) {
      for (const int64_t replica : {0, 1}) {
        auto& local = r.values[1].locals[static_cast<size_t>(element / 2 * 2 + replica)];
        local = local.clone();
        local.view(at::kInt)[element % 2].bitwise_xor_(std::numeric_limits<int32_t>::min());
      }
    };
  };
  const auto reads = [](EngineResult& r) { r.timeline.back().inputs[0].digests[0].lo ^= 1; };
  const auto gives = [](EngineResult& r) { r.timeline.back().outputs[0].digests[0].lo ^= 1; };
  const auto judged = [&c](std::function<void(EngineResult&)> change) {
    Changed engine(std::move(change));
    return judge_against_oracle(c, engine, Allowed::kExplained);
  };
  const auto nobody_tells = [&](auto change) { return std::holds_alternative<GaveUp>(judged(change)); };
  const auto is_wrong = [&](auto change) { return std::holds_alternative<Failed>(judged(change)); };
  EXPECT_TRUE(nobody_tells(with_sign(0)));
  EXPECT_TRUE(nobody_tells(with_sign(1)));
  EXPECT_TRUE(nobody_tells(reads));
  EXPECT_TRUE(is_wrong(with_sign(2)));
  EXPECT_TRUE(is_wrong(gives));
  c.numerics = Lane::kExact;
  EXPECT_TRUE(is_wrong(with_sign(0)));
  c.numerics = Lane::kFast;
  c.program.calls = {c.program.calls[1]};
  c.program.calls[0].args = {oracle::Ref{0}};
  EXPECT_TRUE(is_wrong(with_sign(0)));
}

// Catches: a judge that passes anything, or fails what is right.
TEST(Judge, PassesTheEngineAsItIs) {
  for (const auto dtype : {c10::ScalarType::Float, c10::ScalarType::Double, c10::ScalarType::BFloat16}) {
    LockstepEngine engine;
    const auto outcome = judge_against_oracle(sum_of(dtype), engine, Allowed::kEqual);
    EXPECT_TRUE(std::holds_alternative<Passed>(outcome)) << explanation_of(outcome);
  }
}

// Catches: a judge that looks at rank 0 only, at values only, or within a tolerance.
TEST(Judge, SeesEveryKindOfDifference) {
  EXPECT_TRUE(fails([](EngineResult& r) {  // one bit, on the last rank, a replica
    last_local(r) = last_local(r).clone();
    static_cast<char*>(last_local(r).data_ptr())[0] ^= 1;
  }));
  EXPECT_TRUE(fails([](EngineResult& r) { r.values.back() = {}; }));                           // undefined
  EXPECT_TRUE(fails([](EngineResult& r) { last_local(r) = last_local(r).narrow(0, 0, 1); }));  // too short
  EXPECT_TRUE(fails([](EngineResult& r) {  // another label
    r.values.back().spec =
        std::make_shared<const Spec>(r.values.back().spec->with_placements({Replicate{}, Shard{0}}));
  }));
  EXPECT_TRUE(fails([](EngineResult& r) { r.random_after.offset += 4; }));  // the stream
  EXPECT_TRUE(fails([](EngineResult& r) { r.timeline.clear(); }));          // an op that is not logged
  EXPECT_TRUE(
      fails([](EngineResult& r) { r.values[0].locals[0] = r.values[0].locals[0] + 1; }));  // an input changed
}

// Catches: a comparison that needs the timeline to see wrong values.
TEST(Judge, SeesValuesWithoutATimeline) {
  EXPECT_TRUE(fails([](EngineResult& r) {
    r.has_timeline = false;
    last_local(r) = last_local(r) * 2;
  }));
  EXPECT_FALSE(fails([](EngineResult& r) { r.has_timeline = false; }));
}

// Catches: an order of a sum that explains what a suite says must be equal.
TEST(Judge, NothingExplainsWhatMustBeEqual) {
  const auto c = oracle::parse_token(
      "v1:ops;mesh=3;seed=1;dev=1x256;x0=f32[5x40]:normal(1)@[S1];x1=f32[40x6]:normal(2)@[S0];"
      "v0=aten::mm(x0,x1);v1=lockstep::redistribute(v0,@[R])#3e4274c9");
  LockstepEngine engine;
  const auto explained = judge_against_oracle(c, engine, Allowed::kExplained);
  ASSERT_TRUE(std::holds_alternative<Passed>(explained)) << explanation_of(explained);
  EXPECT_EQ(std::get<Passed>(explained).verdict, dashboard::Verdict::kExplained);
  EXPECT_TRUE(std::holds_alternative<Failed>(judge_against_oracle(c, engine, Allowed::kEqual)));
}

// Does what this Case asks for, whatever it is asked.
struct Instead : LockstepEngine {
  oracle::Case done;
  EngineResult run(const oracle::Case&, bool want_timeline) override {
    return LockstepEngine::run(done, want_timeline);
  }
};

// Catches: ranks that cut one dimension twice in another order than the Program's.
TEST(Judge, SeesTheOrderOfCuts) {
  const auto asked = oracle::parse_token(
      "v1:program;mesh=2x2;seed=1;dev=1x256;x0=f32[8]:normal(1)@[R,R];"
      "v0=lockstep::redistribute(x0,@[S0,S0])#5f21e3a5");
  const auto other = oracle::parse_token(
      "v1:program;mesh=2x2;seed=1;dev=1x256;x0=f32[8]:normal(1)@[R,R];"
      "v0=lockstep::redistribute(x0,@[S0,S0]@1.0)#bbff8bd6");
  const auto judged = [&](const oracle::Case& done) {
    Instead engine;
    engine.done = done;
    return judge_against_oracle(asked, engine, Allowed::kExplained);
  };
  EXPECT_TRUE(std::holds_alternative<Passed>(judged(asked)));
  const auto wrong = judged(other);
  ASSERT_TRUE(std::holds_alternative<Failed>(wrong)) << explanation_of(wrong);
  EXPECT_EQ(std::get<Failed>(wrong).verdict, "placement");
}

// What the case gave up as: "op, reason"; empty if it did not.
std::string gave_up(std::function<void(EngineResult&)> change) {
  const auto outcome = judge_changed(std::move(change));
  const auto* g = std::get_if<GaveUp>(&outcome);
  return g == nullptr ? "" : g->refusal.op + ", " + g->refusal.reason;
}

// Catches: a refusal by documentation taken for a difference, another error taken for a refusal for its
// words, a refusal that no Program should meet and that hides what the engine did to its tensors.
TEST(Judge, TellsRefusalsFromErrorsByTheirType) {
  const auto refuse = [](Refusal why) {
    return [why](EngineResult&) { throw Refused(why, "aten::add_", "[S0]", "cannot; ", "do"); };
  };
  EXPECT_EQ(gave_up(refuse(Refusal::kView)), "aten::add_, view");
  EXPECT_EQ(gave_up(refuse(Refusal::kInPlace)), "aten::add_, in place");
  EXPECT_EQ(gave_up(refuse(Refusal::kStaleRead)), "aten::add_, stale read");
  EXPECT_EQ(gave_up([](EngineResult&) { throw NotBuilt("later"); }), "aten::neg, not built");
  for (const auto why : {Refusal::kPlain, Refusal::kNoRule, Refusal::kMeshes, Refusal::kMixedPartial})
    EXPECT_TRUE(fails(refuse(why))) << name(why);
  EXPECT_TRUE(fails([](EngineResult&) {
    throw Error("[aten::add_] cannot run without moving …; call redistribute on it first");
  }));
  EXPECT_TRUE(fails([](EngineResult&) { throw std::runtime_error("anything"); }));
}

// Catches: a composite op that cannot write to what comes of a plain constant, taken for a finding; a plain
// tensor that the Program mixes in itself, taken for that.
TEST(Judge, AConstantThatACompositeWritesToIsARefusal) {
  const auto of = [](const char* op, const std::string& token) {
    const Refused refused(Refusal::kPlain, op, "[S0]", "a plain tensor beside; ", "distribute it");
    return refusal_of(refused, oracle::parse_token(token)).has_value();
  };
  const std::string with =
      "v2:edges;mesh=1x1;seed=0;dev=1x256;x0=f32[1x1]:ones;x1=i64[1]:index@[S0,R];"
      "v0=aten::cross_entropy_loss(x0,x1,none,1,-100,0.1)#89c7ad7e";
  const std::string without =
      "v1:edges;mesh=1x1;seed=0;dev=1x256;x0=f32[1x1]:ones@[R,R];x1=i64[1]:index@[S0,R];"
      "v0=aten::cross_entropy_loss(x0,x1,none,1,-100,0.1)#e4e39f3d";
  EXPECT_TRUE(of("aten::masked_fill_.Scalar", with));
  EXPECT_FALSE(of("aten::cross_entropy_loss", with));
  EXPECT_FALSE(of("aten::masked_fill_.Scalar", without));
}

// Catches: kernels that fail in two ops as one bug.
TEST(Judge, AKernelsErrorIsABugOfItsOp) {
  const auto outcome =
      judge_changed([](EngineResult&) { throw KernelError("aten::mm.out", "on rank 1: no"); });
  EXPECT_EQ(std::get<Failed>(outcome).bucket, "ops | exception | aten::mm.out | R+S | -");
}

}  // namespace
}  // namespace lockstep::suites
