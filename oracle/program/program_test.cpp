// SPDX-License-Identifier: Apache-2.0
// Laws of the text form: a token is its Case, and whatever is not one is refused with a reason.
#include "oracle/program/statements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "engine/values/error.h"

namespace lockstep::oracle {
namespace {

using c10::ScalarType;
using Ints = std::vector<int64_t>;

Target at(std::string_view placements, Ints order = {}) {
  return {parse_placements(placements), std::move(order)};
}

Case matmul_case() {
  Case c;
  c.mesh = DeviceMesh({2, 3});
  c.device = {1, 256};
  c.program.seed = 7;
  c.program.inputs = {{ScalarType::Float, {7, 13}, {1, 0}, {ValueKind::kNormal, 3, 0, 0, {}}, true},
                      {ScalarType::Float, {13, 5}, {}, {ValueKind::kIntegers, 4, -3, 3, {}}, false}};
  c.placements = {at("[S0,R]"), at("[S0,S0]", {1, 0})};
  c.program.calls = {{"aten::mm", {Ref{0}, Ref{1}}, 1},
                     {"lockstep::redistribute", {Ref{2}, at("[R,S1]")}, 1},
                     {"lockstep::backward", {std::vector<Ref>{Ref{3}}, std::vector<Ref>{Ref{2}}}, 1}};
  return c;
}

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// Would catch: any field that the text form leaves out or changes.
TEST(Token, ReadsBackToItsCase) {
  const Case c = matmul_case();
  const std::string token = to_token(c);
  EXPECT_TRUE(
      token.starts_with("v1:program;mesh=2x3;seed=7;dev=1x256;x0=f32[7x13]/1.0:normal(3)@[S0,R]!;"
                        "x1=f32[13x5]:integers(4,-3,3)@[S0,S0]@1.0;v0=aten::mm(x0,x1);"
                        "v1=lockstep::redistribute(v0,@[R,S1]);v2=lockstep::backward(t[v1],t[v0])#"))
      << token;
  EXPECT_EQ(parse_token(token), c);
  EXPECT_EQ(parse_token(" " + token + "\n"), c);
}

// Would catch: units or dimensions of a RaggedShard cut off at a separator of the token.
TEST(Token, KeepsRaggedPlacements) {
  Case c = matmul_case();
  c.program.inputs[0].shape = {9, 13};
  c.placements[0] = at("[G0.1:4/5,S1]");
  std::get<Target>(c.program.calls[1].args[1]) = at("[R,G0:2/0/1]");
  EXPECT_NE(to_token(c).find("(v0,@[R,G0:2/0/1])"), std::string::npos) << to_token(c);
  EXPECT_EQ(parse_token(to_token(c)), c);
}

// Would catch: a number that loses bits in text, a type of argument that reads back as another.
TEST(Token, KeepsEveryArgumentExactly) {
  Case c = matmul_case();
  c.suite = "ops";
  c.integer_lane = true;
  c.mesh = DeviceMesh({2, 2}, {"dp", "tp"}, {3, 1, 2, 0});
  c.program.inputs[0].values = {ValueKind::kBits, 0, 0, 0, {0x7fc00001, 0, ~uint64_t{0}}};
  const double third = 1.0 / 3, tiny = std::numeric_limits<double>::denorm_min();
  const double inf = std::numeric_limits<double>::infinity();
  c.program.calls = {
      {"aten::x.y", {None{}, Ref{0}, std::vector<Ref>{}, std::vector<Ref>{Ref{-1}, Ref{1}}, true, false}, 0},
      {"aten::x",
       {int64_t{-3}, std::numeric_limits<int64_t>::min(), 3.0, -0.0, third, tiny, 1e300, inf, -inf},
       3},
      {"aten::z", {Ints{}, Ints{1, -2}, std::vector<double>{}, std::vector<double>{third, 2, -inf}}, 2},
      {"aten::z",
       {std::vector<bool>{}, std::vector<bool>{true, false}, std::string("ij,jk->\"ik'\\ ;#)\n"),
        std::string(), ScalarType::BFloat16, ScalarType::Bool},
       1}};
  const Case back = parse_token(to_token(c));
  EXPECT_EQ(back, c);
  EXPECT_EQ(back.mesh.names(), c.mesh.names());
  EXPECT_TRUE(std::signbit(std::get<double>(back.program.calls[1].args[3])));
}

// Would catch: an option that text loses, a token that cannot be read back, options that describe() hides.
TEST(Token, KeepsOptions) {
  Case c = matmul_case();
  c.options = {{"optimizer", "adamw-fused"}, {"layers", "1"}};
  EXPECT_NE(to_token(c).find(";dev=1x256;options=layers:1,optimizer:adamw-fused;x0="), std::string::npos)
      << to_token(c);
  EXPECT_EQ(parse_token(to_token(c)), c);
  EXPECT_NE(describe(c).find(", options layers:1,optimizer:adamw-fused\n  x0="), std::string::npos)
      << describe(c);
  c.options["text"] = "a b";
  EXPECT_THROW(to_token(c), Error);
}

// Would catch: a NaN argument whose payload or sign is lost.
TEST(Token, KeepsNan) {
  for (const uint64_t bits : {0x7ff8000000000000u, 0xfff8000000000000u, 0x7ff8000000000123u}) {
    Case c = matmul_case();
    c.program.calls = {{"aten::x", {std::bit_cast<double>(uint64_t{bits})}, 1}};
    const Case back = parse_token(to_token(c));
    EXPECT_EQ(std::bit_cast<uint64_t>(std::get<double>(back.program.calls[0].args[0])), bits);
  }
}

// Would catch: rounding in the text of doubles, on any bit pattern.
TEST(Token, KeepsRandomDoubles) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (std::isnan(value)) continue;
    Case c = matmul_case();
    c.program.calls = {{"aten::x", {value}, 1}};
    ASSERT_EQ(parse_token(to_token(c)), c) << value;
  }
}

