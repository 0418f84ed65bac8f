// SPDX-License-Identifier: Apache-2.0
#include "generators/program/builder.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/GradMode.h>

#include "generators/program/trial.h"
#include "generators/program/vary.h"
#include "oracle/program/statements.h"

namespace lockstep::generators {
namespace {

using oracle::Ref;
using oracle::Target;

constexpr int64_t kMostGrowth = 64;  // how many times as large as an input a result may be
bool matches(const Shape& shape, const Want& want) {
  if (!want.shape) {
    const auto ndim = std::ssize(shape);
    return ndim >= want.min_dims && ndim <= want.max_dims;
  }
  const auto& wanted = *want.shape;
  if (want.broadcasts ? shape.size() > wanted.size() : shape.size() != wanted.size()) return false;
  for (size_t i = 1; i <= shape.size(); ++i) {
    const auto have = shape[shape.size() - i], need = wanted[wanted.size() - i];
    if (have != need && need != -1 && !(want.broadcasts && have == 1)) return false;
  }
  return true;
}

// Sharded dimensions of a view, found by size and stride in the tensor it views; nullopt where that is
// ambiguous.
std::optional<Target> carried(const Value& source, const at::Tensor& view) {
  if (!source.placement || !source.trial.defined()) return std::nullopt;
  const auto& base = source.trial;
  Target target = *source.placement;
  if (view.sizes() == base.sizes() && view.strides() == base.strides()) return target;
  if (has_ragged(target)) return std::nullopt;
  for (auto& p : target.placements) {
    const auto dim = shard_dim(p);
    if (dim < 0) continue;
    const auto size = base.size(dim), stride = base.stride(dim);
    int64_t found = -1;
    for (int64_t d = 0; d < view.dim(); ++d)
      if (view.size(d) == size && view.stride(d) == stride) found = found < 0 ? d : -2;
    for (int64_t d = 0; d < base.dim(); ++d)
      if (d != dim && base.size(d) == size && base.stride(d) == stride) found = -2;
    if (found < 0 || size < 2 || stride == 0) return std::nullopt;
    p = with_dim(p, found);
  }
  return target;
}

}  // namespace

Builder::Builder(Random random, Settings settings) : random_(random), settings_(std::move(settings)) {}

bool Builder::fits(const Value& v, const Want& want) const {
  if (!v.trial.defined() || !(bit_of(v.trial.scalar_type()) & want.dtypes)) return false;
  const auto& group = groups_[v.group];
  if (v.plain != outside_) return false;
  const auto shares = [&](Ref ref) { return value(ref).group == v.group; };
  if ((!want.grad && v.trial.requires_grad()) || std::any_of(want.apart.begin(), want.apart.end(), shares))
    return false;
  if (want.writable && (!v.writable || group.saved || group.frozen || group.leaf ||
                        at::has_internal_overlap(v.trial) != at::MemOverlap::No))
    return false;
  if (want.plain_zeros && settings_.integer_lane && group.signed_zero) return false;
  if (want.least > 0)
    for (const auto n : v.trial.sizes())
      if (n < want.least) return false;
  return v.trial.numel() <= 4 * settings_.max_numel && matches(v.trial.sizes().vec(), want);
}

Ref Builder::operand(const Want& want) {
  if (want.fresh || want.values) return fresh(want);
  std::vector<Ref> found;
  for (size_t i = 0; i < values_.size(); ++i)
    if (fits(values_[i], want)) found.push_back({static_cast<int64_t>(i)});
  const bool full = std::ssize(program_.inputs) >= settings_.max_inputs;
  // The fewer fit, the more often a new one: a call's operands would else mostly be one tensor.
  const auto n = std::ssize(found);
  if (n == 0 || (!full && random_.chance(std::max<int64_t>(25, 75 / n)))) return fresh(want);
  // The later half is drawn as often as all of them.
  return found[static_cast<size_t>(random_.chance(50) ? random_.between(n / 2, n - 1) : random_.below(n))];
}

size_t Builder::group_of(const at::Tensor& tensor) {
  const void* storage = tensor.defined() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  if (storage != nullptr)
    for (size_t g = 0; g < storages_.size(); ++g)
      if (storages_[g] == storage) return g;
  storages_.push_back(storage);
  groups_.emplace_back();
  if (tensor.defined()) groups_.back().dtype = tensor.scalar_type();
  return groups_.size() - 1;
}

void Builder::add_value(const at::Tensor& tensor, Magnitude magnitude, std::optional<Target> placement,
                        bool writable) {
  const auto known = groups_.size();
  const auto group = group_of(tensor);
  auto& held = groups_[group].magnitude;
  held = group < known ? larger(held, magnitude) : magnitude;
  values_.push_back({tensor, group, std::move(placement), -1, writable});
}

bool Builder::bounded(const std::vector<at::Tensor>& tensors, const Growth& growth) const {
  if (!settings_.integer_lane) return true;
  for (const auto& tensor : tensors)
    if (tensor.defined() && !exact(growth.result, tensor.scalar_type())) return false;
  return true;
}

// A number that the host read is an operand beside tensors: alone it is none of PyTorch's tensors, and stock
// reductions of it write another dtype than they promise.
bool Builder::is_of_numbers(const oracle::Call& made) const {
  const auto operands = references(made);
  const auto is_number = [this](Ref ref) {
    return ref.id >= 0 && tensor(ref).defined() && tensor(ref).unsafeGetTensorImpl()->is_wrapped_number();
  };
  return !operands.empty() && std::all_of(operands.begin(), operands.end(), is_number);
}

// An outer product of many terms with themselves would be judged for minutes.
bool Builder::small(const std::vector<at::Tensor>& tensors) const {
  return std::all_of(tensors.begin(), tensors.end(), [this](const at::Tensor& t) {
    return !t.defined() || t.numel() <= kMostGrowth * settings_.max_numel;
  });
}

std::optional<std::vector<at::Tensor>> Builder::tried_varied(oracle::Call& call) {
  if (settings_.varied == 0 || !random_.chance(settings_.varied)) return std::nullopt;
  const Lookup known = [&](Ref ref) -> const at::Tensor& { return tensor(ref); };
  auto varied = vary(random_, call, known, settings_.integer_lane);
  if (!varied) return std::nullopt;
  at::Tensor given;
  const Ref next{std::ssize(values_)};
  if (varied->given) {
    given = trial_input({.dtype = varied->given->dtype, .shape = varied->given->shape});
    varied->call.args[varied->given->arg] = next;
  }
  try {
    const Lookup lookup = [&](Ref ref) -> const at::Tensor& { return ref == next ? given : tensor(ref); };
    auto tensors = outside_ ? plain_trial_call(varied->call, lookup, leaves_)
                            : trial_call(varied->call, lookup, leaves_);
    if (given.defined())
      fresh({.dtypes = bit_of(varied->given->dtype), .shape = varied->given->shape, .grad = false});
    call = std::move(varied->call);
    return tensors;
  } catch (const std::exception&) {
    return std::nullopt;  // libtorch refuses it: no case
  }
}

std::vector<at::Tensor> Builder::tried(oracle::Call& call, bool may_vary) {
  if (may_vary)
    if (auto tensors = tried_varied(call)) return std::move(*tensors);
  return trial_call(
      call, [&](Ref ref) -> const at::Tensor& { return tensor(ref); }, leaves_);
}

bool Builder::call(const char* op, std::vector<oracle::Arg> args, const Growth& growth, bool saves) {
  const bool aten = std::string_view(op).starts_with("aten::");
  return append({op, aten ? with_defaults(op, std::move(args)) : std::move(args), 0}, growth, saves, aten);
}

bool Builder::exactly(const char* op, std::vector<oracle::Arg> args, const Growth& growth) {
  return append({op, with_defaults(op, std::move(args)), 0}, growth, true, false);
}

bool Builder::call_unsized(const char* op, std::vector<oracle::Arg> args) {
  if (!append({op, with_defaults(op, std::move(args)), 0}, {}, false, false)) return false;
  for (const auto ref : results_) values_[static_cast<size_t>(ref.id)].trial = at::Tensor();
  return true;
}

bool Builder::again(const Made& first, std::vector<oracle::Arg> args) {
  oracle::Call made{first.call.op, std::move(args), 0};
  auto growth = first.growth;
  const auto operands = references(made);
  for (size_t i = 0; i < operands.size() && i < first.operands.size(); ++i) {
    const auto was = first.operands[i], is = magnitude(operands[i]);
    growth.result = growth.result * Magnitude{std::max(is.bound / was.bound, 1.0),
                                              std::max<int64_t>(is.fraction - was.fraction, 0)};
  }
  return append(std::move(made), growth, true, false);
}

bool Builder::append(oracle::Call made, const Growth& growth, bool saves, bool may_vary) {
  results_.clear();
  const auto refused = [&](const char* why) {
    refusals_.push_back(made.op + ": " + why);
    return false;
  };
  if (made.op.starts_with("aten::") && is_of_numbers(made)) return refused("numbers");
  // An in-place call must be judged before it runs; others are cheap to forget.
  if (oracle::is_in_place(made.op) && !bounded({tensor(references(made).front())}, growth))
    return refused("magnitude");
  try {
    // As the Program will run, after backward() too: libtorch refuses writes to some views with a history.
    const c10::AutoGradMode mode(settings_.backward && grad_enabled_);
    const auto as_made = made.args;
    auto tensors = tried(made, may_vary);
    if (!bounded(tensors, growth)) return refused("magnitude");
    if (!small(tensors)) return refused("size");
    if (may_vary) write_to_outs(made, tensors, growth);
    results_.clear();
    made.results = std::ssize(tensors);
    if (made.op == oracle::kSetGradEnabled) grad_enabled_ = std::get<bool>(made.args[0]);
    last_ = {made, growth, {}};
    for (const auto ref : references(made)) last_.operands.push_back(magnitude(ref));
    record(made, tensors, growth, saves || made.args != as_made);
    program_.calls.push_back(std::move(made));
    return true;
  } catch (const c10::Error& error) {
    return refused(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return refused(error.what());
  }
}

bool Builder::makes_plain(const oracle::Call& made) const {
  const auto operands = references(made);
  if (oracle::leaves_mesh(made.op)) return true;
  return !operands.empty() && !oracle::runs_backward(made.op) &&
         std::all_of(operands.begin(), operands.end(), [&](Ref ref) { return ref.id < 0 || is_plain(ref); });
}

void Builder::record(const oracle::Call& made, const std::vector<at::Tensor>& tensors, const Growth& growth,
                     bool saves) {
  const auto operands = references(made);
  const bool plain = makes_plain(made);
  Flow flow{{}, {}, oracle::is_in_place(made.op)};
  for (size_t i = 0; i < operands.size(); ++i)
    flow.operands.emplace_back(value(operands[i]).group,
                               i < growth.factors.size() ? growth.factors[i] : Magnitude{});
  for (const auto& tensor : tensors) {
    std::optional<Target> placement;
    bool writable = tensors.size() == 1;
    for (const auto ref : operands)
      if (this->tensor(ref).defined() && tensor.defined() && tensor.is_alias_of(this->tensor(ref))) {
        placement = carried(value(ref), tensor);
        writable = writable && value(ref).writable;
        break;
      }
    if (made.op == oracle::kRedistribute) placement = std::get<Target>(made.args[1]);
    if (const auto map = oracle::local_map_of(made)) placement = map->out;
    if (const auto* placed = oracle::placed_by_factory(made)) placement = *placed;
    results_.push_back({std::ssize(values_)});
    add_value(tensor, growth.result, std::move(placement), writable && !oracle::runs_backward(made.op));
    values_.back().plain = plain;
    flow.results.push_back(values_.back().group);
  }
  if (tensors.empty() && flow.in_place)
    for (const auto ref : std::get<std::vector<Ref>>(made.args[0])) {
      flow.results.push_back(value(ref).group);
      groups_[value(ref).group].magnitude = larger(magnitude(ref), growth.result);
    }
  bool signed_zero = growth.signs_zero;
  for (const auto ref : operands) signed_zero = signed_zero || groups_[value(ref).group].signed_zero;
  for (const auto g : flow.results) groups_[g].signed_zero = groups_[g].signed_zero || signed_zero;
  bool tracked = false;  // for a backward() to come
  for (const auto& tensor : tensors)
    tracked = tracked || (gradients_.empty() && tensor.defined() && tensor.requires_grad());
  // Views that one op returned together must not see their base change, if it has a history.
  const bool views = tensors.size() > 1 && !flow.in_place;
  // _unsafe_view promises autograd and the engine that nobody writes to either side again.
  const bool freezes = (views && tracked) || made.op == "aten::_unsafe_view";
  const auto mark = [&](size_t g) {
    groups_[g].saved = groups_[g].saved || (saves && tracked);
    groups_[g].frozen = groups_[g].frozen || freezes;
  };
  for (const auto ref : operands) mark(value(ref).group);
  for (const auto g : flow.results) mark(g);
  flows_.push_back(std::move(flow));
}

Ref Builder::redistribute(Ref ref, const Target& target) {
  if (is_plain(ref)) return ref;
  Growth growth{magnitude(ref), {}};
  for (size_t d = 0; d < target.placements.size(); ++d)
    if (is_partial(target.placements[d], ReduceOp::kAvg))
      growth.result.bound *= static_cast<double>(settings_.mesh.shape()[d]);
  return call("lockstep::redistribute", {ref, target}, growth, false) ? results_[0] : ref;
}

Ref Builder::redistribute(Ref ref) {
  return redistribute(ref,
                      draw_target(random_, settings_.mesh, shape(ref), dtype(ref), settings_.placements));
}

bool Builder::has_seen_ragged() const {
  bool seen = std::any_of(placements_.begin(), placements_.end(), has_ragged);
  for (const auto& made : program_.calls)
    for (const auto& arg : made.args)
      if (const auto* target = std::get_if<Target>(&arg)) seen |= has_ragged(*target);
  return seen;
}

std::optional<Ref> Builder::misplaced(Ref ref, const Needs& needs) {
  if (misplaced_) return ref;
  // Fewer calls view than write; those that mind flat locals alone run on many of them.
  const bool is_view = !needs.whole.empty() && !needs.no_partial;
  if (settings_.refused == 0 || !random_.chance(settings_.refused * (is_view ? 3 : 1))) return std::nullopt;
  const auto target =
      draw_misplaced(random_, settings_.mesh, shape(ref), dtype(ref), settings_.placements, needs);
  if (!target) return std::nullopt;
  const Ref moved = redistribute(ref, *target);
  misplaced_ = moved.id != ref.id;
  return misplaced_ ? std::optional(moved) : std::nullopt;
}

Ref Builder::boxed(Ref ref) {
  if (is_plain(ref)) return ref;
  if (const auto wrong = misplaced(ref, {.no_ragged = true})) return *wrong;
  const auto& placed = value(ref).placement;
  if (placed ? !has_ragged(*placed) : !has_seen_ragged()) return ref;
  return redistribute(
      ref, draw_target(random_, settings_.mesh, shape(ref), dtype(ref), settings_.placements & ~kRagged));
}

Ref Builder::unsharded(Ref ref, std::vector<int64_t> dims, bool no_partial) {
  if (is_plain(ref)) return ref;
  const bool takes_ragged = no_partial && dims.empty();
  for (auto& dim : dims) dim += dim < 0 ? ndim(ref) : 0;
  if (const auto wrong = misplaced(ref, {dims, no_partial})) return *wrong;
  const auto stands = [&](const Target& target) {
    if (has_ragged(target) && !takes_ragged) return false;
    for (const auto dim : dims)
      if (shards(target, dim)) return false;
    return !(no_partial && has_partial(target));
  };
  if (value(ref).placement && stands(*value(ref).placement)) return ref;
  const uint32_t kinds =
      settings_.placements & ~(no_partial ? kPartials : 0u) & ~(takes_ragged ? 0u : kRagged);
  auto target = draw_target(random_, settings_.mesh, shape(ref), dtype(ref), kinds);
  for (auto& p : target.placements)
    for (const auto dim : dims)
      if (shard_dim(p) == dim) p = Replicate{};
  if (!dims.empty()) target.order.clear();
  return redistribute(ref, target);
}

Ref Builder::target(Want want) {
  want.writable = true;
  return unsharded(operand(want), {}, true);
}

}  // namespace lockstep::generators
