// SPDX-License-Identifier: Apache-2.0
// Bounds of random_, against what libtorch's own operator draws on the CPU: it shares them with CUDA.
#include "engine/random/integer_range.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/values/error.h"

namespace lockstep {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

IntegerRange randint(int64_t low, int64_t high) {
  return {RandomKind::kRandint, low, high};
}

// Catches: a last integer left out or put in, a wrap where none is, a width of the wrong dtype.
TEST(IntegerRange, WithoutAnEndGoesToTheLargestExactInteger) {
  EXPECT_EQ(integer_range(at::kFloat, -3, {}), randint(-3, (1 << 24) + 1));
  EXPECT_EQ(integer_range(at::kDouble, 0, {}), randint(0, (int64_t{1} << 53) + 1));
  EXPECT_EQ(integer_range(at::kHalf, 0, {}), randint(0, 2049));
  EXPECT_EQ(integer_range(at::kBFloat16, 0, {}), randint(0, 257));
  EXPECT_EQ(integer_range(at::kBool, 0, {}), randint(0, 2));
  EXPECT_EQ(integer_range(at::kByte, 7, {}), randint(7, 256));
  EXPECT_EQ(integer_range(at::kLong, 0, {}), randint(0, kLowest));  // wraps
  EXPECT_EQ(integer_range(at::kLong, kLowest, {}), (IntegerRange{RandomKind::kRandomBits, 0, 0}));
  EXPECT_EQ(integer_range(at::kLong, kLowest, kHighest), randint(kLowest, kHighest));
}

struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// Bounds move inwards: stock draws what integers within the moved ones become in the dtype. Catches: a bound
// that moves outwards or by the wrong step.
TEST(IntegerRange, BoundsThatWouldRoundOutMoveInwards) {
  Silence silence;  // stock warns of inexact bounds
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  struct Given {
    at::ScalarType dtype;
    int64_t from, to;
  };
  const Given rows[] = {{at::kHalf, 0, 65504},        {at::kHalf, 2049, 2099},
                        {at::kHalf, -4101, -4000},    {at::kBFloat16, 257, 700},
                        {at::kBFloat16, -1001, -257}, {at::kFloat, 16777217, 16777300},
                        {at::kHalf, 0, 2048},         {at::kFloat, -33554435, 16777221}};
  for (const auto& row : rows) {
    const auto range = integer_range(row.dtype, row.from, row.to);
    const auto draw = [](at::ScalarType dtype, int64_t from, int64_t to) {
      return at::empty({4000}, dtype).random_(from, to, at::detail::createCPUGenerator(5));
    };
    const auto moved = draw(at::kLong, range.low, range.high).to(row.dtype);
    EXPECT_TRUE(draw(row.dtype, row.from, row.to).equal(moved)) << row.from << " " << row.to;
  }
  EXPECT_EQ(integer_range(at::kHalf, 0, 65504), randint(0, 65472));
}

// Catches: a range that the dtype cannot hold, drawn anyway.
TEST(IntegerRange, RefusesWhatStockRefuses) {
  struct Given {
    at::ScalarType dtype;
    int64_t from;
    std::optional<int64_t> to;
  };
  const Given rows[] = {{at::kChar, 0, 129},   {at::kByte, -1, 5},    {at::kBool, 0, 3},
                        {at::kHalf, 0, 70000}, {at::kHalf, 0, 65506}, {at::kInt, kLowest, {}},
                        {at::kLong, 5, 5},     {at::kChar, 128, {}}};
  EXPECT_THROW(integer_range(at::kHalf, kLowest, {}), Error);  // on CUDA; the stock CPU operator fills it
  for (const auto& row : rows) {
    EXPECT_THROW(integer_range(row.dtype, row.from, row.to), Error) << row.from;
    if (row.to) {
      EXPECT_ANY_THROW(at::empty({4}, row.dtype).random_(row.from, row.to)) << row.from;
    }
  }
}

}  // namespace
}  // namespace lockstep
