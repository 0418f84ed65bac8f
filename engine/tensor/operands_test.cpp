// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/operands.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

// Of a call with one plain tensor, or a list of one, and these constants; the hash is the same for all.
CacheKey key_of(const char* name, const char* overload, std::vector<c10::IValue> args) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const auto& resolved = resolve(op);
  auto key = cache_key(op, resolved, args, parse(op, resolved, args), {});
  key.hash = 0;
  return key;
}

// Catches: a key in which a hash, a length or a sign stands for the values that a decision depends on.
TEST(CacheKey, HoldsEachValue) {
  const auto x = at::ones({1});
  const auto rounded = [&](const char* mode) {
    return key_of("aten::div", "Tensor_mode", {x, x, std::string(mode)});
  };
  EXPECT_EQ(rounded("floor"), rounded("floor"));
  EXPECT_FALSE(rounded("floor") == rounded("trunc"));
  const auto scaled = [&](const c10::List<at::Scalar>& factors) {
    return key_of("aten::_foreach_mul", "ScalarList", {std::vector<at::Tensor>{x}, factors});
  };
  EXPECT_EQ(scaled({2.5}), scaled({3.5}));  // no rule reads more of a real number than its sign
  EXPECT_FALSE(scaled({2.5}) == scaled({-2.5}));
  EXPECT_FALSE(scaled({2.5}) == scaled({2}));
  EXPECT_FALSE(scaled({2}) == scaled({3}));
  const auto summed = [&](std::vector<int64_t> dims, bool keep) {
    return key_of("aten::sum", "dim_IntList", {x, std::move(dims), keep, c10::IValue()});
  };
  EXPECT_FALSE(summed({0}, false) == summed({}, false));
  EXPECT_FALSE(summed({0}, false) == summed({0}, true));
}

}  // namespace
}  // namespace lockstep