// Would catch: a checksum that does not see a lost, changed or swapped character.
TEST(Token, RefusesEveryDamagedCharacter) {
  const std::string token = to_token(matmul_case());
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token, cut = token;
    changed[i] = static_cast<char>(changed[i] == '0' ? '1' : '0');
    cut.erase(i, 1);
    EXPECT_THROW(parse_token(changed), Error) << i;
    EXPECT_THROW(parse_token(cut), Error) << i;
    EXPECT_THROW(parse_token(token.substr(0, i)), Error) << i;
  }
}

std::string sealed(const std::string& text) {
  const std::string asked = message([&] { parse_token(text + "#00000000"); });
  return text + "#" + asked.substr(asked.rfind('#') + 1);
}

// x1 and what is computed of it are plain.
Case plain_case() {
  Case c = matmul_case();
  c.placements[1] = {};
  c.program.calls = {{"lockstep::full_tensor", {Ref{0}}, 1},
                     {"aten::mm", {Ref{2}, Ref{1}}, 1},
                     {"lockstep::backward", {std::vector<Ref>{Ref{3}}, std::vector<Ref>{Ref{3}}}, 1}};
  return c;
}

// A local_map with these placements of the operands and their gradients.
Call mapped(std::string op, std::vector<Arg> args, const std::vector<std::string>& placements) {
  Call call{"lockstep::local_map", {std::move(op)}, 1};
  call.args.insert(call.args.end(), args.begin(), args.end());
  for (const auto& p : placements) call.args.emplace_back(at(p));
  call.args.emplace_back(at("[S0,R]"));
  call.args.emplace_back(Ints{7, 13});
  return call;
}

// Would catch: a part of a local_map that is taken for another.
TEST(Statement, ALocalMapIsReadPartByPart) {
  Case c = matmul_case();
  c.program.calls = {
      mapped("aten::add.Tensor", {Ref{0}, Ref{0}, int64_t{1}}, {"[S0,R]", "[S0,R]", "[R,R]", "[P,R]"})};
  EXPECT_NO_THROW(validate(c));
  EXPECT_EQ(parse_token(to_token(c)), c);
  EXPECT_EQ(token_version(c), 2);
  const auto map = local_map_of(c.program.calls[0]);
  ASSERT_TRUE(map);
  EXPECT_EQ(map->op, "aten::add.Tensor");
  EXPECT_EQ(map->args.size(), 3u);
  EXPECT_EQ(map->operands, (std::vector<Ref>{{0}, {0}}));
  EXPECT_EQ(map->in[1], at("[R,R]"));
  EXPECT_EQ(map->gradients[1], at("[P,R]"));
  EXPECT_EQ(map->out, at("[S0,R]"));
  EXPECT_EQ(map->shape, (Ints{7, 13}));
}

