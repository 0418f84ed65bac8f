// SPDX-License-Identifier: Apache-2.0
// Law: ops on tensors that lie in the same blocks (RaggedShard) give the oracle's bits, and none of these
// moves for an op that looks at each element alone, folds all of them, or stays within rows; a redistribution
// from blocks or to them moves no more bytes than it must.
#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>

#include "engine/values/error.h"
#include "engine/values/ragged.h"
#include "generators/ops/ops.h"
#include "oracle/ownership/ownership.h"
#include "oracle/program/schema.h"
#include "oracle/program/statements.h"
#include "suites/core/facts.h"
#include "suites/core/judge.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

using oracle::kRedistribute;
using Shape = std::vector<int64_t>;

// "add" of "aten::_foreach_add_.List".
std::string plain_name(std::string_view op) {
  std::string name(oracle::stem(op).substr(std::string_view("aten::").size()));
  if (name.starts_with("_foreach_")) name = name.substr(std::string_view("_foreach_").size());
  if (name.ends_with('_')) name.pop_back();
  return name;
}

// Ops that look at each element alone, by the families of the generators.
bool is_elementwise(const std::string& name) {
  static const auto names = [] {
    std::set<std::string> all;
    using namespace generators;
    for (const auto& known : op_templates())
      if (known.family & (kUnary | kBinary | kScalars | kCompare | kTernary | kCopies | kRandomOps))
        all.insert(plain_name(known.op));
    return all;
  }();
  return names.contains(name);
}

// The dimensions of its first input that a reduction goes over; nullopt: it is none, or one of a list: of
// these _foreach_norm alone leaves blocks apart, and _foreach_max reads its tensors whole.
std::optional<std::vector<bool>> reduced_by(const TimelineEntry& entry, const std::string& name) {
  static const std::set<std::string> kReductions = {
      "sum",       "prod", "amax",     "amin",   "max",
      "min",       "any",  "all",      "argmax", "argmin",
      "logsumexp", "var",  "var_mean", "std",    "linalg_vector_norm",
      "norm",      "mean"};
  if (!kReductions.contains(name) || entry.inputs.size() != 1 || entry.op.starts_with("aten::_foreach_"))
    return std::nullopt;
  const auto& args = oracle::find_operator(entry.op).args;
  const auto ndim = entry.inputs[0].spec->ndim();
  Shape dims;
  for (size_t a = 0; a < args.size(); ++a)
    if (args[a].name == "dim" && !entry.args[a].isNone())
      dims = entry.args[a].isInt() ? Shape{entry.args[a].toInt()} : entry.args[a].toIntVector();
  const bool has_none = entry.op.ends_with(".dims") && !entry.args.at(1).isNone();  // any and all of none
  std::vector<bool> reduced(static_cast<size_t>(ndim), dims.empty() && !has_none);
  for (const int64_t d : dims) reduced.at(static_cast<size_t>(d < 0 ? d + ndim : d)) = true;
  return reduced;
}

// Of all elements, what ranks make of their parts and then add up, multiply or compare, and norms, whose root
// comes after that; max and min along a dimension say where it stands, too.
bool is_folded(const TimelineEntry& entry, const std::string& name) {
  static const std::set<std::string> kFolded = {
      "sum", "mean", "prod", "amax", "amin", "max", "min", "any", "all", "norm", "linalg_vector_norm"};
  return kFolded.contains(name) && entry.outputs.size() == 1;
}

// Whether blocks are legal where those dimensions are reduced, and shards of them are terms, which lie alike.
bool stay_legal(const Spec& from, const std::vector<bool>& reduced) {
  auto placements = from.placements();
  for (auto& p : placements)
    if (is_shard(p) && reduced.at(static_cast<size_t>(shard_dim(p)))) p = Partial{};
  return blocks_fit(placements, from.order(), from.mesh(), from.shape());
}

// Whether the op needs no more of what lies in blocks along this mesh dimension than each rank has.
bool needs_no_other(const TimelineEntry& entry, const Spec& from, int64_t mesh_dim) {
  const auto& blocks = std::get<RaggedShard>(from.placements()[static_cast<size_t>(mesh_dim)]);
  if (entry.op == "aten::_foreach_norm.Scalar") return true;
  const auto name = plain_name(entry.op);
  if (const auto reduced = reduced_by(entry, name)) {
    const auto begin = reduced->begin(), behind_rows = begin + std::ssize(blocks.dims);
    if (std::find(begin, reduced->end(), false) == reduced->end()) return is_folded(entry, name);
    return !blocks.dims.empty() && std::find(begin, behind_rows, true) == behind_rows &&
           stay_legal(from, *reduced);
  }
  if (!is_elementwise(name) || entry.outputs.empty()) return false;
  const auto& shape = entry.outputs[0].spec->shape();
  const bool is_list = entry.op.starts_with("aten::_foreach_");  // whose elements meet as they are
  const auto meets = [&](const TensorRecord& t) {
    return !t.spec || (t.spec->numel() == 1 && !(is_list && t.spec->ndim() > 1)) || t.spec->shape() == shape;
  };
  // What is written stays where it lies.
  const auto elsewhere = [&](const TensorRecord& t) {
    return t.spec && t.spec->placements()[static_cast<size_t>(mesh_dim)] != Placement(blocks);
  };
  const bool writes =
      std::any_of(entry.aliases.begin(), entry.aliases.end(), [](int64_t i) { return i >= 0; });
  return std::all_of(entry.inputs.begin(), entry.inputs.end(), meets) &&
         !(writes && std::any_of(entry.outputs.begin(), entry.outputs.end(), elsewhere));
}

