// SPDX-License-Identifier: Apache-2.0
// Input values: deterministic, of the promised kind, and placed so that their parts fold to the whole.
#include "oracle/program/values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "engine/values/digest.h"
#include "engine/values/error.h"
#include "engine/values/testing_orders.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/ownership.h"
#include "oracle/program/values_elements.h"
#include "oracle/program/values_terms.h"

namespace lockstep::oracle {
namespace {

const c10::ScalarType kFloats[] = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};
const c10::ScalarType kIntegers[] = {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte, at::kBool};

Case make(ValueKind kind, c10::ScalarType dtype, const std::string& placements,
          const std::string& mesh = "2x3", std::vector<int64_t> shape = {5, 7}, uint64_t seed = 3) {
  Case c;
  Input input;
  input.dtype = dtype;
  input.shape = shape;
  input.values = {kind, seed, -3, 3, {}};
  if (dtype == at::kByte) input.values.low = 0;
  if (kind == ValueKind::kBits)
    for (int64_t i = 0; i < c10::multiply_integers(shape); ++i)
      input.values.bits.push_back(dtype == at::kBool ? static_cast<uint64_t>(i % 2)
                                                     : static_cast<uint64_t>(i * 5 + 1));
  c.program.inputs = {input};
  c.mesh = parse_mesh(mesh);
  auto [p, order] = parse_placements_and_order(placements);
  c.placements = {{p, order}};
  return c;
}

std::string hex(const at::Tensor& t) {
  char text[40];
  const auto d = digest(t);
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(d.hi),
                static_cast<unsigned long long>(d.lo));
  return text;
}

// Would catch: values that change with a version or a machine, so that old tokens replay something else.
TEST(Values, KnownAnswersNeverChange) {
  EXPECT_EQ(hex(make_global(make(ValueKind::kNormal, at::kFloat, "[R,R]"), 0)),
            "2206fda11979842d811a77baf4854d4d");
  EXPECT_EQ(hex(make_global(make(ValueKind::kUniform, at::kBFloat16, "[R,R]"), 0)),
            "e5da15696dd98cc1ddd98b46c7e350be");
  EXPECT_EQ(hex(make_global(make(ValueKind::kIntegers, at::kLong, "[R,R]"), 0)),
            "dad897b21fb2732acde5fe90bda18e91");
  EXPECT_EQ(hex(make_global(make(ValueKind::kSpecial, at::kHalf, "[R,R]"), 0)),
            "0f5e313b968348ae7bbebcc971f4acfb");
  EXPECT_EQ(hex(make_locals(make(ValueKind::kNormal, at::kDouble, "[P,Pavg]"), 0)[4]),
            "053f61b9103c584d64408dc42888317c");
  const std::tuple<c10::ScalarType, const char*, const char*> terms[] = {
      {at::kInt, "[Pprod,Pprod]", "4b1c466a91ee1eef1d81031bc2121ce4"},
      {at::kByte, "[Pmax,Pmax]", "91a802306b8d4af4fc8a4378e97bc822"},
      {at::kShort, "[P,P]", "24bf3e409bd73015966d33ad6e2da617"},
      {at::kBool, "[Pmin,R]", "1aecc6fae4aa95f688697a9225665d82"},
      {at::kHalf, "[Pmin,Pmin]", "b4704c76196740061fd3d94d93844448"},
      {at::kDouble, "[R,Pprod]", "567ab5cbd00f2907e28d230e9850da18"}};
  for (const auto& [dtype, placements, expected] : terms)
    EXPECT_EQ(hex(at::stack(make_locals(make(ValueKind::kIntegers, dtype, placements), 0))), expected)
        << dtype << ' ' << placements;
}

// Would catch: terms whose sum an average divides without a rest only in the default order; a whole that is
// another for them.
TEST(Values, ExactSumsAndAveragesFoldInAnyOrder) {
  const std::pair<const char*, const char*> placed[] = {
      {"[P,Pavg]", "2x3"}, {"[Pavg,P]", "2x3"}, {"[Pavg,Pavg]", "2x3"}, {"[P,Pavg,P]", "2x3x2"}};
  const auto plain = make_global(make(ValueKind::kIntegers, at::kDouble, "[R,R]"), 0);
  for (const auto& [placements, mesh] : placed) {
    const auto c = make(ValueKind::kIntegers, at::kDouble, placements, mesh);
    const Spec spec(c.mesh, c.placements[0].placements, {5, 7}, at::kDouble);
    auto dims = fold_over(spec).mesh_dims;
    do {
      const auto folded = reduce(make_locals(c, 0), spec, fold_over(spec, dims))[0];
      EXPECT_TRUE(folded.equal(plain) && folded.equal(make_global(c, 0))) << placements << folded;
    } while (std::next_permutation(dims.begin(), dims.end()));
  }
}

