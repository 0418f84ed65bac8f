// SPDX-License-Identifier: Apache-2.0
// Law: every row of an op's rule is true: the op on slices so placed gives, placed as the row says, the plain
// answer, in every bit wherever the op is exact on small integers; what is bypassed, on whatever placements,
// comes out as by the rows. Rows that would be true and are missing are counted and named; they cost bytes,
// not bits.
#include "engine/ops/decide.h"
#include "engine/ops/rules/table.h"
#include "engine/values/error.h"
#include "generators/cases/metamorphic.h"
#include "generators/cases/programs.h"
#include "oracle/program/statements.h"
#include "suites/laws/bypassed.h"
#include "suites/laws/laws.h"
#include "suites/laws/row_check.h"
#include "suites/laws/sample_call.h"

namespace lockstep::suites {
namespace {

using oracle::Case;

// Ops with a rule of their own that a plain kernel can answer.
const std::vector<const generators::OpTemplate*>& ruled_ops() {
  static const auto all = [] {
    std::vector<const generators::OpTemplate*> list;
    for (const auto& t : generators::op_templates()) {
      const auto* entry = find_op(oracle::stem(t.op));
      if (entry != nullptr && (entry->kind == OpKind::kValue || entry->kind == OpKind::kView) &&
          !t.in_place())
        list.push_back(&t);
    }
    return list;
  }();
  return all;
}

// The Row's conditions: what must divide, divides.
bool applies(const Row& row, const OpCall& call, int64_t ranks) {
  for (const auto& [input, dim] : row.even)
    if (call.inputs[input].shape[static_cast<size_t>(dim)] % ranks != 0) return false;
  for (const auto dim : row.even_outputs)
    if (call.outputs[0].shape[static_cast<size_t>(dim)] % ranks != 0) return false;
  return true;
}

bool same_inputs(const Row& row, const Placements& inputs) {
  return row.inputs == inputs;
}

// Of the many combinations of ops with many tensors, the first ones.
void each_combination(const std::vector<std::vector<Placement>>& candidates, int64_t most,
                      const std::function<void(const Placements&)>& visit) {
  Placements chosen;
  const std::function<void()> extend = [&] {
    if (most <= 0) return;
    if (chosen.size() == candidates.size()) return --most, visit(chosen);
    for (const auto& p : candidates[chosen.size()]) {
      chosen.push_back(p);
      extend();
      chosen.pop_back();
    }
  };
  extend();
}

bool all_replicate(const Placements& inputs) {
  return std::all_of(inputs.begin(), inputs.end(), is_replicate);
}

std::vector<std::string> missing_rows(const RowCheck& check, const Rows& rows) {
  std::vector<std::string> missing;
  if (check.outputs() != 1) return missing;  // rows of several results are too many to try
  std::vector<std::vector<Placement>> candidates;
  for (size_t i = 0; i < check.inputs(); ++i) candidates.push_back(check.candidates(i));
  each_combination(candidates, 120, [&](const Placements& inputs) {
    if (all_replicate(inputs)) return;
    if (std::any_of(rows.begin(), rows.end(), [&](const Row& r) { return same_inputs(r, inputs); })) return;
    const auto outputs = check.true_outputs(inputs);
    if (!outputs.empty()) missing.push_back(to_string(inputs) + " -> " + to_string(outputs[0]));
  });
  return missing;
}

// The Case with its inputs, and their redistributions, placed so.
Case placed(Case c, const Placements& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) c.placements[i] = {{inputs[i]}, {}};
  for (auto& call : c.program.calls) {
    if (call.op != oracle::kRedistribute) continue;
    const auto of = static_cast<size_t>(std::get<oracle::Ref>(call.args[0]).id);
    if (of < inputs.size()) call.args[1] = c.placements[of];
  }
  return c;
}

// What pends comes first, where bypasses are easily wrong.
std::vector<Placement> candidates(const oracle::Input& input) {
  std::vector<Placement> all;
  if (at::isFloatingType(input.dtype)) all.emplace_back(Partial{});
  all.emplace_back(Replicate{});
  for (int64_t d = 0; d < std::ssize(input.shape); ++d) all.emplace_back(Shard{d});
  return all;
}

std::optional<Failed> wrong_bypass(const Case& c, EngineUnderTest& engine) {
  std::vector<std::vector<Placement>> all;
  for (const auto& input : c.program.inputs) all.push_back(candidates(input));
  std::optional<Failed> wrong;
  each_combination(all, 40, [&](const Placements& inputs) {
    if (!wrong) wrong = bypassed_otherwise(placed(c, inputs), engine);
  });
  return wrong;
}

}  // namespace

Case rules_case(uint64_t run_seed, int64_t index) {
  const auto& ops = ruled_ops();
  const auto& op = *ops[static_cast<size_t>(index) % ops.size()];
  auto c = generators::exact_op_case(
      generators::random_of_case(run_seed, "rules", static_cast<uint64_t>(index)), op);
  c = generators::replicate_inputs(c);
  c.suite = "rules";
  c.mesh = DeviceMesh({2 + index / std::ssize(ops) % 2});
  oracle::each_target(c, [](oracle::Target& target) { target = {{Replicate{}}, {}}; });
  bool widened = false;
  for (auto& input : c.program.inputs) {
    // In 16 bits there is no room for the terms that a row's Partials have, and the generator did not.
    if (at::isReducedFloatingType(input.dtype)) input.dtype = at::kFloat, widened = true;
    // What tells a wrong row is numbers that differ.
    if (input.values.kind == oracle::ValueKind::kSpecial || input.values.kind == oracle::ValueKind::kOnes ||
        input.values.kind == oracle::ValueKind::kZeros)
      input.values = {oracle::ValueKind::kNormal, input.values.seed, 0, 0, {}};
  }
  // Some ops narrow nothing: a dtype that they are asked for follows.
  for (auto& call : c.program.calls)
    for (auto& arg : call.args)
      if (auto* dtype = std::get_if<c10::ScalarType>(&arg);
          widened && dtype && at::isReducedFloatingType(*dtype))
        *dtype = at::kFloat;
  return c;
}

Outcome judge_rules(const Case& c, EngineUnderTest& engine) {
  if (c.program.calls.empty()) return GaveUp{{"", "no call"}, "no call"};
  const std::string op(oracle::stem(c.program.calls.back().op));
  const auto sample = call_in(c, op, engine);
  if (!sample.logged || sample.entry == nullptr)
    return GaveUp{{op, "not ruled"}, op + " does not reach the rules"};
  std::unique_ptr<RowCheck> check;
  try {
    check = std::make_unique<RowCheck>(c, sample);
  } catch (const Error& e) {
    return GaveUp{{op, "no sample"}, e.what()};
  }
  const auto rows = legal_rows(*sample.entry, sample.call);
  for (const auto& row : rows) {
    if (row.inputs.size() != check->inputs() || row.outputs.size() != check->outputs()) continue;
    if (!applies(row, sample.call, c.mesh.size()) || check->holds(row)) continue;
    return failed("rules", "wrong row", op, placement_pattern({row.inputs}), "",
                  concat("the row ", to_string(row.inputs), " -> ", to_string(row.outputs), " of ", op,
                         " is not true"));
  }
  if (auto wrong = wrong_bypass(c, engine)) return *std::move(wrong);
  Passed passed;
  for (const auto& text : missing_rows(*check, rows))
    passed.note += (passed.note.empty() ? "missing: " : "; ") + text;
  return passed;
}

}  // namespace lockstep::suites