// The mesh dimension along which an implicit redistribution takes a tensor out of its blocks, and changes
// nothing else; -1: none. Of fewer elements than ranks share them, they are fewer bytes than what ranks would
// add up.
int64_t leaves_along(const TimelineEntry& entry) {
  if (!entry.implicit) return -1;
  const Spec &from = *entry.inputs.at(0).spec, &to = *entry.outputs.at(0).spec;
  const auto d = ragged_dim(from.placements());
  if (d < 0 || from.mesh().size(d) == 1) return -1;
  // The same run of elements, as rows of another number of dimensions.
  const auto& blocks = std::get<RaggedShard>(from.placements()[static_cast<size_t>(d)]);
  const auto* others = std::get_if<RaggedShard>(&to.placements()[static_cast<size_t>(d)]);
  if (others != nullptr && others->units == blocks.units && others->lists == blocks.lists) return -1;
  int64_t ranks = 1;
  for (int64_t other = 0; other < from.mesh().ndim(); ++other) {
    const auto at = static_cast<size_t>(other);
    if (distributes(from.placements()[at])) ranks *= from.mesh().size(other);
    if ((from.placements()[at] == to.placements()[at]) == (other == d)) return -1;
  }
  return from.numel() < ranks ? -1 : d;
}

bool same(const TensorRecord& a, const TensorRecord& b) {
  return a.spec && *a.spec == *b.spec && a.digests == b.digests;
}

using Moves = std::span<const TimelineEntry>;  // before the op that reads what they give

// Whether all that the op reads lay in these blocks, and numbers on every rank.
bool lay_alike(const TimelineEntry& user, Moves moves, const Placement& blocks, int64_t mesh_dim) {
  std::set<const TimelineEntry*> seen;
  return std::all_of(user.inputs.begin(), user.inputs.end(), [&](const TensorRecord& input) {
    if (!input.spec) return true;
    const auto move = std::find_if(moves.begin(), moves.end(), [&](auto& m) {
      return m.implicit && !seen.contains(&m) && same(input, m.outputs.at(0));
    });
    if (move != moves.end()) seen.insert(&*move);
    const Spec& lay = move == moves.end() ? *input.spec : *move->inputs.at(0).spec;
    const auto& p = lay.placements()[static_cast<size_t>(mesh_dim)];
    return lay.numel() == 1 ? is_replicate(p) : p == blocks;
  });
}

// What moves for an op though it needs no more than each rank has; null: nothing. Where tensors lie in
// several ways some have to move, but nobody needs them whole.
const TimelineEntry* moved_for_nothing(const TimelineEntry& user, Moves moves) {
  for (const auto& move : moves) {
    const auto d = leaves_along(move);
    if (d < 0) continue;
    const auto at = static_cast<size_t>(d);
    const Spec& from = *move.inputs[0].spec;
    const bool whole = is_replicate(move.outputs[0].spec->placements()[at]);
    const bool read = std::any_of(user.inputs.begin(), user.inputs.end(),
                                  [&](const TensorRecord& input) { return same(input, move.outputs[0]); });
    if (read && needs_no_other(user, from, d) && (whole || lay_alike(user, moves, from.placements()[at], d)))
      return &move;
  }
  return nullptr;
}

// The gradient that a pass begins with lies elsewhere than what it is of.
bool begins_elsewhere(const EngineResult& run, const oracle::Call& call) {
  if (!oracle::runs_backward(call.op)) return false;
  const auto& of = std::get<std::vector<oracle::Ref>>(call.args.at(0));
  const auto& gradients = std::get<std::vector<oracle::Ref>>(call.args.at(1));
  const auto lies = [&](const oracle::Ref& ref) {
    return ref.id < 0 ? SpecPtr() : run.values.at(static_cast<size_t>(ref.id)).spec;
  };
  for (size_t i = 0; i < of.size() && i < gradients.size(); ++i) {
    const auto at = lies(of[i]), from = lies(gradients[i]);
    if (at != nullptr && (from == nullptr || at->placements() != from->placements())) return true;
  }
  return false;
}

