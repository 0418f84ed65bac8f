// SPDX-License-Identifier: Apache-2.0
// The oracle's tables of what an op's bits may be, held against the engine's table of ops and the stock
// kernels.
#include "oracle/judge/families.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "engine/ops/rules/table.h"
#include "engine/values/text.h"
#include "generators/cases/programs.h"
#include "oracle/judge/judge_op.h"
#include "oracle/program/program.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/laws/sample_call.h"

namespace lockstep {
namespace {

// Catches: an op with a rule, also one that only backward or an optimizer calls, of which nobody said whether
// a slice may round otherwise than the whole.
TEST(Families, know_each_op_that_has_a_rule) {
  int64_t asked = 0;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto* entry = find_op(name.name);
    const auto handle = c10::Dispatcher::singleton().findSchema(name);
    const auto& overload = name.overload_name;
    const bool writes_given = overload.ends_with("out") || overload == "grad_input";
    if (entry == nullptr || !handle || entry->kind == OpKind::kScalar || writes_given) continue;
    ++asked;
    EXPECT_TRUE(oracle::is_known(oracle::find_operator(*handle)))
        << handle->operator_name()
        << " needs a line in oracle/judge/families.cpp: what its bits may be on a slice";
  }
  EXPECT_GT(asked, 200);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::array kNumbers = {kNan, -kNan, kInf, -kInf, 0.0,  -0.0,  1.0, -1.0,
                                 0.5,  -0.5,  2.0,  3.0,   -3.0, 1e-40, 1e30};
constexpr std::array kScales = {0.01, 1.0, 40.0};
constexpr int64_t kVector = 64;  // more elements than a vector has

// Elements of a dtype, of the kinds of numbers that it has: all of them, or one in four, the others of one of
// a few sizes.
at::Tensor draw_elements(c10::ScalarType dtype, bool all, std::mt19937_64& random) {
  const double scale = kScales[random() % kScales.size()];
  std::normal_distribution<double> normal;
  const auto drawn = at::empty({kVector}, at::kDouble);
  for (int64_t i = 0; i < kVector; ++i)
    drawn.data_ptr<double>()[i] = !c10::isFloatingType(dtype) ? static_cast<double>(random() % 4)
                                  : all || random() % 4 == 0  ? kNumbers[random() % kNumbers.size()]
                                                              : scale * normal(random);
  return drawn.to(dtype);
}

bool is_listed_by_element(const oracle::Operator& op) {
  const auto all = oracle::equal_ops();
  return std::any_of(all.begin(), all.end(), [&](const oracle::EqualOps& e) {
    const auto names = split(e.names, ' ');
    return e.reason.starts_with("each element by itself") &&
           std::find(names.begin(), names.end(), oracle::family_key(op.name)) != names.end();
  });
}

// Whether nothing in the tables lets its kernel give an element another value in its vector body than in its
// scalar tail. Losses are told how many elements there are, or look one up for each of a batch.
bool is_by_element(const oracle::Operator& op) {
  const auto* family = oracle::find_family(op.name);
  const bool forgiven = family != nullptr && !family->local_kernel.empty();
  return (oracle::is_pointwise(op) || is_listed_by_element(op)) && !forgiven && !op.random && !op.composite &&
         op.name.find("_loss") == std::string::npos;
}

// The first result of the op on as many of these elements, from one on; what was 0-d is the first of all.
at::Tensor result_of(const TimelineEntry& entry, const oracle::Operator& op,
                     const std::vector<at::Tensor>& elements, int64_t from, int64_t count) {
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < elements.size(); ++i)
    inputs.push_back(entry.inputs[i].spec->ndim() == 0 ? elements[i][0].clone()
                                                       : elements[i].narrow(0, from, count).clone());
  auto stack = oracle::stack_of(op, entry.args, entry.tensors_per_arg, inputs);
  op.handle.callBoxed(stack);
  return stack.at(0).toTensor().reshape(-1);
}

// Calls of generated cases, each op and its dtypes once.
std::map<std::string, TimelineEntry> calls_by_element() {
  suites::LockstepEngine engine;
  std::map<std::string, TimelineEntry> calls;
  for (const auto& candidate : generators::op_templates())
    for (int64_t i = 0; i < 30; ++i) {
      for (const auto& entry : suites::sampled(candidate, i, engine).timeline) {
        if (!entry.op.starts_with("aten::") || entry.op.starts_with("aten::_foreach_")) continue;
        if (!is_by_element(oracle::find_operator(entry.op))) continue;
        auto key = entry.op;
        for (const auto& r : entry.inputs) key += r.spec ? dtype_name(r.spec->dtype()) : "-";
        calls.emplace(key, entry);
      }
    }
  return calls;
}

// What the stock kernel gives an element alone it gives it among its like, but for the sign of a zero and
// the bits of a NaN, unless the tables say otherwise.
// Catches: an op whose vector body takes another way than its scalar tail for NaN, infinity or a mixed dtype,
// or for one element than for several, and of which nobody said so: a right engine is then called different
// once in a million cases.
TEST(Families, one_element_is_computed_alike_alone_and_among_others) {
  std::mt19937_64 random(1);
  std::set<std::string> other;
  const auto calls = calls_by_element();
  for (const auto& [key, entry] : calls) {
    const auto& op = oracle::find_operator(entry.op);
    for (int trial = 0; trial < 16 && !other.contains(key); ++trial) {
      std::vector<at::Tensor> elements;
      for (const auto& r : entry.inputs)
        elements.push_back(r.spec ? draw_elements(r.spec->dtype(), trial % 4 == 0, random) : at::Tensor());
      const auto among = result_of(entry, op, elements, 0, kVector);
      for (int64_t k = 0; k < among.numel(); ++k) {
        const auto alone = result_of(entry, op, elements, k, 1), there = among.narrow(0, k, 1);
        if (oracle::same_value(alone, there).item<bool>() || !other.insert(key).second) continue;
        std::string values;
        for (size_t i = 0; i < elements.size(); ++i)
          values += concat(" ", elements[i][entry.inputs[i].spec->ndim() == 0 ? 0 : k].item());
        ADD_FAILURE() << key << " of" << values << ": " << alone.item() << " alone, " << there.item()
                      << " among its like";
      }
    }
  }
  EXPECT_GT(calls.size(), 200);
}

}  // namespace
}  // namespace lockstep
