// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/exchange_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "engine/context/asking.h"
#include "engine/layout/layout.h"
#include "engine/move/execute.h"
#include "engine/tensor/gradients.h"
#include "engine/tensor/plain_guard.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/observed.h"

namespace lockstep {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kName = "experts::permute_rows";

std::vector<int64_t> leading_of(const Spec& spec) {
  return {spec.shape().begin(), spec.shape().end() - 1};
}

// Rows that a rank holds, and the elements of each.
struct OwnRows {
  Interval rows;
  int64_t width = 0;
  bool has(int64_t row) const { return row >= rows.start && row < rows.start + rows.length; }
};

OwnRows own_rows(const Spec& spec, int64_t position) {
  const auto owned = owned_by(spec, position);
  const auto leading = owned.lists.size() - 1;
  int64_t inner = 1;  // rows of an index of the first dimension
  for (size_t d = 1; d < leading; ++d) inner *= spec.shape()[d];
  bool is_run = owned.lists[0].size() <= 1;
  for (size_t d = 1; d < leading; ++d) is_run = is_run && length(owned.lists[d]) == spec.shape()[d];
  LOCKSTEP_CHECK(is_run, "[exchange_rows] ", to_string(spec),
                 " has rows of more than one run on a rank; redistribute it to Shard(0) first");
  OwnRows own{{}, length(owned.lists[leading])};
  if (!owned.lists[0].empty()) own.rows = {owned.lists[0][0].start * inner, owned.lists[0][0].length * inner};
  if (!owned.flat.has_value()) return own;
  const auto [start, elements] = *owned.flat;
  if (own.width == 0) return {{own.rows.start, 0}, 0};
  LOCKSTEP_CHECK(start % own.width == 0 && elements % own.width == 0, "[exchange_rows] ", to_string(spec),
                 " cuts within rows; redistribute it to a RaggedShard of dimension 0 first");
  own.rows = {own.rows.start + start / own.width, elements / own.width};
  return own;
}

// Which rows go from one rank to another: where they lie at the former, and at the latter.
struct Way {
  std::vector<int64_t> from, to;
};

at::Tensor indices(const std::vector<int64_t>& places, const at::Tensor& like) {
  return at::tensor(places, at::kLong).to(like.device());
}

// What one hosted rank sends to and receives from each of those along the mesh dimension; by place, itself
// included.
struct Ways {
  std::vector<Way> sent, received;
};

class Planner {
 public:
  Planner(const Spec& from, const Spec& to, const Spec& order, int64_t mesh_dim)
      : from_(from), to_(to), order_(order), mesh_dim_(mesh_dim) {}

  Ways of(int64_t position, const at::Tensor& order) const {
    const auto line = mesh_dim_ < 0 ? std::vector<int64_t>{position} : from_.mesh().line(position, mesh_dim_);
    const auto self = as_size(std::find(line.begin(), line.end(), position) - line.begin());
    std::vector<OwnRows> before, after;
    for (const int64_t peer : line) {
      before.push_back(own_rows(from_, peer));
      after.push_back(own_rows(to_, peer));
    }
    const auto places = order.to(at::kCPU).contiguous();
    const auto known = own_rows(order_, position);
    Ways ways{std::vector<Way>(line.size()), std::vector<Way>(line.size())};
    if (before[self].width == 0) return ways;
    for (size_t receiver = 0; receiver < line.size(); ++receiver)
      for (int64_t i = 0; i < after[receiver].rows.length; ++i) {
        const int64_t target = after[receiver].rows.start + i;
        const int64_t row = row_at(target, known, places.const_data_ptr<int64_t>());
        const size_t sender = sender_of(row, receiver, before);
        if (sender != self && receiver != self) continue;
        auto& way = receiver == self ? ways.received[sender] : ways.sent[receiver];
        way.from.push_back(row - before[sender].rows.start);
        way.to.push_back(i);
      }
    return ways;
  }

 private:
  int64_t row_at(int64_t target, const OwnRows& known, const int64_t* places) const {
    LOCKSTEP_CHECK(known.has(target), "[exchange_rows] the order ", to_string(order_),
                   " lacks on a rank the place of row ", target, " of ", to_string(to_),
                   "; replicate it along the mesh dimension of the exchange");
    const int64_t row = places[target - known.rows.start];
    LOCKSTEP_CHECK(row >= 0 && row < order_.shape()[0], "[exchange_rows] the order has ", row, " at place ",
                   target, ", which is not one of ", order_.shape()[0], " rows");
    return row;
  }
  // The receiver itself if it has the row, or the first that does.
  size_t sender_of(int64_t row, size_t receiver, const std::vector<OwnRows>& before) const {
    if (before[receiver].has(row)) return receiver;
    const auto found =
        std::find_if(before.begin(), before.end(), [&](const OwnRows& k) { return k.has(row); });
    LOCKSTEP_CHECK(found != before.end(), "[exchange_rows] row ", row, " of ", to_string(from_),
                   " is on no rank along mesh dimension ", mesh_dim_, "; rows are exchanged along one alone");
    return as_size(found - before.begin());
  }