// A gradient goes back to where its tensor lay: that move cannot be told from one for the op behind it.
bool sends_gradients_elsewhere(const oracle::Case& c, const EngineResult& run) {
  const auto has = [&](auto&& is) { return std::any_of(c.program.calls.begin(), c.program.calls.end(), is); };
  if (has([&](const oracle::Call& call) { return begins_elsewhere(run, call); })) return true;
  return has([](const oracle::Call& call) { return call.op == kRedistribute; }) &&
         has([](const oracle::Call& call) { return oracle::runs_backward(call.op); });
}

// Of each rank, which elements it holds.
std::vector<std::vector<bool>> held_by(const Spec& spec) {
  std::vector<std::vector<bool>> all;
  const auto numbers = at::arange(spec.numel(), at::kLong).view(spec.shape());
  for (const auto& local : oracle::slices(numbers, spec)) {
    const auto mine = local.contiguous();
    all.emplace_back(static_cast<size_t>(spec.numel()), false);
    for (int64_t i = 0; i < mine.numel(); ++i)
      all.back()[static_cast<size_t>(mine.const_data_ptr<int64_t>()[i])] = true;
  }
  return all;
}

// The fewest bytes that a redistribution can move: each rank receives what it is to hold and does not. Where
// terms pend, and one mesh dimension of them is to be cut in blocks, it receives the others' terms of its
// blocks, along each of these dimensions. nullopt: of other sums, and of sums that move, too.
std::optional<int64_t> fewest_bytes(const Spec& from, const Spec& to) {
  int64_t terms = 0, cuts = 0, moves = from.order() == to.order() ? 0 : 1;
  for (int64_t d = 0; d < from.mesh().ndim(); ++d) {
    const auto &before = from.placements()[static_cast<size_t>(d)],
               &after = to.placements()[static_cast<size_t>(d)];
    if (before == after) continue;
    if (is_partial(after) || (is_partial(before) && is_shard(after))) return std::nullopt;
    cuts += is_partial(before) && is_ragged(after) ? 1 : 0;
    terms += is_partial(before) ? from.mesh().size(d) - 1 : 0;
    moves += is_partial(before) ? 0 : 1;
  }
  const bool sums = terms > 0;
  if (sums && (cuts != 1 || moves > 0)) return std::nullopt;
  const auto before = held_by(from), after = held_by(to);
  int64_t elements = 0;
  for (size_t rank = 0; rank < before.size(); ++rank)
    for (size_t e = 0; e < before[rank].size(); ++e)
      if (after[rank][e]) elements += sums ? terms : before[rank][e] ? 0 : 1;
  return elements * static_cast<int64_t>(c10::elementSize(from.dtype()));
}

// A program of one redistribution moves no more.
std::string too_many_bytes(const oracle::Case& c, const EngineResult& run) {
  if (c.program.inputs.size() != 1 || c.program.calls.size() != 1 || c.program.calls[0].op != kRedistribute)
    return "";
  const Spec &from = *run.values.at(0).spec, &to = *run.values.at(1).spec;
  const auto fewest = fewest_bytes(from, to);
  if (!fewest || run.bytes_moved == *fewest) return "";
  return concat(from, " to ", to.placements(), " moves ", run.bytes_moved, " bytes, where ", *fewest, " do");
}

}  // namespace

Outcome judge_ragged(const oracle::Case& c, EngineUnderTest& engine) {
  auto outcome = judge_against_oracle(c, engine, Allowed::kExplained);
  if (!std::holds_alternative<Passed>(outcome) || !engine.profile().has(Flag::kTimeline)) return outcome;
  if (std::get<Passed>(outcome).refusal) return outcome;
  const auto run = engine.run(c, true);
  if (const auto text = too_many_bytes(c, run); !text.empty())
    return failed("ragged", "bytes", std::string(kRedistribute), placement_pattern(c),
                  dtype_name(run.values[0].spec->dtype()), text);
  if (sends_gradients_elsewhere(c, run)) return outcome;
  const auto is_move = [](const TimelineEntry& e) { return e.op == kRedistribute; };
  const auto& timeline = run.timeline;
  for (auto first = timeline.begin(); first != timeline.end();) {
    const auto user = std::find_if_not(first, timeline.end(), is_move);
    if (user == timeline.end()) break;
    if (const auto* move = moved_for_nothing(*user, Moves(first, user))) {
      const Spec &from = *move->inputs[0].spec, &to = *move->outputs[0].spec;
      return failed("ragged", "moved", user->op, placement_pattern(c), dtype_name(from.dtype()),
                    concat(user->op, " needs no more of ", from, " than each rank has, and it moves to ",
                           to.placements()));
    }
    first = user + 1;
  }
  return outcome;
}

}  // namespace lockstep::suites
