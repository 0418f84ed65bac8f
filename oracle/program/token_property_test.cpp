// SPDX-License-Identifier: Apache-2.0
// Laws of the token on drawn Cases, and on drawn damage to sound ones.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "engine/values/error.h"
#include "oracle/program/program.h"

namespace lockstep::oracle {
namespace {

using rc::gen::arbitrary;
using rc::gen::inRange;

Arg any_arg(int64_t defined) {
  const auto ref = [&] { return Ref{*inRange<int64_t>(0, defined)}; };
  switch (*inRange(0, 11)) {
    case 0:
      return None{};
    case 1:
      return ref();
    case 2:
      return std::vector<Ref>{ref(), Ref{-1}};
    case 3:
      return *arbitrary<bool>();
    case 4:
      return *arbitrary<int64_t>();
    case 5:
      return *arbitrary<double>();
    case 6:
      return *arbitrary<std::vector<int64_t>>();
    case 7:
      return *arbitrary<std::vector<double>>();
    case 8:
      return *arbitrary<std::vector<bool>>();
    case 9:
      return c10::ScalarType::BFloat16;
    default:
      return *arbitrary<std::string>();
  }
}

Values any_values() {
  Values v;
  v.kind = static_cast<ValueKind>(*inRange(0, 8));
  if (v.kind == ValueKind::kBits) v.bits = *arbitrary<std::vector<uint64_t>>();
  const bool seeded = v.kind < ValueKind::kZeros,
             ranged = v.kind == ValueKind::kIntegers || v.kind == ValueKind::kIndex;
  if (seeded) v.seed = *arbitrary<uint64_t>();
  if (ranged) v.low = *arbitrary<int32_t>();
  if (ranged) v.high = v.low + *inRange<int64_t>(0, 1000);
  return v;
}

std::string any_word() {
  return *rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::elementOf(std::string("az09_-."))));
}

// Well formed as text; whether it can run does not matter here.
Case any_case() {
  Case c;
  c.mesh = DeviceMesh({*inRange<int64_t>(1, 5), *inRange<int64_t>(1, 5)});
  c.program.seed = *arbitrary<uint64_t>();
  c.integer_lane = *arbitrary<bool>();
  c.numerics = *arbitrary<bool>() ? Lane::kFast : Lane::kExact;
  c.words = static_cast<RandomWords>(*inRange(0, 5));
  for (auto n = *inRange(0, 4); n > 0; --n) c.options[any_word()] = any_word();
  for (auto n = *inRange(1, 4); n > 0; --n) {
    Input input;
    input.shape = *rc::gen::container<std::vector<int64_t>>(inRange<int64_t>(0, 100));
    input.values = any_values();
    input.requires_grad = *arbitrary<bool>();
    c.program.inputs.push_back(input);
    const Target placed{{Shard{*inRange<int64_t>(0, 9)}, Partial{ReduceOp::kMax}}, {}};
    c.placements.push_back(*inRange(0, 5) == 0 ? Target{} : placed);
  }
  for (auto n = *inRange(0, 4); n > 0; --n) {
    Call call{"aten::some_op.overload", {}, *inRange<int64_t>(0, 3)};
    for (auto args = *inRange(0, 5); args > 0; --args) call.args.push_back(any_arg(c.program.value_count()));
    c.program.calls.push_back(std::move(call));
  }
  return c;
}

// Catches: any argument, number or name that text loses, whatever stands beside it.
TEST(TokenProperty, ReadsBackToItsCase) {
  EXPECT_TRUE(rc::check("round trip", [] {
    const auto c = any_case();
    const auto token = to_token(c);
    RC_LOG() << token << "\n";
    RC_ASSERT(token.find('\n') == std::string::npos);
    RC_ASSERT(token.find('\'') == std::string::npos);
    const auto back = parse_token(token);
    RC_ASSERT(back == c);
    RC_ASSERT(to_token(back) == token);
  }));
}

// The text with the checksum that the refusal of a wrong one names.
std::string sealed(const std::string& text) {
  try {
    parse_token(text + "#0");
  } catch (const Error& e) {
    const std::string what = e.what();
    const auto at = what.rfind('#');
    return at == std::string::npos ? text : text + what.substr(at);
  }
  return text;
}

// A token that people edited and signed anew is refused with an Error, or is the Case that it prints as.
// Catches: a parser that crashes, loops, or skips what it does not know.
TEST(TokenProperty, EditedTokensAreRefusedOrMeanWhatTheyPrint) {
  const std::string sound =
      "v2:program;mesh=dp:2,tp:3;seed=7;dev=1x256;lane=integer;words=edges;options=layers:1,optimizer:adamw-"
      "fused;x0=f32["
      "7x13]/1.0:normal(3)@[S0,I1x2]!;"
      "x1=i64[2]:bits{1f.0}@[S0,S0]@1.0;v0=aten::mm(x0,x1);[v1,v2]=aten::x.y(t[x0,v0],none,true,-1,1.5,[1],"
      "f64);"
      "v3=lockstep::redistribute(v0,@[R,G0:1/2/3])";
  ASSERT_NO_THROW(parse_token(sealed(sound)));
  EXPECT_TRUE(rc::check("edits", [&] {
    auto text = sound;
    for (auto edits = *inRange(1, 4); edits > 0; --edits) {
      const auto at = *inRange<size_t>(3, text.size()), length = *inRange<size_t>(0, 4);
      text.replace(at, length, *rc::gen::container<std::string>(rc::gen::elementOf(sound)));
    }
    RC_LOG() << text << "\n";
    Case c;
    try {
      c = parse_token(sealed(text));
    } catch (const Error&) {
      RC_TAG("refused");
      return;
    }
    RC_TAG("read");
    RC_ASSERT(parse_token(to_token(c)) == c);
  }));
}

}  // namespace
}  // namespace lockstep::oracle
