// SPDX-License-Identifier: Apache-2.0
#include "oracle/program/statements.h"

#include <algorithm>
#include <set>

#include "engine/values/error.h"
#include "engine/values/ragged.h"
#include "engine/values/spec.h"
#include "engine/values/text.h"
#include "oracle/program/schema.h"

namespace lockstep::oracle {
namespace {

// The arguments are of these types, in this order.
template <class... Types>
bool takes(const Call& call) {
  size_t next = 0;
  return call.args.size() == sizeof...(Types) && (std::holds_alternative<Types>(call.args[next++]) && ...);
}

bool is_plain_value(const Statement& s, const Ref& ref) {
  return ref.id >= 0 && s.plain[static_cast<size_t>(ref.id)];
}

std::string target_problem(const Target& target, const DeviceMesh& mesh) {
  const auto dims = mesh.ndim();
  if (std::ssize(target.placements) != dims)
    return concat("the mesh ", mesh, " needs ", dims, " placements, not ", to_string(target.placements));
  auto order = target.order;
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i)
    if (std::ssize(order) != dims || order[i] != static_cast<int64_t>(i))
      return "the order must be a permutation of the mesh's dimensions";
  return "";
}

std::string redistribute_problem(const Statement& s) {
  if (!takes<Ref, Target>(s.call()) || s.call().results != 1)
    return "it takes a value and placements, and has one result";
  if (auto problem = target_problem(std::get<Target>(s.call().args[1]), s.c.mesh); !problem.empty())
    return problem;
  return is_plain_value(s, std::get<Ref>(s.call().args[0])) ? "a plain tensor has no placements to change"
                                                            : "";
}

std::string detach_problem(const Statement& s) {
  return takes<Ref>(s.call()) && s.call().results == 1 ? "" : "it takes one value and has one result";
}

std::string backward_problem(const Statement& s) {
  const auto& call = s.call();
  const auto& inputs = s.c.program.inputs;
  const auto wanted =
      std::count_if(inputs.begin(), inputs.end(), [](const Input& input) { return input.requires_grad; });
  const bool graph = call.op == kBackward && takes<std::vector<Ref>, std::vector<Ref>, bool>(call);
  if ((!graph && !takes<std::vector<Ref>, std::vector<Ref>>(call)) ||
      refs_of(call.args[0]).size() != refs_of(call.args[1]).size())
    return "it takes a list of values and a list of as many gradients";
  const auto outputs = refs_of(call.args[0]), gradients = refs_of(call.args[1]);
  if (outputs.empty() || wanted == 0)
    return "it needs a value to start from and an input that requires a gradient";
  for (size_t i = 0; i < outputs.size(); ++i)
    if (is_plain_value(s, outputs[i]) != is_plain_value(s, gradients[i]))
      return "the gradient of a plain tensor is a plain tensor, and of another one is not";
  return call.results == wanted ? ""
                                : concat("it has one result for each of the ", wanted,
                                         " inputs that require a gradient, not ", call.results);
}

std::string full_tensor_problem(const Statement& s) {
  if (!takes<Ref>(s.call()) || s.call().results != 1) return "it takes one value and has one result";
  return is_plain_value(s, std::get<Ref>(s.call().args[0])) ? "its value is a plain tensor already" : "";
}

std::string item_problem(const Statement& s) {
  return takes<Ref>(s.call()) && s.call().results == 1 ? "" : "it takes one value and has one result";
}

std::string equal_problem(const Statement& s) {
  return takes<Ref, Ref>(s.call()) && s.call().results == 1 ? "" : "it takes two values and has one result";
}

// What the gradient of a local tensor may be: its part of the gradient, or of what every rank has whole, a
// term; that of a term is the gradient of the sum.
bool is_gradient_of(const Target& gradient, const Target& in) {
  bool fits = gradient.order == in.order && gradient.placements.size() == in.placements.size();
  for (size_t d = 0; fits && d < in.placements.size(); ++d)
    fits = is_partial(in.placements[d])
               ? is_replicate(gradient.placements[d])
               : gradient.placements[d] == in.placements[d] ||
                     (is_replicate(in.placements[d]) && is_partial(gradient.placements[d], ReduceOp::kSum));
  return fits;
}

// Whether what it makes of the terms of sums are the terms of what it makes of the sums.
bool is_linear(const LocalMap& map) {
  constexpr std::string_view kLinear[] = {"aten::neg",         "aten::neg_",        "aten::mul.Scalar",
                                          "aten::mul_.Scalar", "aten::div.Scalar",  "aten::div_.Scalar",
                                          "aten::add.Tensor",  "aten::add_.Tensor", "aten::sub.Tensor",
                                          "aten::sub_.Tensor", "aten::sum",         "aten::sum.dim_IntList",
                                          "aten::cat",         "aten::stack"};
  return std::find(std::begin(kLinear), std::end(kLinear), map.op) != std::end(kLinear) &&
         std::none_of(map.args.begin(), map.args.end(),
                      [](const Arg& arg) { return std::holds_alternative<c10::ScalarType>(arg); });
}

// Of terms of a sum: each rank computes with its own, and what it makes is a term of the result.
std::string pending_problem(const LocalMap& map) {
  for (size_t d = 0; d < map.out.placements.size(); ++d) {
    const auto is_term = [&](const Target& target) {
      return d < target.placements.size() && is_partial(target.placements[d]);
    };
    if (std::none_of(map.in.begin(), map.in.end(), is_term)) continue;
    if (!is_linear(map))
      return concat(map.op, " of the terms of a sum is no term of its result; reduce what pends first");
    const auto adds = [&](const Target& target) {
      return d < target.placements.size() && is_partial(target.placements[d], ReduceOp::kSum);
    };
    if (!adds(map.out) || !std::all_of(map.in.begin(), map.in.end(), adds))
      return "where one operand is the terms of a sum, all are, and so is the result";
  }
  return "";
}

// Of an op in place: it writes to the local tensors of its first operand, which stay as they lie.
std::string writing_problem(const LocalMap& map, const Operator& op) {
  if (!op.writes) return "";
  const bool in_place = is_in_place(map.op) && std::holds_alternative<Ref>(map.args.at(0)) &&
                        !op.handle.hasTag(at::Tag::inplace_view);
  if (!in_place) return concat(map.op, " writes to more than the local tensors of its first operand");
  return map.out == map.in[0] ? ""
                              : "the result of an op in place is its first operand, and lies as that does";
}

std::string local_map_problem(const Statement& s) {
  const auto map = local_map_of(s.call());
  if (!map || s.call().results != 1)
    return concat("it takes ", s.call().op == kMeshMap ? "a mesh, \"1\", \"0.2\" or \"flat\", " : "",
                  "an op, its arguments, of each operand its placements and its gradient's, those of the ",
                  "result, and its shape, and has one result");
  const Operator& op = find_operator(map->op);
  bool fits = op.args.size() == map->args.size() && op.returns == 1 && !op.returns_list && !op.random;
  for (size_t i = 0; fits && i < map->args.size(); ++i) fits = accepts(op.args[i], map->args[i]);
  if (!fits) return concat(map->op, " does not fit: ", op.handle.schema());
  for (size_t i = 0; i < map->operands.size(); ++i) {
    if (map->operands[i].id < 0) return "an undefined tensor has no local tensors";
    if (is_plain_value(s, map->operands[i])) return "a plain tensor has no local tensors";
    if (!is_gradient_of(map->gradients[i], map->in[i]))
      return "a gradient is placed as its local tensor is, pends where that is replicated, or is replicated "
             "where that pends";
  }
  if (auto problem = pending_problem(*map); !problem.empty()) return problem;
  if (auto problem = writing_problem(*map, op); !problem.empty()) return problem;
  for (const Arg& arg : s.call().args)
    if (const auto* target = std::get_if<Target>(&arg))
      if (auto problem = target_problem(*target, s.c.mesh); !problem.empty()) return problem;
  return "";
}

// Whether the ranks that run the op together hold one part of the tensor: no mesh dimension that they share
// cuts what another one cuts later.
bool is_cut_apart_first(const LocalMap& map, const Target& target) {
  std::set<int64_t> cut;
  for (size_t i = 0; i < target.placements.size(); ++i) {
    const auto dim = target.order.empty() ? static_cast<int64_t>(i) : target.order.at(i);
    const Placement& p = target.placements.at(static_cast<size_t>(dim));
    if (!is_shard(p)) continue;
    if (map.keeps(dim))
      cut.insert(shard_dim(p));
    else if (cut.contains(shard_dim(p)))
      return false;
  }
  return true;
}

// Of one target, in which a kept dimension is as on the smaller mesh.
std::string placed_problem(const LocalMap& map, const Target& target) {
  const Placements& all = target.placements;
  if (has_ragged(all)) return "a RaggedShard goes over the whole mesh";
  for (size_t d = 0; d < all.size(); ++d)
    if (is_partial(all[d]) && map.keeps(static_cast<int64_t>(d)))
      return "nothing pends along a dimension that is kept; it is reduced there";
  if (!is_cut_apart_first(map, target))
    return "dimensions that are kept cut after the others, by the order of the placements";
  if (map.flat && (!std::equal(all.begin() + 1, all.end(), all.begin()) || !target.order.empty() ||
                   !(is_replicate(all[0]) || std::holds_alternative<Shard>(all[0]))))
    return "on the flattened mesh every dimension is R, or the same S, from left to right";
  return "";
}

std::string kept_problem(const LocalMap& map, const DeviceMesh& mesh) {
  if (map.flat) return mesh.ndim() > 1 ? "" : "a mesh of one dimension is flat";
  const auto& kept = map.kept;
  const bool ascends = std::adjacent_find(kept.begin(), kept.end(), std::greater_equal<>()) == kept.end();
  if (!ascends || kept[0] < 0 || kept.back() >= mesh.ndim() || std::ssize(kept) >= mesh.ndim())
    return concat("it keeps some of the dimensions 0 to ", mesh.ndim() - 1, " of ", mesh, ", ascending");
  return "";
}

// The bits of the op are those of its parts, whichever ranks have these. In the fast lane a kernel rounds
// otherwise where its vector body ends, unless it rounds once.
bool is_exact_in_parts(const Statement& s, const LocalMap& map) {
  constexpr std::string_view kRoundedOnce[] = {"aten::neg", "aten::add.Tensor", "aten::sub.Tensor",
                                               "aten::mul.Tensor"};
  if (s.c.integer_lane) return true;
  if (s.c.numerics == Lane::kFast)
    return std::find(std::begin(kRoundedOnce), std::end(kRoundedOnce), map.op) != std::end(kRoundedOnce);
  return find_operator(map.op).handle.hasTag(at::Tag::pointwise);
}

std::string mesh_map_problem(const Statement& s) {
  if (auto problem = local_map_problem(s); !problem.empty()) return problem;
  const LocalMap map = *local_map_of(s.call());
  if (is_in_place(map.op)) return "what is written on a mesh made of the Program's shows nowhere else";
  if (auto problem = kept_problem(map, s.c.mesh); !problem.empty()) return problem;
  if (!is_exact_in_parts(s, map))
    return concat("the bits of ", map.op,
                  " may depend on who has which part; in the integer lane they do not");
  for (size_t i = 0; i < map.in.size(); ++i)
    for (size_t d = 0; d < map.in[i].placements.size(); ++d)
      if (map.keeps(static_cast<int64_t>(d)) && map.gradients[i].placements[d] != map.in[i].placements[d])
        return "along a dimension that is kept a gradient is placed as its operand is";
  for (const Arg& arg : s.call().args)
    if (const auto* target = std::get_if<Target>(&arg))
      if (auto problem = placed_problem(map, *target); !problem.empty()) return problem;
  return "";
}

std::string flag_problem(const Statement& s) {
  return takes<bool>(s.call()) && s.call().results == 0 ? "" : "it takes true or false and has no result";
}

std::string scale_gradient_problem(const Statement& s) {
  return takes<Ref, double>(s.call()) && s.call().results == 0
             ? ""
             : "it takes a value and a real number, and has no result";
}

std::string checkpoint_problem(const Statement& s) {
  if (!takes<bool>(s.call()) || s.call().results != 0)
    return "it takes whether the block's draws are restored, and has no result";
  const auto& calls = s.c.program.calls;
  const Block block = block_of(s.c.program, s.number);
  for (size_t k = block.begin; k < block.end; ++k)
    if (!may_run_twice(calls[k]))
      return concat("call ", k, ", ", calls[k].op,
                    ", writes, leaves the mesh, goes back or says how calls run: ",
                    "end the block before it, with ", kCheckpointEnd, "()");
  for (size_t k = block.end; k < calls.size(); ++k)
    if (creates_graph(calls[k])) return "gradients that pass a checkpoint have no history of their own";
  return "";
}

std::string checkpoint_end_problem(const Statement& s) {
  if (!takes<>(s.call()) || s.call().results != 0) return "it takes nothing and has no result";
  const auto& calls = s.c.program.calls;
  for (size_t k = s.number; k-- > 0 && calls[k].op != kCheckpointEnd;)
    if (calls[k].op == kCheckpoint) return "";
  return "there is no checkpoint to end";
}

// False if it is no mesh of a mesh_map.
bool read_mesh(const std::string& text, LocalMap& map) {
  map.flat = text == "flat";
  auto kept = map.flat ? std::optional<std::vector<int64_t>>(std::in_place) : parse_integers(text, '.');
  if (kept) map.kept = std::move(*kept);
  return kept.has_value();
}

constexpr StatementRow kStatements[] = {
    // (value, placements): a new tensor of the same values
    {kRedistribute, 1, redistribute_problem},
    // (value): it without history, aliasing it
    {kDetach, 1, detach_problem},
    // (values, their gradients): one result for each input with requires_grad, in order (torch.autograd.grad,
    // unused ones undefined); and true: with a history of their own (create_graph, v2)
    {kBackward, 1, backward_problem},
    // (value): the whole of it as a plain tensor, which every rank holds alike
    {kFullTensor, 2, full_tensor_problem},
    // (value of one element): its number, as a plain tensor that counts as a number
    {kItem, 2, item_problem},
    // (value, value): whether they are equal, likewise
    {kEquality, 2, equal_problem},
    // see LocalMap: to_local, an op on every rank, from_local
    {kLocalMap, 2, local_map_problem},
    // the same on meshes of fewer dimensions: from_local there, the op, to_local
    {kMeshMap, 2, mesh_map_problem},
    // (flag): whether what follows has a history
    {kSetGradEnabled, 2, flag_problem},
    // (flag): whether a redistribution that an op needs and the Program does not say is refused; a mean of
    // what is cut then pends
    {kSetExplicitRedistribution, 2, flag_problem},
    // (value, number): a hook that multiplies the value's gradient
    {kScaleGradient, 2, scale_gradient_problem},
    // (values, their gradients), as backward: adds to what earlier ones left in the inputs, and gives the
    // sums
    {kAccumulate, 2, backward_problem},
    // (flag): a block begins, which keeps no history and runs again on the way back; whether it then draws
    // what
    // it drew (torch.utils.checkpoint, preserve_rng_state)
    {kCheckpoint, 2, checkpoint_problem},
    // (): the block ends; without it, with the Program
    {kCheckpointEnd, 2, checkpoint_end_problem},
};

}  // namespace