  const Spec &from_, &to_, &order_;
  int64_t mesh_dim_;
};

at::Tensor as_rows(const at::Tensor& local, int64_t rows, int64_t width) {
  return local.contiguous().view({rows, width});
}

// The locals of the result.
PerRank<at::Tensor> exchanged(const DTensorImpl& rows, const DTensorImpl& order, const Spec& to,
                              int64_t mesh_dim) {
  const auto& comm = *rows.comm();
  const Planner planner(*rows.spec(), to, *order.spec(), mesh_dim);
  PerRank<at::Tensor> result, into;
  PerRank<Ways> ways;
  Exchange asked{"all_to_all", {}, nullptr};
  for (size_t i = 0; i < comm.positions.size(); ++i) {
    const int64_t position = comm.positions[i];
    const auto before = own_rows(*rows.spec(), position), after = own_rows(to, position);
    const auto own = as_rows(rows.locals()[i], before.rows.length, before.width);
    result.push_back(empty_local(to, local_shape(to, position)));
    into.push_back(result.back().view({after.rows.length, after.width}));
    ways.push_back(planner.of(position, order.locals()[i]));
    const auto& [sent, received] = ways.back();
    const auto* group = mesh_dim < 0 ? nullptr : &comm.along[as_size(mesh_dim)][i];
    const size_t self = group == nullptr ? 0 : as_size(group->place);
    into.back().index_copy_(0, indices(received[self].to, own),
                            own.index_select(0, indices(received[self].from, own)));
    if (group == nullptr) continue;
    auto& part = asked.parts.emplace_back(Part{group, {}, {}});
    for (size_t peer = 0; peer < sent.size(); ++peer) {
      const auto place = static_cast<int64_t>(peer);
      if (peer == self || after.width == 0) continue;
      if (!sent[peer].from.empty())
        part.sent.push_back({place, own.index_select(0, indices(sent[peer].from, own))});
      if (!received[peer].to.empty())
        part.received.push_back(
            {place, at::empty({std::ssize(received[peer].to), after.width}, own.options())});
    }
  }
  if (mesh_dim < 0) return result;
  const auto arriving = asked.parts;
  begin_exchange(*comm.world, std::move(asked)).wait();
  for (size_t i = 0; i < result.size(); ++i)
    for (const auto& parcel : arriving[i].received)
      into[i].index_copy_(0, indices(ways[i].received[as_size(parcel.place)].to, into[i]), parcel.tensor());
  return result;
}

void log_exchange(const at::Tensor& rows, const at::Tensor& order, const at::Tensor& inverse,
                  const at::Tensor& result) {
  auto* timeline = dtensor_impl(rows)->comm()->context->timeline;
  if (timeline == nullptr) return;
  TimelineEntry entry;
  entry.op = kName;
  entry.args = {c10::IValue(), c10::IValue(), c10::IValue(), leading_of(*dtensor_impl(result)->spec())};
  entry.tensors_per_arg = {1, 1, 1, -1};
  entry.inputs = {record(rows), record(order), record(inverse)};
  entry.outputs = {record(result)};
  entry.aliases = {-1};
  timeline->push_back(std::move(entry));
}

// Where rows go: other mesh dimensions cut what they did.
SpecPtr exchanged_spec(const Spec& from, int64_t mesh_dim, const Placement& placement,
                       std::vector<int64_t> leading) {
  auto placements = from.placements();
  const auto last = std::ssize(leading);
  for (size_t d = 0; d < placements.size(); ++d) {
    auto& p = placements[d];
    if (static_cast<int64_t>(d) == mesh_dim) {
      p = placement;
    } else if (p == Placement(Shard{from.ndim() - 1})) {
      p = Shard{last};
    } else {
      LOCKSTEP_CHECK(is_replicate(p) || p == Placement(Shard{0}), "[exchange_rows] ", to_string(from),
                     " along mesh dimension ", d, ", where nothing is exchanged, is ", p,
                     "; redistribute it to Replicate or Shard of the first or last dimension first");
    }
  }
  leading.push_back(from.shape().back());
  const auto stride = contiguous_strides(leading);
  return std::make_shared<const Spec>(
      from.with(std::move(placements), from.order(), std::move(leading), stride, from.dtype()));
}

struct ExchangeRows : torch::autograd::Function<ExchangeRows> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& rows, const at::Tensor& order,
                            const at::Tensor& inverse, int64_t mesh_dim, const Placement& placement,
                            const std::vector<int64_t>& leading) {
    const auto& impl = require_dtensor(rows, "exchange_rows");
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({order, inverse});
    ctx->saved_data["mesh_dim"] = mesh_dim;
    ctx->saved_data["from"] = hold(impl.spec(), impl.comm());
    const auto to = exchanged_spec(*impl.spec(), mesh_dim, placement, leading);
    ctx->saved_data["to"] = hold(to, impl.comm());
    const PlainGuard guard;
    const Asking asks(kName);
    const ContextUse use(*impl.comm()->context);
    auto result = make_dtensor(to, impl.comm(),
                               exchanged(impl, require_dtensor(order, "exchange_rows"), *to, mesh_dim));
    log_exchange(rows, order, inverse, result);
    return result;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    if (!grads[0].defined()) return variable_list(6);
    const auto saved = ctx->get_saved_variables();
    const int64_t mesh_dim = ctx->saved_data["mesh_dim"].toInt();
    const auto from = held_in(ctx->saved_data["from"]), to = held_in(ctx->saved_data["to"]);
    const auto placement =
        mesh_dim < 0 ? Placement(Replicate{}) : from->spec->placements()[as_size(mesh_dim)];
    const auto grad = settled(grads[0], to->spec, to->comm);
    return {exchange_rows(grad, saved[1], saved[0], mesh_dim, placement, leading_of(*from->spec)),
            at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

void check_operands(const at::Tensor& rows, const at::Tensor& order, const at::Tensor& inverse,
                    int64_t mesh_dim, const Placement& placement, const std::vector<int64_t>& leading) {
  const auto& spec = *require_dtensor(rows, "exchange_rows").spec();
  LOCKSTEP_CHECK(!spec.has_partial(), "[exchange_rows] ", to_string(spec),
                 " pends; redistribute it to Replicate or a Shard first");
  const auto is_of_rows = [](const Placement& p) {
    return is_replicate(p) || p == Placement(Shard{0}) || is_ragged(p);
  };
  LOCKSTEP_CHECK(mesh_dim >= -1 && mesh_dim < spec.mesh().ndim(), "[exchange_rows] of ", to_string(spec),
                 " along mesh dimension ", mesh_dim, ", of ", spec.mesh().ndim());
  LOCKSTEP_CHECK(mesh_dim < 0 || (is_of_rows(placement) && is_of_rows(spec.placements()[as_size(mesh_dim)])),
                 "[exchange_rows] of ", to_string(spec), " to ", placement, " along mesh dimension ",
                 mesh_dim, "; rows go from and to Replicate, Shard(0) or a RaggedShard");
  LOCKSTEP_CHECK(spec.ndim() > 1 && !leading.empty() &&
                     c10::multiply_integers(leading) == c10::multiply_integers(leading_of(spec)),
                 "[exchange_rows] the rows of ", to_string(spec), " are not ", at::IntArrayRef(leading));
  for (const auto* places : {&order, &inverse}) {
    const auto& of = *require_dtensor(*places, "exchange_rows").spec();
    LOCKSTEP_CHECK(of.mesh() == spec.mesh() && of.dtype() == at::kLong && of.ndim() == 1 &&
                       of.shape()[0] == c10::multiply_integers(leading) && !of.has_partial(),
                   "[exchange_rows] ", to_string(of), " is not a place of int64 for each row of ",
                   to_string(spec), " on its mesh");
  }
}

}  // namespace

at::Tensor exchange_rows(const at::Tensor& rows, const at::Tensor& order, const at::Tensor& inverse,
                         int64_t mesh_dim, const Placement& placement, const std::vector<int64_t>& leading) {
  if (!is_dtensor(rows) && !is_dtensor(order)) {
    static const auto op =
        c10::Dispatcher::singleton()
            .findSchemaOrThrow(kName, "")
            .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, at::IntArrayRef)>();
    return op.call(rows, order, inverse, leading);
  }
  check_operands(rows, order, inverse, mesh_dim, placement, leading);
  return ExchangeRows::apply(rows, order, inverse, mesh_dim, placement, leading);
}

}  // namespace lockstep
