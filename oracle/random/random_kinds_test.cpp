// SPDX-License-Identifier: Apache-2.0
// Every kind of random call against digests that an independent implementation computed in exact rational
// arithmetic, by inverting the launches instead of running them; and what stock refuses.
#include <gtest/gtest.h>

#include <limits>

#include "engine/values/error.h"
#include "oracle/random/random_launches.h"
#include "oracle/random/random_simulation_thread.h"
#include "oracle/random/testing.h"

namespace lockstep::oracle {
namespace {

const DeviceModel kOneBlock{1, 256};
const RandomState kState{1234, 8};

struct Row {
  RandomKind kind;
  double a, b;
  c10::ScalarType dtype;
  uint64_t digest;
};

// 3000 elements on one block of threads: two to six draws a thread.
void expect_digests(const std::vector<Row>& rows) {
  for (const auto& row : rows)
    EXPECT_EQ(fnv(draw(call_of(row.kind, row.dtype, {3000}, row.a, row.b), kState, kOneBlock)), row.digest)
        << "kind " << static_cast<int>(row.kind) << " " << dtype_name(row.dtype);
}

// Would catch: an operation of the fixed formulas done otherwise or in another precision, an argument rounded
// late, a lane or draw exchanged.
TEST(RandomKinds, DistributionsWithFixedFormulas) {
  expect_digests({{RandomKind::kExponential, .7, 0, at::kFloat, 0x2159f45354422f03},
                  {RandomKind::kExponential, .7, 0, at::kDouble, 0x6640a7229bae78c9},
                  {RandomKind::kExponential, .7, 0, at::kBFloat16, 0x952bbd6bf24abd46},
                  {RandomKind::kCauchy, 1, .3, at::kFloat, 0x31dd3b15a6e7d46e},
                  {RandomKind::kCauchy, 1, .3, at::kDouble, 0xc9b7f1da4f2d3c24},
                  {RandomKind::kLogNormal, .5, 1.5, at::kFloat, 0xa42186a0f6b69e91},
                  {RandomKind::kLogNormal, .5, 1.5, at::kDouble, 0x065346579a2f1d68},
                  {RandomKind::kLogNormal, .5, 1.5, at::kHalf, 0xf69b24e73728e04c},
                  {RandomKind::kGeometric, .05, 0, at::kFloat, 0xbae93559774d474c},
                  {RandomKind::kGeometric, .05, 0, at::kDouble, 0x59ecf6194635807b},
                  {RandomKind::kGeometric, .05, 0, at::kLong, 0x70e9a2e4ae98448d},
                  {RandomKind::kGeometric, .05, 0, at::kByte, 0x352e9299b2e99c13},
                  {RandomKind::kRreluNoise, 1.0 / 8, 1.0 / 3, at::kFloat, 0xb49d5a733aa0c7b2},
                  {RandomKind::kRreluNoise, 1.0 / 8, 1.0 / 3, at::kDouble, 0xaf85330aee62b2b9},
                  {RandomKind::kRreluNoise, 1.0 / 8, 1.0 / 3, at::kHalf, 0xcbded429df7deb47},
                  {RandomKind::kRreluNoise, 1.0 / 8, 1.0 / 3, at::kBFloat16, 0xe51278cb69c19a5b}});
}

// The digests in kernels/README.md, of all lanes of the first block of threads 0 to 999. Would catch: the
// text read otherwise than by those who computed them.
TEST(RandomKinds, WitnessesOfTheText) {
  const auto digest = [](RandomKind kind, double a, double b, c10::ScalarType dtype) {
    const int64_t threads = 1024, lanes = dtype == at::kFloat ? 4 : 2;
    const auto x = draw(call_of(kind, dtype, {lanes * threads}, a, b), {0, 0}, {4, 256});
    return fnv(x.view({lanes, threads}).slice(1, 0, 1000).t());
  };
  EXPECT_EQ(digest(RandomKind::kNormal, 0, 1, at::kFloat), 0x89798bb5424833fd);
  EXPECT_EQ(digest(RandomKind::kNormal, 0, 1, at::kDouble), 0x75ff63c4212fe5f6);
  EXPECT_EQ(digest(RandomKind::kLogNormal, .25, 1.5, at::kFloat), 0x14563b1ab0987b0e);
  EXPECT_EQ(digest(RandomKind::kLogNormal, .25, 1.5, at::kDouble), 0x59c339a2d7f7ca7f);
  EXPECT_EQ(digest(RandomKind::kExponential, 1.5, 0, at::kFloat), 0x7b0eddff3540331d);
  EXPECT_EQ(digest(RandomKind::kExponential, 1.5, 0, at::kDouble), 0xb0118817a613c26f);
  EXPECT_EQ(digest(RandomKind::kCauchy, .5, 2, at::kFloat), 0xcda918e7476befca);
  EXPECT_EQ(digest(RandomKind::kCauchy, .5, 2, at::kDouble), 0x23bbd80b777260d9);
  EXPECT_EQ(digest(RandomKind::kGeometric, .3, 0, at::kFloat), 0x4806b77fce9b6ded);
  EXPECT_EQ(digest(RandomKind::kGeometric, .3, 0, at::kDouble), 0x26f582926b0b7e35);
}

// Would catch: a range that is off by one for a dtype, one word where two are drawn, halves exchanged, a
// conversion that does not round as c10's.
TEST(RandomKinds, IntegersWithoutARange) {
  expect_digests({{RandomKind::kRandom, 0, 0, at::kLong, 0x9d993cd07cfeb43c},
                  {RandomKind::kRandom, 0, 0, at::kDouble, 0x9e3fd3d36227fd08},
                  {RandomKind::kRandom, 0, 0, at::kFloat, 0xe5d8171d7611aa2c},
                  {RandomKind::kRandom, 0, 0, at::kHalf, 0x57307a01303e4d7a},
                  {RandomKind::kRandom, 0, 0, at::kBFloat16, 0x38d593f871701590},
                  {RandomKind::kRandom, 0, 0, at::kInt, 0x4167d99287130ed1},
                  {RandomKind::kRandom, 0, 0, at::kShort, 0x7908c0126bc654d8},
                  {RandomKind::kRandom, 0, 0, at::kChar, 0x5bd5c451a6426cfd},
                  {RandomKind::kRandom, 0, 0, at::kByte, 0x00026e08f077befd},
                  {RandomKind::kRandom, 0, 0, at::kBool, 0xb439b57222708e01},
                  {RandomKind::kRandomBits, 0, 0, at::kLong, 0xc0897f499c2c2abc},
                  {RandomKind::kRandomBits, 0, 0, at::kDouble, 0x10d36e02a827662e},
                  {RandomKind::kRandomBits, 0, 0, at::kFloat, 0x9d66c6333b746e7d},
                  {RandomKind::kRandomBits, 0, 0, at::kBFloat16, 0x6900ecac25c13ffc}});
}

// Would catch: bernoulli_(Tensor)'s kernel taken for an ordinary one, doubles drawn for double probabilities.
TEST(RandomKinds, UniformNumbersOfBernoulliTensors) {
  expect_digests({{RandomKind::kBernoulliUniform, 0, 0, at::kFloat, 0x2f21478998c0b1e0},
                  {RandomKind::kBernoulliUniform, 0, 0, at::kDouble, 0x97314a9b6ab03bb7}});
  const auto call = call_of(RandomKind::kBernoulliUniform, at::kFloat, {3000});
  EXPECT_TRUE(draw(call, kState).equal(draw(call, kState, kOneBlock)));  // the same on every device
  EXPECT_EQ(advanced(call), 12U);
  EXPECT_EQ(advanced(call_of(RandomKind::kBernoulliUniform, at::kFloat, {0})), 0U);
}

// Would catch: bernoulli_(Tensor) on a transposed tensor in logical order.
TEST(RandomKinds, BernoulliTensorsFollowTheCommonOrder) {
  const auto rows = draw(call_of(RandomKind::kBernoulliUniform, at::kFloat, {40, 30}), kState);
  auto turned = call_of(RandomKind::kBernoulliUniform, at::kFloat, {30, 40});
  turned.stride = {1, 30};
  EXPECT_TRUE(draw(turned, kState).equal(rows.t()));
  turned.stride = {2, 90};
  EXPECT_THROW(draw(turned, kState), Error);
  auto cube = call_of(RandomKind::kBernoulliUniform, at::kFloat, {4, 5, 6});
  const auto dense = draw(cube, kState);
  cube.shape = {6, 4, 5};
  cube.stride = {1, 30, 6};
  EXPECT_TRUE(draw(cube, kState).equal(dense.permute({2, 0, 1})));
}

// Would catch: rrelu in memory order, or split; slopes outside of their range.
TEST(RandomKinds, SlopesOfRreluFollowTheLogicalIndex) {
  auto call = call_of(RandomKind::kRreluNoise, at::kFloat, {50, 60}, .125, .25);
  const auto dense = draw(call, kState, kOneBlock);
  call.stride = {1, 50};
  EXPECT_TRUE(draw(call, kState, kOneBlock).equal(dense));
  EXPECT_GE(dense.min().item<double>(), .125);
  EXPECT_LE(dense.max().item<double>(), .25);
  EXPECT_EQ(advanced(call, kOneBlock), 12U);  // 3000 elements, 1024 a draw of all threads
  EXPECT_EQ(advanced(call_of(RandomKind::kRreluNoise, at::kDouble, {50, 60}), kOneBlock), 24U);
}

// Would catch: samples numbered without the padding to blocks of 128; more rows of blocks than a grid has;
// later distributions of a thread from its first draw.
TEST(RandomKinds, UniformNumbersOfMultinomial) {
  const auto few = call_of(RandomKind::kMultinomialUniform, at::kFloat, {7, 300});
  const auto many = call_of(RandomKind::kMultinomialUniform, at::kFloat, {65540, 1});
  EXPECT_EQ(fnv(draw(few, kState)), 0xe9ff9e4ec3724f81);
  EXPECT_EQ(fnv(draw(many, kState)), 0xd6bd154b041c190a);
  EXPECT_EQ(advanced(few), 4U);
  EXPECT_EQ(advanced(many), 8U);
  EXPECT_EQ(draw(many, kState)[65536][0].item<float>(), unit_float([] {
              ThreadGenerator second_row(1234, 128, 8);
              second_row.next();
              return second_row.next()[0];
            }()));
}

// Would catch: a logarithm of 0 for p = 1, or no draw for it; an exponential value of 0 for u = 1.
TEST(RandomKinds, EdgesOfDistributions) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kInt}) {
    const auto certain = draw(call_of(RandomKind::kGeometric, dtype, {500}, 1), kState);
    EXPECT_TRUE(certain.to(at::kDouble).eq(1).all().item<bool>());
  }
  EXPECT_EQ(advanced(call_of(RandomKind::kGeometric, at::kInt, {500}, 1), kOneBlock), 4U);
  EXPECT_EQ(unit_float(0xffffffff), 1);
  const auto positive = draw(call_of(RandomKind::kExponential, at::kHalf, {200000}, 1000), kState, kOneBlock);
  EXPECT_GE(positive.to(at::kDouble).min().item<double>(), 0);
  const auto heavy = draw(call_of(RandomKind::kCauchy, at::kFloat, {500000}), kState, kOneBlock);
  EXPECT_TRUE(heavy.isfinite().all().item<bool>());
}

