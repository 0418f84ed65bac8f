// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/decide.h"

#include <algorithm>
#include <limits>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/ragged.h"
#include "engine/values/refused.h"

namespace lockstep {
namespace {

// Bytes that each rank receives, roughly: `bytes` is the tensor at this mesh dimension's level, m its size.
double move_cost(const Placement& from, const Placement& to, double bytes, double m) {
  if (from == to) return 0;
  if (is_partial(from)) return distributes(to) ? bytes * (m - 1) / m : bytes * (m - 1);
  if (!distributes(from)) return 0;  // Replicate to anything is local
  return distributes(to) ? bytes * (m - 1) / (m * m) : bytes * (m - 1) / m;
}

// The row with every Shard replaced by a shard of this kind. Tensors that are cut so in one dimension have it
// in the same pieces, as with Shard, wherever it is as long.
Row like(const Row& row, const Placement& kind) {
  Row result = row;
  const auto replace = [&kind](Placement& p) {
    if (const auto* shard = std::get_if<Shard>(&p)) p = with_dim(kind, shard->dim);
  };
  for (auto& p : result.inputs) replace(p);
  for (auto& p : result.outputs) replace(p);
  return result;
}

// Chooses rows, mesh dimension by mesh dimension, keeping what was chosen so far.
class Chooser {
 public:
  // @param stays for each input, whether it must not move
  Chooser(const Resolved& resolved, const Operands& operands, OpCall& call, const std::vector<bool>& stays,
          const std::vector<int64_t>& aliases)
      : resolved_(resolved), operands_(operands), call_(call), stays_(stays), aliases_(aliases) {
    for (const auto& spec : operands.specs)
      if (spec != nullptr) mesh_ = &spec->mesh();
    for (int64_t d = 0; d < mesh_->ndim(); ++d) last_.push_back(has_late(d));
  }

  // In the order in which mesh dimensions apply, but where units of a RaggedShard differ by what the others
  // leave, or the op looks at that, after these; where nothing stays in such blocks, or what must stay finds
  // no row so, in that order after all. False if along some mesh dimension nothing is legal.
  bool choose(const std::vector<int64_t>& order) {
    order_ = order;
    for (bool again = true; again;) {
      auto turns = order;
      std::stable_partition(turns.begin(), turns.end(), [this](int64_t d) { return !last_[as_size(d)]; });
      if (!choose_in(turns)) {
        if (!give_way()) return false;
        continue;
      }
      again = false;
      for (size_t d = 0; d < last_.size(); ++d) {
        if (!last_[d] || is_late(*chosen_[d])) continue;
        last_[d] = false;
        again = true;
      }
    }
    return true;
  }

  // The rows that were legal in the last choice.
  void note(Candidates& candidates) { considered_ = &candidates; }

  using Side = Placements Row::*;

  // Those of one tensor, by mesh dimension; Replicate where nothing is chosen yet.
  Placements chosen(Side side, size_t tensor) const {
    Placements result;
    result.reserve(chosen_.size());
    for (const auto& row : chosen_) result.push_back(row ? ((*row).*side)[tensor] : Replicate{});
    return result;
  }

 private:
  bool is_late(const Placement& p) const {
    const auto* ragged = std::get_if<RaggedShard>(&p);
    return ragged != nullptr && (ragged->lists > 1 || resolved_.entry->ragged_fits != nullptr);
  }
  bool is_late(const Row& row) const {
    const auto late = [this](const Placement& p) { return is_late(p); };
    return std::any_of(row.inputs.begin(), row.inputs.end(), late) ||
           std::any_of(row.outputs.begin(), row.outputs.end(), late);
  }
  bool has_late(int64_t d) const {
    return std::any_of(operands_.specs.begin(), operands_.specs.end(), [this, d](const auto& spec) {
      return spec != nullptr && is_late(spec->placements()[as_size(d)]);
    });
  }
  bool present(size_t i) const { return operands_.specs[i] != nullptr; }

  // The first mesh dimension whose turn is late for tensors alone that may move takes it in order. False:
  // there is none.
  bool give_way() {
    for (size_t d = 0; d < last_.size(); ++d) {
      bool must = false;
      for (size_t i = 0; i < stays_.size(); ++i)
        must = must || (stays_[i] && present(i) && is_late(operands_.specs[i]->placements()[d]));
      if (!last_[d] || must) continue;
      last_[d] = false;
      return true;
    }
    return false;
  }