// Would catch: a Case that v1 can write and is told as v2, a statement of v2 in a token that a reader of v1
// takes for one of its own.
TEST(Token, SaysTheVersionThatItNeeds) {
  Case c = plain_case();
  EXPECT_TRUE(
      to_token(c).starts_with("v2:program;mesh=2x3;seed=7;dev=1x256;x0=f32[7x13]/1.0:normal(3)@[S0,R]!;"
                              "x1=f32[13x5]:integers(4,-3,3);v0=lockstep::full_tensor(x0);"))
      << to_token(c);
  EXPECT_EQ(parse_token(to_token(c)), c);
  EXPECT_EQ(plain_values(c), (std::vector<bool>{false, true, true, true, false}));
  const std::string text = to_token(c).substr(3);
  EXPECT_NE(message([&] { parse_token(sealed("v1:" + text.substr(0, text.rfind('#')))); }).find("write v2"),
            std::string::npos);
  EXPECT_EQ(token_version(matmul_case()), 1);
  Case twice = matmul_case();
  twice.program.calls[2].args.emplace_back(true);
  EXPECT_EQ(token_version(twice), 2);
  EXPECT_EQ(parse_token(to_token(twice)), twice);
  Case modes = matmul_case();
  modes.program.calls.insert(modes.program.calls.begin(), {{"lockstep::set_grad_enabled", {false}, 0},
                                                           {"lockstep::scale_gradient", {Ref{0}, 0.5}, 0}});
  EXPECT_NE(
      to_token(modes).find(";[]=lockstep::set_grad_enabled(false);[]=lockstep::scale_gradient(x0,0.5);v0="),
      std::string::npos);
  EXPECT_EQ(parse_token(to_token(modes)), modes);
  const std::string old = to_token(matmul_case()).substr(3);
  EXPECT_EQ(parse_token(sealed("v2:" + old.substr(0, old.rfind('#')))), matmul_case());
}

// Would catch: forged words that a token loses or that a reader of v1 passes over, Philox's written out, so
// that one Case has two tokens.
TEST(Token, SaysWhoseWordsTheStreamHas) {
  Case c = matmul_case();
  c.words = RandomWords::kEdges;
  const std::string token = to_token(c), text = token.substr(3, token.rfind('#') - 3);
  EXPECT_TRUE(token.starts_with("v2:")) << token;
  EXPECT_NE(token.find(";words=edges;x0="), std::string::npos) << token;
  EXPECT_EQ(parse_token(token), c);
  EXPECT_NE(describe(c).find(", words edges\n  x0="), std::string::npos) << describe(c);
  const auto said = [&](const std::string& words) {
    auto changed = "v2:" + text;
    return message([&] { parse_token(sealed(changed.replace(changed.find("edges"), 5, words))); });
  };
  EXPECT_NE(said("philox").find("not written out"), std::string::npos) << said("philox");
  EXPECT_NE(said("twos").find("'twos' is none of"), std::string::npos) << said("twos");
  EXPECT_NE(message([&] { parse_token(sealed("v1:" + text)); }).find("forged words"), std::string::npos);
}