// Would catch: a dtype served for which stock has no kernel, or refused though it has one.
TEST(RandomKinds, DtypesAreStocks) {
  using K = RandomKind;
  const auto is_served = [](K kind, c10::ScalarType dtype) {
    auto call = call_of(kind, dtype, {kind == K::kMultinomialUniform ? 3 : 6}, .25, .5);
    if (kind == K::kMultinomialUniform) call = call_of(kind, dtype, {3, 2});
    call.high = 2;
    try {
      draw(call, kState);
      return true;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(dtype_name(dtype)), std::string::npos) << e.what();
      return false;
    }
  };
  struct Kinds {
    std::vector<K> kinds;
    std::string served;  // one letter a dtype of the list below
  };
  const c10::ScalarType dtypes[] = {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
                                    at::kInt,    at::kShort, at::kChar, at::kByte,     at::kBool};
  const Kinds table[] = {
      {{K::kUniform, K::kNormal, K::kLogNormal, K::kExponential, K::kCauchy, K::kDropoutMask, K::kRreluNoise},
       "yyyy------"},
      {{K::kGeometric}, "yyyyyyyyy-"},
      {{K::kBernoulli, K::kRandint, K::kRandom}, "yyyyyyyyyy"},
      {{K::kBernoulliUniform}, "yy--------"},
      {{K::kMultinomialUniform}, "-y--------"},
      {{K::kRandomBits}, "yy-yy-----"},
      {{K::kRandperm}, "yyy-yyyyy-"}};
  for (const auto& row : table)
    for (const auto kind : row.kinds)
      for (size_t i = 0; i < row.served.size(); ++i)
        EXPECT_EQ(is_served(kind, dtypes[i]), row.served[i] == 'y')
            << static_cast<int>(kind) << " " << dtype_name(dtypes[i]);
}