  // Dimension by dimension, from the whole.
  bool choose_in(const std::vector<int64_t>& turns) {
    chosen_.assign(turns.size(), std::nullopt);
    if (considered_ != nullptr) considered_->clear();
    call_.input_extents.clear();
    for (const auto& meta : operands_.metas) call_.input_extents.push_back(meta.shape);
    if (!call_.outputs.empty()) call_.output_extents = call_.outputs[0].shape;
    for (const int64_t d : turns) {
      call_.mesh_size = mesh_->size(d);
      call_.current.clear();
      call_.current.reserve(operands_.specs.size());
      for (const auto& spec : operands_.specs)
        call_.current.push_back(spec == nullptr ? Placement(Replicate{}) : spec->placements()[as_size(d)]);
      Row* best = nullptr;
      auto best_cost = std::pair(std::numeric_limits<double>::infinity(), size_t{0});
      auto rows = legal_rows(*resolved_.entry, call_);
      for (auto& row : rows) {
        if (!legal(row, d)) continue;
        const auto cost = row_cost(row, d);
        const bool is_best = best == nullptr || cost < best_cost;
        if (considered_ != nullptr) consider(row, d, cost.first, is_best);
        if (!is_best) continue;
        best = &row;
        best_cost = cost;
      }
      if (best == nullptr) return false;
      cut(*best, d);
      chosen_[as_size(d)] = std::move(*best);
    }
    return true;
  }

  // The best one so far is the one that is chosen, if none better comes.
  void consider(const Row& row, int64_t d, double bytes, bool is_best) {
    if (is_best)
      for (auto& before : *considered_) before.chosen = before.chosen && before.mesh_dim != d;
    considered_->push_back({-1, d, row.inputs, row.outputs, bytes, is_best});
  }

  bool legal(const Row& row, int64_t d) const {
    if (!last_[as_size(d)] && is_late(row)) return false;
    for (size_t i = 0; i < row.inputs.size(); ++i) {
      if (stays_[i] && present(i) && row.inputs[i] != call_.current[i]) return false;
      if (!operands_.metas[i].defined) continue;
      if (!present(i) && !is_replicate(row.inputs[i])) return false;  // every rank has all of it
      if (operands_.metas[i].constant && !is_replicate(row.inputs[i])) return false;
      if (shard_dim(row.inputs[i]) >= operands_.metas[i].ndim()) return false;
      if (!goes_with_chosen(row, d, &Row::inputs, i, operands_.metas[i].shape)) return false;
    }
    for (size_t j = 0; j < row.outputs.size(); ++j) {
      if (!call_.outputs[j].defined) continue;
      if (aliases_[j] >= 0 && row.outputs[j] != row.inputs[as_size(aliases_[j])]) return false;
      if (!goes_with_chosen(row, d, &Row::outputs, j, call_.outputs[j].shape)) return false;
    }
    return divides(row, d) && ragged_fits(row, d);
  }

  bool ragged_fits(const Row& row, int64_t d) const {
    const auto fits = resolved_.entry->ragged_fits;
    if (fits == nullptr || !is_ragged(row.inputs[0])) return true;
    auto placements = chosen(&Row::inputs, 0);
    placements[as_size(d)] = row.inputs[0];
    const auto& meta = operands_.metas[0];
    return fits(call_, Spec(*mesh_, std::move(placements), meta.shape, meta.stride, meta.dtype, order_));
  }

  // One tensor's placement in this row, beside those chosen so far: kinds of Partial that do not commute may
  // not meet; a RaggedShard stands alone, and its blocks are whole rows of what the others leave.
  bool goes_with_chosen(const Row& row, int64_t d, Side side, size_t tensor,
                        const std::vector<int64_t>& shape) const {
    const auto& placement = (row.*side)[tensor];
    const auto* partial = std::get_if<Partial>(&placement);
    int64_t ragged = is_ragged(placement) ? 1 : 0;
    for (const auto& before : chosen_) {
      if (!before) continue;
      const auto& p = ((*before).*side)[tensor];
      const auto* other = std::get_if<Partial>(&p);
      if (partial && other && !commute(partial->op, other->op)) return false;
      ragged += is_ragged(p) ? 1 : 0;
    }
    if (ragged != 1) return ragged == 0;
    auto placements = chosen(side, tensor);
    placements[as_size(d)] = placement;
    return blocks_fit(placements, order_, *mesh_, shape);
  }

