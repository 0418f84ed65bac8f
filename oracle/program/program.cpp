// SPDX-License-Identifier: Apache-2.0
// What a Program must satisfy, and its description for people. Nothing here runs an op.
#include "oracle/program/program.h"

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/program/schema.h"

namespace lockstep::oracle {
namespace {

// Names the statement in the messages of its checks.
std::string place(const Program& program, size_t call) {
  return concat("[", program.calls[call].op, "] call ", call, " of the Program: ");
}

std::vector<Ref> refs_of(const Arg& arg) {
  if (const auto* ref = std::get_if<Ref>(&arg)) return {*ref};
  if (const auto* refs = std::get_if<std::vector<Ref>>(&arg)) return *refs;
  return {};
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
  const Spec spec(c.mesh, c.placements[i].placements, input.shape, contiguous_strides(input.shape),
                  input.dtype, c.placements[i].order);
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

void validate_own(const Case& c, size_t k) {
  const Program& program = c.program;
  const Call& call = program.calls[k];
  const auto has = [&](size_t i, auto tag) {
    return i < call.args.size() && std::holds_alternative<decltype(tag)>(call.args[i]);
  };
  if (call.op == "lockstep::redistribute") {
    LOCKSTEP_CHECK(call.args.size() == 2 && has(0, Ref{}) && has(1, Target{}) && call.results == 1,
                   place(program, k), "it takes a value and placements, and has one result");
    const auto& target = std::get<Target>(call.args[1]);
    LOCKSTEP_CHECK(std::ssize(target.placements) == c.mesh.ndim(), place(program, k), "the mesh ", c.mesh,
                   " needs ", c.mesh.ndim(), " placements, not ", to_string(target.placements));
    LOCKSTEP_CHECK(target.order.empty() || is_permutation_of(target.order, c.mesh.ndim()), place(program, k),
                   "the order must be a permutation of the mesh's dimensions");
  } else if (call.op == "lockstep::detach") {
    LOCKSTEP_CHECK(call.args.size() == 1 && has(0, Ref{}) && call.results == 1, place(program, k),
                   "it takes one value and has one result");
  } else if (call.op == "lockstep::backward") {
    const auto wanted = std::count_if(program.inputs.begin(), program.inputs.end(),
                                      [](const Input& input) { return input.requires_grad; });
    LOCKSTEP_CHECK(call.args.size() == 2 && has(0, std::vector<Ref>()) && has(1, std::vector<Ref>()) &&
                       refs_of(call.args[0]).size() == refs_of(call.args[1]).size(),
                   place(program, k), "it takes a list of values and a list of as many gradients");
    LOCKSTEP_CHECK(!refs_of(call.args[0]).empty() && wanted > 0, place(program, k),
                   "it needs a value to start from and an input that requires a gradient");
    LOCKSTEP_CHECK(call.results == wanted, place(program, k), "it has one result for each of the ", wanted,
                   " inputs that require a gradient, not ", call.results);
  } else {
    throw Error(place(program, k) +
                "there is no such operator; Lockstep's own are lockstep::redistribute, "
                "lockstep::backward and lockstep::detach");
  }
}

// The result of a factory has no Spec yet; what its shape allows is told when it is made.
void validate_placed(const Case& c, size_t k) {
  for (const Arg& arg : c.program.calls[k].args) {
    const auto* target = std::get_if<Target>(&arg);
    LOCKSTEP_CHECK(target == nullptr || std::ssize(target->placements) == c.mesh.ndim(), place(c.program, k),
                   "the mesh ", c.mesh, " needs ", c.mesh.ndim(), " placements");
  }
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
  std::string text = concat("suite ", c.suite, ", mesh ", c.mesh, ", seed ", c.program.seed, ", device ",
                            to_string(c.device), c.integer_lane ? ", integer lane" : "", "\n");
  // The statements stand in the token between semicolons; a semicolon within a string is not one of them.
  bool quoted = false;
  std::string statement;
  size_t skipped = 0;
  const size_t header = 4 + (c.integer_lane ? 1 : 0) + (token.find(";ranks=") != std::string::npos ? 1 : 0);
  for (const char ch : token.substr(0, token.rfind('#')) + ";") {
    if (ch == '"') quoted = !quoted;
    if (ch != ';' || quoted) {
      statement += ch;
      continue;
    }
    if (++skipped > header) text += call_line(statement);
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
  auto defined = std::ssize(program.inputs);
  for (size_t k = 0; k < program.calls.size(); ++k) {
    LOCKSTEP_CHECK(program.calls[k].results >= 0, place(program, k), "a negative number of results");
    validate_refs(program, k, defined);
    if (is_own(program.calls[k].op)) {
      validate_own(c, k);
    } else {
      validate_call(program, k);
      validate_placed(c, k);
    }
    defined += program.calls[k].results;
  }
}

}  // namespace lockstep::oracle
