// SPDX-License-Identifier: Apache-2.0
// Program: data, a list of ATen calls on named global tensors. Case: a Program, a mesh and how its inputs are
// placed. The text form of a Case, with a checksum, is the replay token. Nothing here runs an op.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/lane/numerics.h"
#include "engine/stream/random_call.h"
#include "engine/values/device_mesh.h"
#include "engine/values/placement.h"

namespace lockstep::oracle {

// A value of the Program by number: inputs first, then the results of the calls in order.
struct Ref {
  int64_t id = 0;
  bool operator==(const Ref&) const = default;
};
struct None {
  bool operator==(const None&) const = default;
};
// How a redistribute call writes its target: placements and, when not left to right, their order.
struct Target {
  Placements placements;
  std::vector<int64_t> order;
  bool operator==(const Target&) const = default;
};

bool has_partial(const Target& target);
// An input without placements is a plain tensor, which every rank holds alike.
inline bool is_plain(const Target& target) {
  return target.placements.empty();
}

// Arguments stand in schema order, all of them (defaults written out).
using Arg = std::variant<None, Ref, std::vector<Ref>, bool, int64_t, double, std::vector<int64_t>,
                         std::vector<double>, std::vector<bool>, std::string, c10::ScalarType, Target>;

// op is "aten::name" or "aten::name.overload", or one of Lockstep's own (statements.h):
// "lockstep::redistribute". In a list, Ref{-1} is an undefined tensor (aten::index).
struct Call {
  std::string op;
  std::vector<Arg> args;
  int64_t results = 1;  // values that the call defines; a list op defines one for each element; in-place: 1
  bool operator==(const Call&) const = default;
};

// An operator's name without its overload: "aten::sum" of "aten::sum.dim_IntList".
inline std::string_view stem(std::string_view op) {
  return op.substr(0, op.find('.'));
}
// By its name: "aten::add_.Tensor".
inline bool is_in_place(std::string_view op) {
  return stem(op).ends_with('_');
}

// Which values an input has. Deterministic functions of (kind, seed, element); see values.h.
enum class ValueKind {
  kNormal,    // standard normal, rounded to the dtype
  kUniform,   // [0, 1)
  kIntegers,  // small integers, [low, high]
  kSpecial,   // mix of -0.0, NaN with payloads, infinities, denormals, huge, ties, ones
  kIndex,     // integers in [low, high], for index tensors
  kZeros,
  kOnes,
  kBits,  // exactly `bits`, row-major, one word an element
};

struct Values {
  ValueKind kind = ValueKind::kNormal;
  uint64_t seed = 0;
  int64_t low = 0, high = 0;
  std::vector<uint64_t> bits{};
  bool operator==(const Values&) const = default;
};

struct Input {
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> shape;
  // Memory order: permutation of dimensions from slowest to fastest; empty: contiguous.
  std::vector<int64_t> memory_order{};
  Values values{};
  bool requires_grad = false;
  bool operator==(const Input&) const = default;
};

struct Program {
  std::vector<Input> inputs;
  std::vector<Call> calls;
  uint64_t seed = 0;  // of the random stream
  // A call behind all others that has to be refused, and gives nothing: the judge's own question of what an
  // engine holds afterwards. No token says it.
  std::optional<Call> refused{};
  bool operator==(const Program&) const = default;

  int64_t value_count() const;
};

struct Case {
  std::string suite = "program";
  Program program;
  DeviceMesh mesh;
  std::vector<Target> placements;  // one for each input; none of a plain one
  DeviceModel device;
  bool integer_lane = false;     // every difference is a bug
  Lane numerics = Lane::kExact;  // that of the kernels that run: what may be explained depends on it
  RandomWords words = RandomWords::kPhilox;  // of the random stream
  // Of a suite whose cases are no Programs, by name: what its judge reads beside the seed. Words of letters,
  // digits, '_', '-' and '.'; what is absent is as the suite has it by default.
  std::map<std::string, std::string> options{};
  bool operator==(const Case&) const = default;
};

// By number: "x0", "v0".
std::string value_name(const Program& program, int64_t value);
// Calls f with each value that the arguments mention.
template <class AnyCall, class F>
void each_ref(AnyCall& call, const F& f) {
  for (auto& arg : call.args) {
    if (auto* ref = std::get_if<Ref>(&arg)) f(*ref);
    if (auto* list = std::get_if<std::vector<Ref>>(&arg))
      for (auto& ref : *list) f(ref);
  }
}
// Calls f with the placements of each input that has some, then with those that stand among the arguments.
template <class AnyCase, class F>
void each_target(AnyCase& c, const F& f) {
  for (auto& target : c.placements)
    if (!is_plain(target)) f(target);
  for (auto& call : c.program.calls)
    for (auto& arg : call.args)
      if (auto* target = std::get_if<Target>(&arg)) f(*target);
}

// Of each value, by number, whether an engine holds it as a plain tensor: an input without placements, what
// the host read, and what is computed of such alone.
std::vector<bool> plain_values(const Case& c);

// The version of the token that the Case needs: 1, or 2 for a plain input, forged words or a statement that
// came with 2.
int token_version(const Case& c);
// One line, no quotes or shell metacharacters beyond what single quotes protect: "v1:…#checksum".
// Inputs are named x0, x1, …; results v<n> by number. See README.md for the grammar.
std::string to_token(const Case& c);
// @post parse_token(to_token(c)) == c. Throws Error that names what is wrong and where: the version, the
// checksum, the statement. A token of another version says which version it is and which are understood.
Case parse_token(std::string_view token);

// Readable, several lines, for people: the calls with names, shapes and placements.
std::string describe(const Case& c);

// Throws Error that names the call and the values if the Program is not well formed: references to later
// values, wrong number of arguments for the schema, unknown op, placements that do not fit the shapes.
void validate(const Case& c);

}  // namespace lockstep::oracle