  bool divides(const Row& row, int64_t d) const {
    const auto pieces = [&](Side side, size_t tensor, int64_t dim) {
      const auto others = chosen(side, tensor);
      int64_t n = mesh_->size(d);
      for (size_t e = 0; e < others.size(); ++e)
        if (shard_dim(others[e]) == dim) n *= mesh_->shape()[e];
      return n;
    };
    for (const auto& [input, dim] : row.even) {
      // Interleaving cuts each of its parts, so each of them has to divide.
      const int64_t n = pieces(&Row::inputs, input, dim) * parts(row.inputs[input]);
      if (operands_.metas[input].shape[as_size(dim)] % n != 0) return false;
    }
    for (const int64_t dim : row.even_outputs) {
      const int64_t n = pieces(&Row::outputs, 0, dim) * parts(row.outputs[0]);
      if (call_.outputs[0].shape[as_size(dim)] % n != 0) return false;
    }
    return true;
  }

  void cut(const Row& row, int64_t d) {
    const int64_t m = mesh_->size(d);
    const auto shorten = [m](std::vector<int64_t>& extents, const Placement& p) {
      const int64_t dim = shard_dim(p);
      if (dim >= 0 && dim < static_cast<int64_t>(extents.size()))
        extents[as_size(dim)] = (extents[as_size(dim)] + m - 1) / m;
    };
    for (size_t i = 0; i < row.inputs.size(); ++i) shorten(call_.input_extents[i], row.inputs[i]);
    if (!row.outputs.empty()) shorten(call_.output_extents, row.outputs[0]);
  }

  // Bytes, then the number of inputs that change: one that begins to pend has to be reduced again.
  std::pair<double, size_t> row_cost(const Row& row, int64_t d) const {
    std::pair<double, size_t> cost{0, 0};
    for (size_t i = 0; i < row.inputs.size(); ++i) {
      if (!present(i) || row.inputs[i] == call_.current[i]) continue;
      const auto& spec = *operands_.specs[i];
      auto bytes = static_cast<double>(spec.numel() * static_cast<int64_t>(c10::elementSize(spec.dtype())));
      for (int64_t e = 0; e < mesh_->ndim(); ++e)
        if (e != d && distributes(spec.placements()[as_size(e)]))
          bytes /= static_cast<double>(mesh_->size(e));
      cost.first += move_cost(call_.current[i], row.inputs[i], bytes, static_cast<double>(mesh_->size(d)));
      cost.second += is_partial(row.inputs[i]) && !is_partial(call_.current[i]) ? 2 : 1;
    }
    return cost;
  }

  const Resolved& resolved_;
  const Operands& operands_;
  OpCall& call_;
  const std::vector<bool>& stays_;
  const std::vector<int64_t>& aliases_;
  const DeviceMesh* mesh_ = nullptr;
  std::vector<int64_t> order_;
  std::vector<bool> last_;                  // the mesh dimension's turn comes after those of others
  std::vector<std::optional<Row>> chosen_;  // by mesh dimension
  Candidates* considered_ = nullptr;        // null: nobody asks
};

std::string describe(const Operands& operands) {
  std::string text;
  for (size_t i = 0; i < operands.specs.size(); ++i) {
    if (!operands.metas[i].defined) continue;
    if (!text.empty()) text += ", ";
    text += operands.specs[i] != nullptr ? to_string(*operands.specs[i]) : "plain scalar";
  }
  return text;
}

[[noreturn]] void refuse(const c10::OperatorHandle& op, const Resolved& resolved, const Operands& operands) {
  const bool aliases = resolved.entry->kind == OpKind::kView;
  auto specs = describe(operands);
  const auto problem = concat("cannot run on (", specs, ") without moving ",
                              aliases ? "the tensor that it aliases" : "a tensor that it writes to",
                              ", and a view or in-place op never redistributes silently; ");
  throw Refused(aliases ? Refusal::kView : Refusal::kInPlace, concat(op.operator_name()), std::move(specs),
                problem, concat("call redistribute on it first", aliases ? ", or use a copying op" : ""));
}

// For each input, whether it must not move: another name may show it.
std::vector<bool> staying(const Resolved& resolved, const Operands& operands, MayMove may_move) {
  std::vector<bool> stays;
  const bool view = resolved.entry->kind == OpKind::kView;
  for (size_t i = 0; i < operands.specs.size(); ++i)
    stays.push_back((operands.mutated[i] && !may_move.written) || (i == 0 && view && !may_move.viewed));
  return stays;
}

// The order in which mesh dimensions apply to everything in this op: that of what stays, else that of the
// first tensor whose order is its own.
std::vector<int64_t> common_order(const Operands& operands, const std::vector<bool>& stays) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < stays.size(); ++i)
    if (operands.specs[i] != nullptr && stays[i]) return operands.specs[i]->order();
  for (const auto& spec : operands.specs) {
    if (spec != nullptr && !spec->default_order()) return spec->order();
    if (spec != nullptr) order = spec->order();
  }
  return order;
}

