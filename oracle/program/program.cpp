// SPDX-License-Identifier: Apache-2.0
// What a Program must satisfy, and its description for people. Nothing here runs an op.
#include "oracle/program/program.h"

#include <algorithm>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/program/schema.h"
#include "oracle/program/statements.h"

namespace lockstep::oracle {
namespace {

// Names the statement in the messages of its checks.
std::string place(const Program& program, size_t call) {
  return concat("[", program.calls[call].op, "] call ", call, " of the Program: ");
}

bool is_permutation_of(std::vector<int64_t> order, int64_t n) {
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int64_t>(i)) return false;
  }
  return std::ssize(order) == n;
}

void validate_input(const Case& c, size_t i) {
  const Input& input = c.program.inputs[i];
  const std::string who = concat("[x", i, "] ");
  for (const int64_t n : input.shape)
    LOCKSTEP_CHECK(n >= 0, who, "the shape ", shape_text(input.shape), " is negative");
  const auto dims = std::ssize(input.shape);
  LOCKSTEP_CHECK(input.memory_order.empty() || is_permutation_of(input.memory_order, dims), who,
                 "the memory order must be a permutation of its ", dims, " dimensions");
  LOCKSTEP_CHECK(!input.requires_grad || c10::isFloatingType(input.dtype), who, dtype_name(input.dtype),
                 " cannot require a gradient; only floating-point inputs can");
  LOCKSTEP_CHECK(input.values.low <= input.values.high, who, "values from ", input.values.low, " to ",
                 input.values.high, " are an empty range");
  const Target& target = c.placements[i];
  LOCKSTEP_CHECK(!is_plain(target) || target.order.empty(), who, "an order without placements");
  const auto placed =
      is_plain(target) ? Placements(static_cast<size_t>(c.mesh.ndim()), Replicate{}) : target.placements;
  const Spec spec(c.mesh, placed, input.shape, contiguous_strides(input.shape), input.dtype, target.order);
  LOCKSTEP_CHECK(input.values.kind != ValueKind::kBits || std::ssize(input.values.bits) == spec.numel(), who,
                 "has ", spec.numel(), " elements but bits for ", input.values.bits.size());
}

void validate_refs(const Program& program, size_t k, int64_t defined) {
  for (const Arg& arg : program.calls[k].args) {
    for (const Ref& ref : refs_of(arg)) {
      const bool list = std::holds_alternative<std::vector<Ref>>(arg);
      LOCKSTEP_CHECK(ref.id < defined && (ref.id >= 0 || (list && ref.id == -1)), place(program, k),
                     "it reads ", ref.id < 0 ? "a value that does not exist" : value_name(program, ref.id),
                     ", which is defined later or never");
    }
  }
}

void validate_own(const Case& c, size_t k, const std::vector<bool>& plain) {
  const StatementRow* row = find_statement(c.program.calls[k].op);
  if (row == nullptr) {
    std::string names;
    for (const StatementRow& known : statements()) names += concat(names.empty() ? "" : ", ", known.op);
    throw Error(place(c.program, k) + "there is no such operator; Lockstep's own are " + names);
  }
  const std::string problem = row->problem({c, plain, k});
  LOCKSTEP_CHECK(problem.empty(), place(c.program, k), problem);
}

// The result of a factory has no Spec yet; what its shape allows is told when it is made.
void validate_placed(const Case& c, size_t k) {
  for (const Arg& arg : c.program.calls[k].args) {
    const auto* target = std::get_if<Target>(&arg);
    LOCKSTEP_CHECK(target == nullptr || std::ssize(target->placements) == c.mesh.ndim(), place(c.program, k),
                   "the mesh ", c.mesh, " needs ", c.mesh.ndim(), " placements");
  }
}

// A plain tensor is drawn by libtorch's own generator, which is no stream of one device.
void validate_drawn(const Case& c, size_t k, const std::vector<bool>& plain) {
  const Call& call = c.program.calls[k];
  if (!find_operator(call.op).random) return;
  for (const Arg& arg : call.args)
    for (const Ref& ref : refs_of(arg))
      LOCKSTEP_CHECK(ref.id < 0 || !plain[static_cast<size_t>(ref.id)], place(c.program, k), "it draws for ",
                     value_name(c.program, ref.id), ", a plain tensor, which has no stream of one device");
}

