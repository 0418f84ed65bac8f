// SPDX-License-Identifier: Apache-2.0
#include "suites/bench/serve.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "suites/bench/measure.h"

#include <ATen/ATen.h>

namespace lockstep::suites {
namespace {

Body body(const std::string& name, std::function<void()> check, double value) {
  return {{name, "test", false, false, "us"}, [check, value] {
            return Prepared{check, [value](double) { return value; }, nullptr};
          }};
}

std::string talk(const Bodies& all, const std::string& requests) {
  std::istringstream in(requests);
  std::ostringstream out;
  serve(all, in, out);
  return out.str();
}

// Catches: a change of the protocol that older and newer binaries would not notice.
TEST(Serve, AnswersEachRequestWithOneLine) {
  const Bodies all{body(
                       "a b", [] {}, 0.1),
                   {{"n", "test", true, true, "1"}, [] {
                      return Prepared{[] {}, [](double) { return 3.0; }, {}};
                    }}};
  EXPECT_EQ(
      talk(all, "list\ncheck a b\nsample 0.5 a b\nsample 0 n\ninstructions n\nsample 1 c\ndance a b\nquit\n"),
      "lockstep-bench 1\n"
      "series timed less us test a b\nseries counted more 1 test n\nend\n"
      "ok\nvalue 0x1.999999999999ap-4\nvalue 0x1.8p+1\nnone\nunknown c\nfailed no such request: dance\n");
}

// Catches: a body that is timed although its bits are wrong.
TEST(Serve, WrongBitsAreToldAndOtherErrorsToo) {
  const auto wrong = [] { check_bits("sum", {at::zeros({2})}, {at::ones({2})}); };
  const Bodies all{body("a", wrong, 1), body(
                                            "b", [] { throw std::runtime_error("no\nspace"); }, 1)};
  EXPECT_EQ(talk(all, "check a\ncheck b\n"),
            "lockstep-bench 1\nwrong [sum] result 0 of 1 has wrong bits, shape or dtype\nfailed no space\n");
}

// Catches: a comparison that overlooks the sign of zero, a dtype, a missing tensor.
TEST(CheckBits, SeesWhatEqualityOfNumbersDoesNot) {
  const auto zero = at::zeros({2});
  EXPECT_NO_THROW(check_bits("x", {zero}, {at::zeros({2})}));
  EXPECT_THROW(check_bits("x", {zero}, {zero.neg()}), WrongBits);
  EXPECT_THROW(check_bits("x", {zero}, {zero.to(at::kInt)}), WrongBits);
  EXPECT_THROW(check_bits("x", {zero}, {}), WrongBits);
}

// Catches: storages that are counted twice or not at all, an allocator that stays.
TEST(Counts, TensorAllocations) {
  at::Tensor kept;
  EXPECT_EQ(tensor_allocations([&] { kept = at::empty({4}); }), 1);
  EXPECT_EQ(tensor_allocations([&] { kept.view({2, 2}).t(); }), 0);
  kept = at::Tensor();  // freed by an allocator that is gone
  EXPECT_EQ(tensor_allocations([] {}), 0);
}

// Every counted body gives one number, in a body that is made anew too; every body's bits hold. Catches:
// counts that depend on what was decided before, and bodies that never worked.
TEST(Bodies, CountsRepeatAndNamesAreUnique) {
  std::map<std::string, int> names;
  for (const auto& [series, prepare] : bodies()) {
    EXPECT_EQ(++names[series.name], 1) << series.name;
    if (!series.counted || series.area == "training") continue;
    const auto first = prepare(), second = prepare();
    EXPECT_NO_THROW(first.check()) << series.name;
    const double value = first.sample(0);
    EXPECT_EQ(value, first.sample(0)) << series.name;
    EXPECT_EQ(value, second.sample(0)) << series.name;
  }
}

// What the words of the counts promise. Catches: a count of something else.
TEST(Bodies, CountsAreThoseOfTheWork) {
  const std::map<std::string, double> known = {
      {"dispatch add, 32 shapes twice: decisions", 32},
      {"dispatch add, 2 ranks: tensor allocations", 2},
      {"dispatch transpose, 2 ranks: tensor allocations", 0},
      {"redistribute [R] to [S0] on 8: collectives", 0},
      {"redistribute [S0] to [R] on 8: collectives", 1},
      {"redistribute [S0] to [R] on 8: bytes", 8 * 7 * (128 / 8) * 64 * 4}};
  size_t seen = 0;
  for (const auto& [series, prepare] : bodies())
    if (const auto it = known.find(series.name); it != known.end()) {
      ++seen;
      EXPECT_EQ(prepare().sample(0), it->second) << series.name;
    }
  EXPECT_EQ(seen, known.size());
}

}  // namespace
}  // namespace lockstep::suites
