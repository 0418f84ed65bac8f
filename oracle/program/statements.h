// SPDX-License-Identifier: Apache-2.0
// The statements of a Program that are Lockstep's own, beside libtorch's operators: what each takes, and
// since which version of the token.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oracle/program/program.h"

namespace lockstep::oracle {

inline constexpr std::string_view kRedistribute = "lockstep::redistribute";
inline constexpr std::string_view kDetach = "lockstep::detach";
inline constexpr std::string_view kBackward = "lockstep::backward";
inline constexpr std::string_view kFullTensor = "lockstep::full_tensor";
inline constexpr std::string_view kItem = "lockstep::item";
inline constexpr std::string_view kEquality = "lockstep::equal";
inline constexpr std::string_view kLocalMap = "lockstep::local_map";
inline constexpr std::string_view kMeshMap = "lockstep::mesh_map";
inline constexpr std::string_view kSetGradEnabled = "lockstep::set_grad_enabled";
inline constexpr std::string_view kSetExplicitRedistribution = "lockstep::set_explicit_redistribution";
inline constexpr std::string_view kScaleGradient = "lockstep::scale_gradient";
inline constexpr std::string_view kAccumulate = "lockstep::accumulate";
inline constexpr std::string_view kCheckpoint = "lockstep::checkpoint";
inline constexpr std::string_view kCheckpointEnd = "lockstep::checkpoint_end";

// One call among those of its Case.
struct Statement {
  const Case& c;
  const std::vector<bool>& plain;  // plain_values(c)
  size_t number;                   // of the call

  const Call& call() const { return c.program.calls[number]; }
};

struct StatementRow {
  std::string_view op;
  int version;  // of the token; token_version() knows what came with v2 to a statement of v1
  // Why the call is not well formed; empty if it is.
  std::string (*problem)(const Statement& s);
};
std::span<const StatementRow> statements();
// Whether its result is a plain tensor whatever it reads.
inline bool leaves_mesh(std::string_view op) {
  return op == kFullTensor || op == kItem || op == kEquality;
}
// Null if there is none.
const StatementRow* find_statement(std::string_view op);

// Whether it has one result for each input that requires a gradient, in order: the gradient.
inline bool runs_backward(std::string_view op) {
  return op == kBackward || op == kAccumulate;
}
// A backward whose results have a history of their own.
bool creates_graph(const Call& call);

// Whether it runs an op on what ranks hold: each on its own, or those of a smaller mesh on theirs together.
inline bool maps_locals(std::string_view op) {
  return op == kLocalMap || op == kMeshMap;
}

// The arguments of a local_map: an op that each rank runs on the local tensors of its operands. Of what pends
// each has a term. An op in place runs without history on copies: what it writes to the local tensors of its
// first operand shows in that copy, which is the result. Of a mesh_map: on tensors of meshes that are made of
// the Program's, whose ranks hold their local tensors.
struct LocalMap {
  std::string op;
  std::vector<Arg> args;      // in schema order
  std::vector<Ref> operands;  // that stand among them, those of lists too
  // Of each operand, how it is redistributed first, and how the gradients of its local tensors are placed.
  std::vector<Target> in, gradients;
  Target out;                  // how the results are placed
  std::vector<int64_t> shape;  // of the whole
  // Of a mesh_map: the mesh dimensions that each of its meshes keeps, or that there is one of all ranks, in
  // one dimension.
  std::vector<int64_t> kept{};
  bool flat = false;

  // Whether ranks that differ along the mesh dimension run the op together.
  bool keeps(int64_t dim) const;
};
// nullopt if the arguments are of another form: "op", its arguments, for each operand @in,@gradient, @out,
// [shape]; of a mesh_map first the mesh, "1", "0.2" or "flat".
std::optional<LocalMap> local_map_of(const Call& call);

// The calls from `begin` to before `end`, which a checkpoint runs without a history, and once more on the way
// back.
struct Block {
  size_t begin = 0, end = 0;
  bool preserves_rng_state = true;  // the second time draws what the first drew
};
// @pre call `k` is a checkpoint. Its block ends with the next checkpoint_end, or with the Program.
Block block_of(const Program& program, size_t k);
// Whether a block may hold the call: what runs twice leaves what it read as it was, and has no say in how
// calls run.
bool may_run_twice(const Call& call);
// The values before `first`, the number of the block's first result, that its calls mention, in order.
std::vector<Ref> outer_values(const Program& program, const Block& block, int64_t first);

// How an operator of libtorch that makes a tensor from nothing places it; null where it makes a plain one.
const Target* placed_by_factory(const Call& call);

// Where the Program itself places the result of a call, whatever ran: a redistribution's target, a mapped
// function's result, a factory's tensor; null where it does not.
const Target* placed_by(const Call& call);

// Values that an argument mentions.
std::vector<Ref> refs_of(const Arg& arg);

}  // namespace lockstep::oracle
