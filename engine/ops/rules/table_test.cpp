// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/rules/table.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include "engine/ops/resolve.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

c10::OperatorHandle find(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

// Catches: an argument read by its place, which differs between overloads; a misspelled one that reads
// another.
TEST(TableTest, ArgumentsAreReadByName) {
  const std::vector<c10::IValue> stable{c10::IValue(), true, 2, false}, plain{c10::IValue(), 1, false};
  EXPECT_EQ(Arguments(find("aten::sort", "stable").schema(), stable).integer("dim"), 2);
  const auto op = find("aten::sort", "");
  const Arguments args(op.schema(), plain);
  EXPECT_EQ(args.integers("dim"), std::vector<int64_t>{1});
  EXPECT_EQ(args.find("stable"), nullptr);
  EXPECT_THROW(args.integer("dims"), Broken);
}

// Catches: a rule for one overload that is taken for the others, or not taken back; view(dtype) taken for
// view(size), whose rule says nothing of it.
TEST(TableTest, ARuleMayBeForOneOverload) {
  const auto rule_of = [](const char* name, const char* overload) {
    const auto* entry = resolve(find(name, overload)).entry;
    return entry == nullptr ? "none" : entry->name;
  };
  register_sharding("aten::add.Scalar", [](const OpCall&) { return Rows{}; });
  EXPECT_EQ(rule_of("aten::add", "Scalar"), "aten::add.Scalar");
  EXPECT_EQ(rule_of("aten::add", "Tensor"), "aten::add");
  unregister_sharding("aten::add.Scalar");
  EXPECT_EQ(rule_of("aten::add", "Scalar"), "aten::add");
  EXPECT_EQ(rule_of("aten::view", "dtype"), "none");
  EXPECT_EQ(rule_of("aten::view", ""), "aten::view");
}

}  // namespace
}  // namespace lockstep
