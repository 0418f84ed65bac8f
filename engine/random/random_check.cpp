// SPDX-License-Identifier: Apache-2.0
#include "engine/random/random_check.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <limits>

#include "engine/random/integer_range.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"

namespace lockstep {
namespace {

struct Facts {
  RandomKind kind;
  const char* op;
  std::optional<Values> values;
};
constexpr Facts kFacts[] = {
    {RandomKind::kUniform, "uniform_", Values::kUniform},
    {RandomKind::kNormal, "normal_", Values::kNormal},
    {RandomKind::kLogNormal, "log_normal_", Values::kLogNormal},
    {RandomKind::kExponential, "exponential_", Values::kExponential},
    {RandomKind::kCauchy, "cauchy_", Values::kCauchy},
    {RandomKind::kGeometric, "geometric_", Values::kGeometric},
    {RandomKind::kBernoulli, "bernoulli_", Values::kBernoulli},
    {RandomKind::kBernoulliUniform, "bernoulli_", Values::kUniformWord},
    {RandomKind::kRandint, "random_", Values::kInteger},
    {RandomKind::kRandom, "random_", Values::kInteger},
    {RandomKind::kRandomBits, "random_", Values::kInteger},
    {RandomKind::kRandperm, "randperm", std::nullopt},
    {RandomKind::kDropoutMask, "native_dropout", Values::kKeep},
    {RandomKind::kRreluNoise, "rrelu_with_noise", Values::kSlope},
    {RandomKind::kMultinomialUniform, "multinomial", Values::kUniformWord},
};

static_assert(
    [] {
      for (size_t i = 0; i < std::size(kFacts); ++i)
        if (kFacts[i].kind != static_cast<RandomKind>(i)) return false;
      return kFacts[std::size(kFacts) - 1].kind == RandomKind::kMultinomialUniform;
    }(),
    "in the order of the kinds, all of them");

const Facts& facts_of(RandomKind kind) {
  return kFacts[static_cast<size_t>(kind)];
}

// Nothing is drawn for randperm(0), in whatever dtype that counts.
bool is_empty_permutation(const RandomCall& call) {
  return call.kind == RandomKind::kRandperm && call.shape.size() == 1 && call.shape[0] == 0;
}

bool takes_dtype(RandomKind kind, c10::ScalarType dtype) {
  switch (kind) {
    case RandomKind::kBernoulli:
    case RandomKind::kRandint:
    case RandomKind::kRandom:
      return true;
    case RandomKind::kGeometric:
      return dtype != c10::kBool;
    case RandomKind::kRandperm:
      return dtype != c10::kBool && dtype != c10::kBFloat16;
    case RandomKind::kRandomBits:
      return dtype == c10::kLong || (c10::isFloatingType(dtype) && dtype != c10::kHalf);
    case RandomKind::kBernoulliUniform:
      return dtype == c10::kFloat || dtype == c10::kDouble;
    case RandomKind::kMultinomialUniform:
      return dtype == c10::kFloat;
    default:
      return c10::isFloatingType(dtype);
  }
}

bool is_probability(double p) {
  return p >= 0 && p <= 1;
}

// The condition on the arguments a and b, and what it says.
struct Condition {
  bool holds;
  const char* text;
};
Condition condition(const RandomCall& call) {
  switch (call.kind) {
    case RandomKind::kUniform:
    case RandomKind::kRreluNoise:
      return {call.a <= call.b, "the lower bound must not exceed the upper"};
    case RandomKind::kNormal:
      return {call.b >= 0, "std must not be negative"};
    case RandomKind::kLogNormal:
      return {call.b > 0, "std must be positive"};
    case RandomKind::kExponential:
      return {call.a > 0, "the rate must be positive"};
    case RandomKind::kCauchy:
      return {call.b > 0, "sigma must be positive"};
    case RandomKind::kGeometric:
      return {call.a > 0 && call.a <= 1, "p must lie within 0 and 1, without 0"};
    case RandomKind::kBernoulli:
    case RandomKind::kDropoutMask:
      return {is_probability(call.a), "p must lie within 0 and 1"};
    default:
      return {true, ""};
  }
}

// The last integer of [low, high) must be one of the dtype; high may wrap.
void check_integers(const RandomCall& call) {
  const auto last = static_cast<int64_t>(static_cast<uint64_t>(call.high) - 1);
  LOCKSTEP_CHECK(call.low != call.high && call.low <= last, "[random_] low (", call.low,
                 ") must be less than high (", call.high, ").");
  const auto [lowest, highest] = integer_limits(call.dtype);
  LOCKSTEP_CHECK(call.low >= lowest && last <= highest, "[random_] ", call.low, " to ", last,
                 " does not fit into ", dtype_name(call.dtype), "; draw as i64 and cast.");
}

void check_permutation(const RandomCall& call) {
  if (call.shape.size() != 1) throw Broken("a permutation that is not a vector");
  LOCKSTEP_CHECK(call.shape[0] - 1 <= largest_exact_integer(call.dtype), "[randperm] 0 to ",
                 call.shape[0] - 1, " does not fit into ", dtype_name(call.dtype), "; draw as i64 and cast.");
}

constexpr int64_t kMost32 = std::numeric_limits<int32_t>::max();

// Stock's rrelu counts elements in 32 bits.
void check_slopes(const RandomCall& call) {
  const int64_t count = c10::multiply_integers(call.shape);
  LOCKSTEP_CHECK(count <= kMost32, "[rrelu_with_noise] ", count, " elements are more than the ", kMost32,
                 " that stock counts; call it on parts of the tensor.");
}

// Stock's multinomial numbers its threads in 32 bits: 128 samples a block, a row of blocks for each of up to
// 65535 distributions.
void check_samples(const RandomCall& call) {
  if (call.shape.size() != 2) throw Broken("numbers of multinomial that are not distributions by samples");
  const int64_t rows = std::min<int64_t>(call.shape[0], 65535), blocks = (call.shape[1] + 127) / 128;
  LOCKSTEP_CHECK(rows == 0 || blocks <= kMost32 / 128 / rows, "[multinomial] ", call.shape[1], " samples of ",
                 call.shape[0], " distributions need more threads than the ", kMost32,
                 " that stock numbers; draw fewer samples in one call.");
}

}  // namespace

const char* op_name(RandomKind kind) {
  return facts_of(kind).op;
}
std::optional<Values> values_of(RandomKind kind) {
  return facts_of(kind).values;
}

void check_random_call(const RandomCall& call) {
  const char* op = op_name(call.kind);
  if (call.shape.size() != call.stride.size()) throw Broken("a random call with unlike shape and stride");
  const bool counts = is_empty_permutation(call) && call.dtype != c10::kBool;
  LOCKSTEP_CHECK(counts || takes_dtype(call.kind, call.dtype), "[", op, "] does not fill a tensor of ",
                 dtype_name(call.dtype), ", as stock does not; draw another dtype and cast.");
  const Condition arguments = condition(call);
  LOCKSTEP_CHECK(arguments.holds, "[", op, "] ", arguments.text, ", but the arguments are ", call.a, " and ",
                 call.b, ".");
  if (call.kind == RandomKind::kRandint) check_integers(call);
  if (call.kind == RandomKind::kRandperm) check_permutation(call);
  if (call.kind == RandomKind::kRreluNoise) check_slopes(call);
  if (call.kind == RandomKind::kMultinomialUniform) check_samples(call);
}

}  // namespace lockstep