// Would catch: a message that does not say what is wrong and where.
TEST(Token, SaysWhatIsWrong) {
  EXPECT_NE(message([] {
              parse_token("v9:program#00000000");
            }).find("version v9; this program understands v1 and v2"),
            std::string::npos);
  EXPECT_NE(message([] { parse_token("hello"); }).find("not a replay token"), std::string::npos);
  EXPECT_NE(message([] { parse_token(""); }).find("not a replay token"), std::string::npos);
  EXPECT_NE(message([] { parse_token("v1:program;mesh=2"); }).find("cut short"), std::string::npos);
  const std::string head = "v1:program;mesh=2;seed=0;dev=1x256";
  EXPECT_EQ(message([&] { parse_token(sealed(head)); }), "no error");
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"v1:program;mesh=0x2;seed=0;dev=1x256", "0x2"},
      {"v1:program;mesh=2;seed=-1;dev=1x256", "integer"},
      {"v1:program;mesh=2;seed=99999999999999999999;dev=1x256", "64 bits"},
      {head + ";options=", "an option's name"},
      {head + ";options=steps", "expected ':'"},
      {head + ";options=steps:1,", "an option's name"},
      {head + ";options=steps:1,layers:2", "in order"},
      {head + ";options=steps:1,steps:1", "once"},
      {head + ";x1=f32[2]:zeros@[R]", "numbered"},
      {head + ";x0=f99[2]:zeros@[R]", "f99"},
      {head + ";x0=f32[2x]:zeros@[R]", "2x"},
      {head + ";x0=f32[2]:fog@[R]", "fog"},
      {head + ";x0=f32[2]:zeros@[Q]", "Q"},
      {head + ";v1=aten::neg(x0)", "numbered"},
      {head + ";v0=aten::neg(x0)", "no input x0"},
      {head + ";v0=aten::neg(wat)", "wat"},
      {head + ";v0=aten::neg(\"a", "without an end"},
      {head + ";v0=aten::neg(1", "expected ')'"},
      {head + ";v0=aten::neg(1);x0=f32[2]:zeros@[R]", "after the first call"},
      {head + ";", "result"},
  };
  for (const auto& [text, expected] : bad) {
    const std::string said = message([&] { parse_token(sealed(text)); });
    EXPECT_NE(said.find(expected), std::string::npos) << text << "\n" << said;
    EXPECT_NE(said.find("at character"), std::string::npos) << said;
  }
}

// Would catch: a Program that would crash or mislead the evaluation.
TEST(Validate, NamesTheFault) {
  EXPECT_NO_THROW(validate(matmul_case()));
  const auto said = [](const std::function<void(Case&)>& change) {
    Case c = matmul_case();
    change(c);
    return message([&] { validate(c); });
  };
  using Calls = std::vector<Call>;
  const std::vector<std::pair<std::string, std::function<void(Case&)>>> faults = {
      {"defined later or never", [](Case& c) { c.program.calls[0].args[1] = Ref{2}; }},
      {"does not exist", [](Case& c) { c.program.calls[0].args[1] = Ref{-1}; }},
      {"takes 2 arguments", [](Case& c) { c.program.calls[0].args.pop_back(); }},
      {"another type", [](Case& c) { c.program.calls[0].args[1] = 2.5; }},
      {"no such operator", [](Case& c) { c.program.calls[0].op = "aten::nonsense"; }},
      {"overloads aten::sum",
       [](Case& c) {
         c.program.calls = Calls{{"aten::sum.nonsense", {Ref{0}}, 1}};
       }},
      {"no such operator", [](Case& c) { c.program.calls[1].op = "lockstep::nonsense"; }},
      {"has 1 results, not 2", [](Case& c) { c.program.calls[0].results = 2; }},
      {"needs 2 placements", [](Case& c) { c.program.calls[1].args[1] = at("[R]"); }},
      {"one result for each", [](Case& c) { c.program.inputs[1].requires_grad = true; }},
      {"an input that requires a gradient", [](Case& c) { c.program.inputs[0].requires_grad = false; }},
      {"as many gradients", [](Case& c) { c.program.calls[2].args[1] = std::vector<Ref>{}; }},
      {"placements for 1", [](Case& c) { c.placements.pop_back(); }},
      {"memory order",
       [](Case& c) {
         c.program.inputs[0].memory_order = {0, 0};
       }},
      {"cannot require a gradient", [](Case& c) { c.program.inputs[0].dtype = ScalarType::Long; }},
      {"empty range", [](Case& c) { c.program.inputs[1].values.high = -4; }},
      {"bits for 1",
       [](Case& c) {
         c.program.inputs[1].values = {ValueKind::kBits, 0, 0, 0, {1}};
       }},
  };
  for (const auto& [expected, change] : faults) {
    EXPECT_NE(said(change).find(expected), std::string::npos) << expected << "\n" << said(change);
  }
  EXPECT_THROW(
      {
        Case c = matmul_case();
        c.placements[0] = at("[S5,R]");
        validate(c);
      },
      Error);
}