std::span<const StatementRow> statements() {
  return kStatements;
}

const StatementRow* find_statement(std::string_view op) {
  for (const auto& row : kStatements)
    if (row.op == op) return &row;
  return nullptr;
}

bool LocalMap::keeps(int64_t dim) const {
  return flat || std::find(kept.begin(), kept.end(), dim) != kept.end();
}

std::optional<LocalMap> local_map_of(const Call& call) {
  const auto& args = call.args;
  const size_t n = args.size();
  size_t next = call.op == kMeshMap ? 1 : 0;  // where the op is
  if (!maps_locals(call.op) || n < next + 3 || !std::holds_alternative<std::string>(args[0]) ||
      !std::holds_alternative<std::string>(args[next]) || !std::holds_alternative<Target>(args[n - 2]) ||
      !std::holds_alternative<std::vector<int64_t>>(args[n - 1]))
    return std::nullopt;
  LocalMap map{std::get<std::string>(args[next]),          {}, {}, {}, {}, std::get<Target>(args[n - 2]),
               std::get<std::vector<int64_t>>(args[n - 1])};
  if (next == 1 && !read_mesh(std::get<std::string>(args[0]), map)) return std::nullopt;
  for (++next; next < n - 2 && !std::holds_alternative<Target>(args[next]); ++next) {
    map.args.push_back(args[next]);
    const auto refs = refs_of(args[next]);
    map.operands.insert(map.operands.end(), refs.begin(), refs.end());
  }
  for (; next + 1 < n - 2; next += 2) {
    if (!std::holds_alternative<Target>(args[next]) || !std::holds_alternative<Target>(args[next + 1]))
      return std::nullopt;
    map.in.push_back(std::get<Target>(args[next]));
    map.gradients.push_back(std::get<Target>(args[next + 1]));
  }
  const bool complete = next == n - 2 && !map.operands.empty() && map.in.size() == map.operands.size();
  return complete ? std::optional(std::move(map)) : std::nullopt;
}