void validate_call(const Program& program, size_t k) {
  const Call& call = program.calls[k];
  const Operator& op = find_operator(call.op);
  LOCKSTEP_CHECK(call.args.size() == op.args.size(), place(program, k), "it takes ", op.args.size(),
                 " arguments, all written out, not ", call.args.size(), ": ", op.handle.schema());
  for (size_t i = 0; i < op.args.size(); ++i) {
    LOCKSTEP_CHECK(accepts(op.args[i], call.args[i]), place(program, k), "argument ", i, " (",
                   op.args[i].name, ") has another type than the schema's: ", op.handle.schema());
  }
  LOCKSTEP_CHECK(op.returns_list || op.returns == call.results || !op.returns_tensors, place(program, k),
                 "it has ", op.returns, " results, not ", call.results);
}

// What stands in a token before its statements; the first line of a description says it in words.
bool is_header(const std::string& part) {
  constexpr std::string_view kHeads[] = {
      "v1:", "v2:", "mesh=", "ranks=", "seed=", "dev=", "lane=", "words=", "options=", "numerics="};
  return std::any_of(std::begin(kHeads), std::end(kHeads),
                     [&](const auto head) { return part.starts_with(head); });
}

// ", options layers:1,optimizer:sgd"; nothing where there are none.
std::string options_line(const Case& c) {
  std::string text;
  for (const auto& [name, value] : c.options)
    text += concat(text.empty() ? ", options " : ",", name, ":", value);
  return text;
}

std::string call_line(const std::string& statement) {
  return "  " + statement + "\n";
}

}  // namespace

bool has_partial(const Target& target) {
  const auto& all = target.placements;
  return std::any_of(all.begin(), all.end(), [](const Placement& p) { return is_partial(p); });
}

std::string value_name(const Program& program, int64_t value) {
  const auto inputs = std::ssize(program.inputs);
  return value < inputs ? concat("x", value) : concat("v", value - inputs);
}

int64_t Program::value_count() const {
  auto n = std::ssize(inputs);
  for (const Call& call : calls) n += call.results;
  return n;
}

std::string describe(const Case& c) {
  const std::string token = to_token(c);
  const bool forged = c.words != RandomWords::kPhilox;
  std::string text = concat("suite ", c.suite, ", mesh ", c.mesh, ", seed ", c.program.seed, ", device ",
                            to_string(c.device), c.integer_lane ? ", integer lane" : "",
                            c.numerics == Lane::kFast ? ", fast lane" : "",
                            forged ? concat(", words ", name(c.words)) : "", options_line(c), "\n");
  // The statements stand in the token between semicolons; a semicolon within a string is not one of them.
  bool quoted = false;
  std::string statement;
  bool in_header = true;
  for (const char ch : token.substr(0, token.rfind('#')) + ";") {
    if (ch == '"') quoted = !quoted;
    if (ch != ';' || quoted) {
      statement += ch;
      continue;
    }
    in_header = in_header && is_header(statement);
    if (!in_header) text += call_line(statement);
    statement.clear();
  }
  return text;
}

void validate(const Case& c) {
  const Program& program = c.program;
  LOCKSTEP_CHECK(c.mesh.ndim() > 0, "[mesh] the Case has no mesh");
  LOCKSTEP_CHECK(c.placements.size() == program.inputs.size(), "[inputs] ", program.inputs.size(),
                 " inputs but placements for ", c.placements.size());
  for (size_t i = 0; i < program.inputs.size(); ++i) validate_input(c, i);
  for (size_t k = 0, defined = program.inputs.size(); k < program.calls.size(); ++k) {
    LOCKSTEP_CHECK(program.calls[k].results >= 0, place(program, k), "a negative number of results");
    validate_refs(program, k, static_cast<int64_t>(defined));
    defined += static_cast<size_t>(program.calls[k].results);
  }
  const std::vector<bool> plain = plain_values(c);
  for (size_t k = 0; k < program.calls.size(); ++k) {
    if (is_own(program.calls[k].op)) {
      validate_own(c, k, plain);
    } else {
      validate_call(program, k);
      validate_placed(c, k);
      validate_drawn(c, k, plain);
    }
  }
}

}  // namespace lockstep::oracle