// Would catch: local tensors of what has none, a rule that does not hold for terms, a write that nobody sees.
TEST(Validate, NamesTheFaultOfALocalMap) {
  using Change = std::function<void(Case&)>;
  const std::vector<std::pair<std::string, Change>> faults = {
      {"it takes an op",
       [](Case& c) {
         c.program.calls[1] = {"lockstep::local_map", {Ref{0}}, 1};
       }},
      {"aten::neg does not fit",
       [](Case& c) {
         c.program.calls[1] = mapped("aten::neg", {Ref{0}, Ref{0}}, {"[S0,R]", "[S0,R]", "[S0,R]", "[S0,R]"});
       }},
      {"has no local tensors",
       [](Case& c) {
         c.program.calls[1] = mapped("aten::neg", {Ref{2}}, {"[S0,R]", "[S0,R]"});
       }},
      {"where one operand is the terms of a sum",
       [](Case& c) {
         c.program.calls[1] = mapped("aten::neg", {Ref{0}}, {"[P,R]", "[R,R]"});
       }},
      {"aten::exp of the terms of a sum is no term of its result; reduce what pends first",
       [](Case& c) {
         c.program.calls[1] = mapped("aten::exp", {Ref{0}}, {"[P,R]", "[R,R]"});
       }},
      {"is replicated where that pends",
       [](Case& c) {
         c.program.calls[1] = mapped("aten::neg", {Ref{0}}, {"[P,R]", "[P,R]"});
       }},
      {"the result of an op in place is its first operand",
       [](Case& c) {
         c.program.calls[1] = mapped("aten::neg_", {Ref{0}}, {"[R,R]", "[R,R]"});
       }},
      {"writes to more than the local tensors of its first operand",
       [](Case& c) {
         c.program.calls[1] = mapped("aten::t_", {Ref{0}}, {"[S0,R]", "[S0,R]"});
       }},
      {"a gradient is placed as",
       [](Case& c) {
         c.program.calls[1] = mapped("aten::neg", {Ref{0}}, {"[S0,R]", "[P,R]"});
       }},
      {"needs 2 placements",
       [](Case& c) {
         c.program.calls[1] = mapped("aten::neg", {Ref{0}}, {"[S0]", "[S0]"});
       }},
  };
  for (const auto& [expected, change] : faults) {
    Case c = plain_case();
    change(c);
    EXPECT_NE(message([&] { validate(c); }).find(expected), std::string::npos)
        << expected << message([&] { validate(c); });
  }
}

// Would catch: a statement about placements that is asked of what has none, or takes what it cannot.
TEST(Validate, NamesTheFaultOfAPlainValue) {
  using Change = std::function<void(Case&)>;
  const std::vector<std::pair<std::string, Change>> faults = {
      {"a plain tensor has no placements",
       [](Case& c) {
         c.program.calls[1] = {"lockstep::redistribute", {Ref{2}, at("[R,R]")}, 1};
       }},
      {"is a plain tensor already",
       [](Case& c) {
         c.program.calls[1] = {"lockstep::full_tensor", {Ref{2}}, 1};
       }},
      {"of a plain tensor is a plain tensor",
       [](Case& c) { c.program.calls[2].args[1] = std::vector<Ref>{Ref{0}}; }},
      {"has no stream",
       [](Case& c) {
         c.program.calls[1] = {"aten::dropout", {Ref{2}, 0.5, true}, 1};
       }},
      {"takes one value",
       [](Case& c) {
         c.program.calls[1] = {"lockstep::item", {}, 1};
       }},
      {"takes true or false",
       [](Case& c) {
         c.program.calls[1] = {"lockstep::set_grad_enabled", {}, 1};
       }},
      {"has no result",
       [](Case& c) {
         c.program.calls[1] = {"lockstep::scale_gradient", {Ref{2}, 0.5}, 1};
       }},
      {"as many gradients",
       [](Case& c) {
         c.program.calls[2] = {"lockstep::accumulate", {Ref{2}}, 1};
       }},
      {"takes two values",
       [](Case& c) {
         c.program.calls[1] = {"lockstep::equal", {Ref{2}}, 1};
       }},
  };
  EXPECT_NO_THROW(validate(plain_case()));
  for (const auto& [expected, change] : faults) {
    Case c = plain_case();
    change(c);
    EXPECT_NE(message([&] { validate(c); }).find(expected), std::string::npos)
        << expected << message([&] { validate(c); });
  }
}