bool may_run_twice(const Call& call) {
  if (call.op == kRedistribute || maps_locals(call.op) || call.op == kDetach) return true;
  return !is_own(call.op) && !find_operator(call.op).writes;
}

const Target* placed_by_factory(const Call& call) {
  for (const Arg& arg : call.args)
    if (const auto* target = std::get_if<Target>(&arg); target != nullptr && !is_own(call.op)) return target;
  return nullptr;
}

const Target* placed_by(const Call& call) {
  if (call.op == kRedistribute) return std::get_if<Target>(&call.args.at(1));
  if (maps_locals(call.op)) return std::get_if<Target>(&call.args.at(call.args.size() - 2));
  return placed_by_factory(call);
}

Block block_of(const Program& program, size_t k) {
  const auto& calls = program.calls;
  Block block{k + 1, k + 1, std::get<bool>(calls[k].args.at(0))};
  while (block.end < calls.size() && calls[block.end].op != kCheckpointEnd) ++block.end;
  return block;
}

std::vector<Ref> outer_values(const Program& program, const Block& block, int64_t first) {
  std::vector<Ref> operands;
  for (size_t k = block.begin; k < block.end; ++k)
    each_ref(program.calls[k], [&](const Ref& ref) {
      if (ref.id >= 0 && ref.id < first && std::find(operands.begin(), operands.end(), ref) == operands.end())
        operands.push_back(ref);
    });
  std::sort(operands.begin(), operands.end(), [](const Ref& a, const Ref& b) { return a.id < b.id; });
  return operands;
}

