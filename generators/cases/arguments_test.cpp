// SPDX-License-Identifier: Apache-2.0
// Arguments: each of each op sometimes takes another value than its default.
#include "generators/cases/arguments.h"

#include <gtest/gtest.h>

#include <set>

#include "generators/cases/programs.h"

namespace lockstep::generators {
namespace {

// What stays at its default, and why.
const std::map<std::string, std::string>& unvaried() {
  static const std::map<std::string, std::string> all = {};
  return all;
}

// Would catch: a flag that no case ever sets, so that a rule which ignores it stays unseen; a reason that
// holds no longer.
TEST(Arguments, each_takes_another_value) {
  for (const auto& op : op_templates()) {
    const auto names = arguments_of(op.op);
    std::set<std::string> left(names.begin(), names.end());
    for (uint64_t i = 0; i < 1200 && !left.empty(); ++i) {
      const auto c = op_case(Random(17).split(op.op).split(i), op);
      for (const auto& name : arguments(c)) left.erase(name);
      if (i > 300 && std::all_of(left.begin(), left.end(), [](auto& n) { return unvaried().contains(n); }))
        break;
    }
    for (const auto& name : names)
      EXPECT_EQ(left.contains(name), unvaried().contains(name))
          << name << (left.contains(name) ? " never takes another value" : " does, and needs no reason");
  }
}

// Would catch: a default that is counted as another value, or the reverse.
TEST(Arguments, are_named) {
  oracle::Case c;
  c.program.inputs.push_back({.shape = {4, 4}});
  using oracle::None;
  using oracle::Ref;
  c.program.calls.push_back({"aten::sum.dim_IntList", {Ref{0}, std::vector<int64_t>{-1}, false, None{}}});
  EXPECT_EQ(arguments(c),
            (std::vector<std::string>{"aten::sum.dim_IntList(dim)", "aten::sum.dim_IntList(dim<0)"}));
  c.program.calls[0].args = {Ref{0}, None{}, true, c10::ScalarType::Double};
  EXPECT_EQ(arguments(c),
            (std::vector<std::string>{"aten::sum.dim_IntList(dtype)", "aten::sum.dim_IntList(keepdim)"}));
}

// Would catch: a sparse gradient asked for of a DTensor, which has none.
TEST(Arguments, ask_for_no_sparse_gradient) {
  const auto table = op_templates();
  const auto& gather = *std::find_if(table.begin(), table.end(),
                                     [](auto& t) { return std::string_view(t.op) == "aten::gather"; });
  int64_t set = 0;
  for (const bool backward : {false, true})
    for (uint64_t i = 0; i < 600; ++i) {
      const auto c = op_case(Random(i), gather, backward);
      const auto& call = c.program.calls.at(0);
      if (call.op != gather.op || !std::get<bool>(call.args.at(3))) continue;
      ++set;
      EXPECT_FALSE(c.program.inputs.at(0).requires_grad) << oracle::to_token(c);
    }
  EXPECT_GT(set, 5);
}

}  // namespace
}  // namespace lockstep::generators