// Would catch: the seed or the element ignored; values that depend on placement.
TEST(Values, DependOnSeedAndElementOnly) {
  const auto base = make_global(make(ValueKind::kNormal, at::kDouble, "[R,R]"), 0);
  EXPECT_EQ(std::get<0>(at::_unique(base)).numel(), base.numel());
  EXPECT_FALSE(base.equal(make_global(make(ValueKind::kNormal, at::kDouble, "[R,R]", "2x3", {5, 7}, 4), 0)));
  for (const auto* placements : {"[S0,S1]", "[S0,S0]@1.0", "[R,I1x2]"})
    EXPECT_TRUE(base.equal(make_global(make(ValueKind::kNormal, at::kDouble, placements), 0)));
  const auto prefix = make_global(make(ValueKind::kNormal, at::kDouble, "[R,R]", "2x3", {7}), 0);
  EXPECT_TRUE(prefix.equal(base[0]));
}

// Would catch: a distribution far from its name; uniform values that round to 1; integers outside of the
// range.
TEST(Values, KindsAreWhatTheySay) {
  const std::vector<int64_t> shape = {20000};
  for (const auto dtype : kFloats) {
    const auto normal = make_global(make(ValueKind::kNormal, dtype, "[R]", "1", shape), 0).to(at::kDouble);
    EXPECT_NEAR(normal.mean().item<double>(), 0, 0.03);
    EXPECT_NEAR(normal.std().item<double>(), 1, 0.03);
    const auto uniform = make_global(make(ValueKind::kUniform, dtype, "[R]", "1", shape), 0).to(at::kDouble);
    EXPECT_GE(uniform.min().item<double>(), 0);
    EXPECT_LT(uniform.max().item<double>(), 1);
    EXPECT_NEAR(uniform.mean().item<double>(), 0.5, 0.02);
    const auto integers =
        make_global(make(ValueKind::kIntegers, dtype, "[R]", "1", shape), 0).to(at::kDouble);
    EXPECT_EQ(std::get<0>(at::_unique(integers)).numel(), 7);
    EXPECT_EQ(integers.abs().max().item<double>(), 3);
    const auto special = make_global(make(ValueKind::kSpecial, dtype, "[R]", "1", shape), 0);
    EXPECT_GT(special.isnan().sum().item<int64_t>(), 500);
    EXPECT_GT(special.isinf().sum().item<int64_t>(), 500);
    EXPECT_GT(special.eq(0).logical_and(special.signbit()).sum().item<int64_t>(), 500);
    const auto wide = special.to(at::kDouble);
    const double smallest_normal = dtype == at::kHalf ? 0x1p-14 : dtype == at::kDouble ? 0x1p-1022 : 0x1p-126;
    EXPECT_GT(wide.ne(0).logical_and(wide.abs().lt(smallest_normal)).sum().item<int64_t>(), 500);
  }
  for (const auto dtype : kIntegers) {
    const auto special = make_global(make(ValueKind::kSpecial, dtype, "[R]", "1", shape), 0).to(at::kLong);
    EXPECT_EQ(special.min().item<int64_t>(), lowest_integer(dtype));
    EXPECT_EQ(special.max().item<int64_t>(), highest_integer(dtype));
  }
  EXPECT_TRUE(make_global(make(ValueKind::kOnes, at::kHalf, "[R,R]"), 0).eq(1).all().item<bool>());
  EXPECT_TRUE(make_global(make(ValueKind::kZeros, at::kHalf, "[R,R]"), 0).eq(0).all().item<bool>());
  EXPECT_THROW(make_global(make(ValueKind::kBits, at::kFloat, "[R]", "1", {2}), 1), Error);
}

// Would catch: NaNs of one payload only, which would hide a payload that is replaced.
TEST(Values, SpecialNaNsHavePayloads) {
  const auto special = make_global(make(ValueKind::kSpecial, at::kFloat, "[R]", "1", {4000}), 0);
  const auto payloads = special.view(at::kInt).masked_select(special.isnan());
  EXPECT_GT(std::get<0>(at::_unique(payloads)).numel(), payloads.numel() * 9 / 10);
}