bool creates_graph(const Call& call) {
  return call.op == kBackward && call.args.size() == 3 && call.args[2] == Arg(true);
}

std::vector<Ref> refs_of(const Arg& arg) {
  if (const auto* ref = std::get_if<Ref>(&arg)) return {*ref};
  if (const auto* refs = std::get_if<std::vector<Ref>>(&arg)) return *refs;
  return {};
}

int token_version(const Case& c) {
  const bool plain = std::any_of(c.placements.begin(), c.placements.end(), is_plain);
  int version = !c.options.empty() || c.words != RandomWords::kPhilox || plain ? 2 : 1;
  for (const Call& call : c.program.calls)
    if (const auto* row = find_statement(call.op))
      version = std::max(version, call.op == kBackward && call.args.size() == 3 ? 2 : row->version);
  return version;
}

std::vector<bool> plain_values(const Case& c) {
  std::vector<bool> plain;
  for (const Target& target : c.placements) plain.push_back(is_plain(target));
  for (const Call& call : c.program.calls) {
    const auto defined = plain.size() + static_cast<size_t>(call.results);
    if (runs_backward(call.op)) {
      for (size_t i = 0; i < c.program.inputs.size() && plain.size() < defined; ++i)
        if (c.program.inputs[i].requires_grad) plain.push_back(plain.at(i));
      plain.resize(defined, false);
      continue;
    }
    bool is = call.op != kRedistribute;
    for (const Arg& arg : call.args) {
      is = is && !std::holds_alternative<Target>(arg);
      for (const Ref& ref : refs_of(arg)) is = is && (ref.id < 0 || plain.at(static_cast<size_t>(ref.id)));
    }
    plain.resize(defined, is || leaves_mesh(call.op));
  }
  return plain;
}

}  // namespace lockstep::oracle