// Would catch: a block of what must not run twice, or without an end or a beginning that is meant.
TEST(Validate, NamesWhatACheckpointMayNotHold) {
  const auto block = [](std::vector<Call> inside, std::vector<Call> behind) {
    Case c = matmul_case();
    c.program.calls = {{"lockstep::checkpoint", {true}, 0}, {"aten::mm", {Ref{0}, Ref{1}}, 1}};
    c.program.calls.insert(c.program.calls.end(), inside.begin(), inside.end());
    c.program.calls.push_back({"lockstep::checkpoint_end", {}, 0});
    c.program.calls.insert(c.program.calls.end(), behind.begin(), behind.end());
    return c;
  };
  const Call back{"lockstep::backward", {std::vector<Ref>{{2}}, std::vector<Ref>{{2}}}, 1};
  const Call twice{"lockstep::backward", {std::vector<Ref>{{2}}, std::vector<Ref>{{2}}, true}, 1};
  const std::pair<std::string, Case> faults[] = {
      {"call 2, aten::relu_, writes", block({{"aten::relu_", {Ref{2}}, 1}}, {})},
      {"goes back", block({back}, {})},
      {"says how calls run", block({{"lockstep::checkpoint", {true}, 0}}, {})},
      {"no history of their own", block({}, {twice})},
      {"there is no checkpoint to end", block({}, {{"lockstep::checkpoint_end", {}, 0}})},
  };
  EXPECT_NO_THROW(validate(block({}, {back})));
  EXPECT_EQ(parse_token(to_token(block({}, {back}))), block({}, {back}));
  for (const auto& [expected, c] : faults)
    EXPECT_NE(message([&] { validate(c); }).find(expected), std::string::npos)
        << expected << message([&] { validate(c); });
}

// Would catch: a description that loses a call or shows another program.
TEST(Describe, ShowsEveryStatement) {
  const std::string text = describe(matmul_case());
  EXPECT_NE(text.find("mesh 2x3, seed 7"), std::string::npos);
  EXPECT_NE(text.find("\n  x0=f32[7x13]"), std::string::npos);
  EXPECT_NE(text.find("\n  v0=aten::mm(x0,x1)\n"), std::string::npos);
  EXPECT_NE(text.find("\n  v2=lockstep::backward(t[v1],t[v0])\n"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
}

// Would catch: a part of the header that is shown as if it were a statement, or that the first line hides.
TEST(Describe, TellsTheHeaderInItsFirstLine) {
  struct Header {
    std::function<void(Case&)> change;
    std::string told;
  };
  const Header headers[] = {
      {[](Case& c) { c.integer_lane = true; }, ", integer lane\n  x0="},
      {[](Case& c) { c.numerics = Lane::kFast; }, ", fast lane\n  x0="},
      {[](Case& c) { c.words = RandomWords::kEdges; }, ", words edges\n  x0="},
      {[](Case& c) {
         c.options = {{"layers", "1"}};
       },
       ", options layers:1\n  x0="},
      {[](Case& c) {
         c.mesh = DeviceMesh({2, 3}, {}, {5, 4, 3, 2, 1, 0});
       },
       "device 1x256\n  x0="},
  };
  const Case plain = matmul_case();
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  for (const auto& [change, told] : headers) {
    Case c = plain;
    change(c);
    EXPECT_NE(describe(c).find(told), std::string::npos) << describe(c);
    EXPECT_EQ(lines(describe(c)), lines(describe(plain))) << describe(c);
  }
}

}  // namespace
}  // namespace lockstep::oracle