// Would catch: bits changed on the way in, byte order or word size mistaken.
TEST(Values, BitsAreExact) {
  auto c = make(ValueKind::kBits, at::kFloat, "[S0,R]", "2x3", {3});
  c.program.inputs[0].values.bits = {0x80000000, 0x7fc01234, 0x3f800001};
  const auto global = make_global(c, 0);
  const uint32_t wanted[] = {0x80000000, 0x7fc01234, 0x3f800001};
  EXPECT_EQ(std::memcmp(global.data_ptr(), wanted, sizeof wanted), 0);
  c.program.inputs[0].values.bits.pop_back();
  EXPECT_THROW(make_global(c, 0), Error);
}

// Would catch: locals that are not the parts of the global, for any kind, dtype, placement or memory order.
TEST(Values, LocalsAssembleToTheGlobal) {
  using enum ValueKind;
  for (const auto kind : {kNormal, kUniform, ValueKind::kIntegers, kSpecial, kIndex, kZeros, kOnes, kBits})
    for (const auto dtype :
         {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf, at::kLong, at::kByte, at::kBool})
      for (const auto* placements : {"[R,R]", "[S0,S1]", "[S1,S1]@1.0", "[P,R]", "[S1,P]", "[P,P]",
                                     "[Pmax,S0]", "[Pmin,Pmin]", "[R,Pprod]", "[Pavg,S1]", "[P,Pavg]"}) {
        const bool averages = std::string(placements).find("avg") != std::string::npos;
        if (averages && !c10::isFloatingType(dtype)) continue;
        auto c = make(kind, dtype, placements);
        for (const bool transposed : {false, true}) {
          if (transposed) c.program.inputs[0].memory_order = {1, 0};
          const auto [global, locals] = make_input(c, 0);
          const auto whole = assemble(locals, spec_of(c, 0));
          ASSERT_FALSE(whole.disagreement) << whole.disagreement->text;
          EXPECT_TRUE(compare(global, whole.global).equal())
              << static_cast<int>(kind) << dtype << placements
              << describe(compare(global, whole.global), dtype);
          EXPECT_EQ(global.strides().vec(),
                    transposed ? (std::vector<int64_t>{1, 5}) : (std::vector<int64_t>{7, 1}));
        }
      }
}

// The last terms first, in pairs.
void mirror(ReductionOrder::Node& node) {
  if (node.kind == ReductionOrder::Kind::kFold) node.kind = ReductionOrder::Kind::kTree;
  std::reverse(node.children.begin(), node.children.end());
  for (auto& child : node.children) mirror(child);
}

// Would catch: integer terms whose sum depends on the order or leaves the lane's bound; a global that the
// terms lose.
TEST(Values, IntegerTermsAreExactInAnyOrder) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kLong})
    for (const auto* placements : {"[P,R]", "[P,P]", "[Pmax,Pmax]", "[Pprod,Pprod]", "[R,Pmin]", "[P,S0]"}) {
      const auto c = make(ValueKind::kIntegers, dtype, placements, "2x4");
      const auto spec = spec_of(c, 0);
      const auto plain = make_global(make(ValueKind::kIntegers, dtype, "[R,R]"), 0);
      const auto locals = make_locals(c, 0);
      auto order = fold_over(spec);
      EXPECT_TRUE(plain.equal(assemble(locals, spec, order).global)) << placements;
      std::reverse(order.mesh_dims.begin(), order.mesh_dims.end());
      order = fold_over(spec, order.mesh_dims);
      mirror(order.slices[0].root);
      EXPECT_TRUE(plain.equal(assemble(locals, spec, order).global)) << placements;
      for (const auto& local : locals) EXPECT_TRUE(local.abs().le(term_bound(3, spec)).all().item<bool>());
    }
  EXPECT_TRUE(make_global(make(ValueKind::kIntegers, at::kFloat, "[Pavg,R]", "4x1"), 0)
                  .equal(make_global(make(ValueKind::kIntegers, at::kFloat, "[R,R]"), 0)));
}

// Would catch: terms alike on all ranks or zero on all but one, which a forgotten or doubled reduction
// survives.
TEST(Values, SumTermsAreAsymmetricAndCancelSigns) {
  for (const auto kind : {ValueKind::kNormal, ValueKind::kIntegers}) {
    const auto c = make(kind, at::kFloat, "[P]", "2", {400});
    const auto [global, locals] = make_input(c, 0);
    const auto halves = locals[0].eq(locals[1]).sum().item<int64_t>();
    EXPECT_LT(halves, 100);
    EXPECT_LT(locals[1].eq(0).sum().item<int64_t>(), 100);
    EXPECT_GT(locals[0].mul(locals[1]).lt(0).sum().item<int64_t>(), 100);
    EXPECT_LT((locals[0] - global).abs().lt(1e-3).sum().item<int64_t>(), 100);
  }
}

}  // namespace
}  // namespace lockstep::oracle