// For each output, the input that it is: the mutated ones in order, for in-place ops; views and values are
// new.
std::vector<int64_t> aliases_of(const Resolved& resolved, const Operands& operands, size_t outputs) {
  std::vector<int64_t> result(outputs, -1);
  if (resolved.variant == Variant::kFunctional || resolved.entry->kind == OpKind::kView) return result;
  size_t j = 0;
  for (size_t i = 0; i < operands.mutated.size() && j < outputs; ++i)
    if (operands.mutated[i]) result[j++] = static_cast<int64_t>(i);
  return result;
}

void place(Decision& decision, const Chooser& chooser, const Operands& operands,
           const std::vector<int64_t>& order) {
  const auto& any =
      **std::find_if(operands.specs.begin(), operands.specs.end(), [](auto& s) { return s != nullptr; });
  for (size_t i = 0; i < operands.specs.size(); ++i) {
    const auto& from = operands.specs[i];
    if (from == nullptr) {
      decision.routes.push_back({});
      decision.inputs.push_back(nullptr);
      continue;
    }
    auto placements = chooser.chosen(&Row::inputs, i);
    const bool stays = placements == from->placements() && order == from->order();
    auto to =
        stays ? from : std::make_shared<const Spec>(from->with_placements(std::move(placements), order));
    decision.routes.push_back(route(from, to));
    decision.redistributes |= !decision.routes.back().steps.empty();
    decision.inputs.push_back(*from == *to ? from : to);
  }
  for (size_t j = 0; j < decision.call.outputs.size(); ++j) {
    const auto& meta = decision.call.outputs[j];
    auto& output = decision.outputs.emplace_back();
    if (meta.defined)
      output = std::make_shared<const Spec>(
          any.with(chooser.chosen(&Row::outputs, j), order, meta.shape, meta.stride, meta.dtype));
  }
}

OpCall make_call(const c10::OperatorHandle& op, const Operands& operands,
                 const std::vector<TensorMeta>& outputs, std::span<const c10::IValue> args) {
  OpCall call;
  call.name = op.schema().name();
  call.overload = op.schema().overload_name();
  call.args = {op.schema(), args};
  call.inputs.assign(operands.metas.begin(), operands.metas.end());
  call.outputs = outputs;
  return call;
}

// Rules name reductions whatever the dtype; one that it does not have makes no Spec.
bool has_reductions(const Placements& placements, const std::vector<TensorMeta>& metas) {
  for (size_t i = 0; i < std::min(placements.size(), metas.size()); ++i) {
    const auto* partial = std::get_if<Partial>(&placements[i]);
    if (partial != nullptr && metas[i].defined && !has_reduction(partial->op, metas[i].dtype)) return false;
  }
  return true;
}

// Each tensor of the call is placed, on dimensions that it has: a rule may be a user's.
bool fits(const Placements& placements, const std::vector<TensorMeta>& metas) {
  if (placements.size() != metas.size()) return false;
  for (size_t i = 0; i < metas.size(); ++i)
    if (metas[i].defined && shard_dim(placements[i]) >= metas[i].ndim()) return false;
  return true;
}

void check_fits(const OpCall& call, const Row& row) {
  const bool even = std::all_of(row.even.begin(), row.even.end(), [&](const InputDim& e) {
    return e.input < call.inputs.size() && e.dim >= 0 && e.dim < call.inputs[e.input].ndim();
  });
  LOCKSTEP_CHECK(fits(row.inputs, call.inputs) && fits(row.outputs, call.outputs) && even, "[", call.name,
                 "] its rule has the row ", to_string(row.inputs), " -> ", to_string(row.outputs),
                 ", but the call has ", call.inputs.size(), " tensors and ", call.outputs.size(),
                 " results: a row has a placement for each of them, on a dimension that it has");
}

}  // namespace