// Would catch: a call that stock refuses, or whose indices overflow there, answered with numbers.
TEST(RandomKinds, CallsAreStocks) {
  constexpr auto kLeast = std::numeric_limits<int64_t>::min();
  for (const auto& empty : {integers(3, 5, 5), integers(3, 5, 4), integers(3, kLeast, kLeast)})
    EXPECT_THROW(draw(empty, kState), Error);
  EXPECT_THROW(draw(integers(3, -1, 5, at::kByte), kState), Error);
  EXPECT_THROW(draw(integers(3, 0, 257, at::kByte), kState), Error);
  EXPECT_THROW(draw(integers(3, 0, 65506, at::kHalf), kState), Error);
  EXPECT_THROW(draw(integers(3, 0, 3, at::kBool), kState), Error);
  EXPECT_EQ(draw(integers(3, 255, 256, at::kByte), kState).max().item<int64_t>(), 255);
  EXPECT_GE(draw(integers(3, 0, kLeast), kState).min().item<int64_t>(), 0);  // to the largest int64
  EXPECT_THROW(draw(call_of(RandomKind::kRandperm, at::kLong, {2, 2}), kState), Error);
  EXPECT_THROW(draw(call_of(RandomKind::kMultinomialUniform, at::kFloat, {6}), kState), Error);
  const auto refuses = [](const RandomCall& call) {
    RandomState state;
    EXPECT_THROW(SimulatedSource().fill(call, at::Tensor(), {}, state), Error);
    EXPECT_EQ(state, RandomState{});
  };
  refuses(call_of(RandomKind::kRreluNoise, at::kHalf, {int64_t{1} << 31}));
  refuses(call_of(RandomKind::kMultinomialUniform, at::kFloat, {65535, 40000}));
  refuses(call_of(RandomKind::kRandperm, at::kByte, {257}));
  refuses(call_of(RandomKind::kRandperm, at::kHalf, {2050}));
  refuses(call_of(RandomKind::kRandperm, at::kLong, {int64_t{1} << 31}));
}

}  // namespace
}  // namespace lockstep::oracle