Rows legal_rows(const OpEntry& entry, const OpCall& call) {
  auto rows = entry.rows(call);
  for (const auto& row : rows) check_fits(call, row);
  std::erase_if(rows, [&call](const Row& row) {
    return !has_reductions(row.inputs, call.inputs) || !has_reductions(row.outputs, call.outputs);
  });
  if (!entry.own_interleaved) {
    const size_t plain = rows.size();
    Placements done;
    for (const auto& current : call.current) {
      if (!is_scattered(current)) continue;
      const auto kind = with_dim(current, 0);
      if (std::find(done.begin(), done.end(), kind) != done.end()) continue;
      done.push_back(kind);
      for (size_t i = 0; i < plain; ++i) rows.push_back(like(rows[i], kind));
    }
  }
  rows.push_back(replicate_row(call));
  return rows;
}

std::shared_ptr<const Decision> decide(const c10::OperatorHandle& op, const Resolved& resolved,
                                       const Operands& operands, std::vector<c10::IValue> args,
                                       const std::vector<TensorMeta>& outputs, MayMove may_move,
                                       Candidates* candidates) {
  auto decision = std::make_shared<Decision>();
  decision->args = std::move(args);
  decision->call = make_call(op, operands, outputs, decision->args);
  const auto aliases = aliases_of(resolved, operands, outputs.size());
  const auto stays = staying(resolved, operands, may_move);
  Chooser chooser(resolved, operands, decision->call, stays, aliases);
  if (candidates != nullptr) chooser.note(*candidates);
  const auto order = common_order(operands, stays);
  if (!chooser.choose(order)) refuse(op, resolved, operands);
  place(*decision, chooser, operands, order);
  for (size_t i = 0; i < stays.size(); ++i)
    if (stays[i] && !decision->routes[i].steps.empty()) refuse(op, resolved, operands);
  return decision;
}

std::shared_ptr<const Decision> decide_list(const c10::OperatorHandle& op, const Resolved& resolved,
                                            const Operands& operands, std::vector<c10::IValue> args,
                                            const std::vector<TensorMeta>& outputs, Candidates* candidates) {
  auto joined = std::make_shared<Decision>();
  joined->args = std::move(args);
  joined->call = make_call(op, operands, outputs, joined->args);
  joined->routes.resize(operands.specs.size());
  joined->inputs.resize(operands.specs.size());
  // The place of each tensor in its list; single tensors are shared by all elements.
  std::vector<size_t> place_in_list(operands.arg.size(), 0), per_arg(joined->args.size(), 0);
  for (size_t i = 0; i < operands.arg.size(); ++i) place_in_list[i] = per_arg[operands.arg[i]]++;
  const size_t n = per_arg.empty() ? 0 : per_arg[operands.arg.empty() ? 0 : operands.arg[0]];
  joined->outputs.resize(outputs.size());
  for (size_t element = 0; element < n; ++element) {
    Operands mine;
    std::vector<size_t> from;
    for (size_t i = 0; i < operands.arg.size(); ++i) {
      const bool list = joined->args[operands.arg[i]].isList();
      if (list && place_in_list[i] != element) continue;
      from.push_back(i);
      mine.specs.push_back(operands.specs[i]);
      mine.metas.push_back(operands.metas[i]);
      // Elements of one element would else have it cut as they are, and take it from the others' ranks.
      mine.metas.back().constant |= !list;
      mine.mutated.push_back(operands.mutated[i]);
      mine.arg.push_back(operands.arg[i]);
    }
    // An op that returns several lists has a result of this element in each.
    std::vector<TensorMeta> out;
    for (size_t j = element; j < outputs.size(); j += n) out.push_back(outputs[j]);
    if (outputs.empty()) out.push_back(mine.metas[0]);
    const bool any = std::any_of(mine.specs.begin(), mine.specs.end(), [](auto& s) { return s != nullptr; });
    if (!any)
      throw Refused(Refusal::kPlain, concat(op.operator_name()), describe(operands),
                    concat("element ", element, " of the list is a plain tensor among DTensors; "),
                    "distribute it first");
    Candidates its;
    const auto one =
        decide(op, resolved, mine, joined->args, out, {.viewed = true}, candidates ? &its : nullptr);
    for (auto& candidate : its) {
      if (!one->redistributes) break;
      candidate.element = static_cast<int64_t>(element);
      candidates->push_back(std::move(candidate));
    }
    for (size_t i = 0; i < from.size(); ++i) {
      joined->routes[from[i]] = one->routes[i];
      joined->inputs[from[i]] = one->inputs[i];
    }
    joined->redistributes |= one->redistributes;
    for (size_t j = element, k = 0; j < outputs.size(); j += n) joined->outputs[j] = one->outputs[k++];
  }
  return joined;
}

}  // namespace lockstep
