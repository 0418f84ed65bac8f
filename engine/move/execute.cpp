// SPDX-License-Identifier: Apache-2.0
#include "engine/move/execute.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include <algorithm>
#include <limits>

#include "engine/layout/library_order.h"
#include "engine/layout/standing.h"
#include "engine/move/gathering.h"
#include "engine/values/as_size.h"
#include "engine/world/bits.h"
#include "engine/world/collectives.h"
#include "engine/world/fold.h"
#include "engine/world/library.h"
#include "engine/world/observed.h"
#include "engine/world/share.h"
#include "engine/world/together.h"

namespace lockstep {
namespace {

using Locals = PerRank<at::Tensor>;

const std::vector<Group>& groups_of(const Step& step, const Comm& comm) {
  return comm.along[as_size(step.mesh_dim)];
}

ReduceOp reduction(const Step& step) {
  return std::get<Partial>(step.from->placements()[as_size(step.mesh_dim)]).op;
}

int64_t cut_by(const Step& step, const Spec& spec) {
  return shard_dim(spec.placements()[as_size(step.mesh_dim)]);
}

Locals conformed(Locals locals, const Spec& spec) {
  conform_all(locals, spec);
  return locals;
}

Slab part_of(const at::Tensor& local, int64_t dim, Interval part) {
  return {local, dim, part.start, part.length};
}

Locals empty_locals(const Spec& spec, const Comm& comm) {
  Locals result;
  const auto options = local_options(spec);
  std::vector<int64_t> shape, stride;  // of the local before: most are alike
  for (const int64_t p : comm.positions) {
    if (auto next = local_shape(spec, p); stride.empty() || next != shape) {
      shape = std::move(next);
      stride = local_stride(spec, shape);
    }
    result.push_back(at::empty_strided(shape, stride, options));
  }
  return result;
}

// Along one mesh dimension: a local as one piece for each rank of the group, up to the first empty one: what
// follows is empty, too.
Buffers cut(const at::Tensor& local, int64_t dim, const Step& step) {
  const int64_t m = step.from->mesh().size(step.mesh_dim);
  Buffers pieces;
  pieces.reserve(as_size(std::min(m, local.size(dim) + 1)));
  for (int64_t r = 0; r < m; ++r) {
    const auto piece = chunk(local.size(dim), m, r);
    pieces.push_back(part_of(local, dim, piece));
    if (piece.length == 0) break;
  }
  return pieces;
}

PerRank<Buffers> cut(const Locals& locals, int64_t dim, const Step& step) {
  PerRank<Buffers> pieces;
  for (const auto& local : locals) pieces.push_back(cut(local, dim, step));
  return pieces;
}

// The same where the pieces are flat: of the elements in row-major order as many for each rank as it holds
// afterwards.
PerRank<Buffers> cut_flat(const Locals& locals, const Step& step, const Comm& comm) {
  PerRank<Buffers> pieces;
  for (size_t i = 0; i < locals.size(); ++i) {
    const auto flat = locals[i].reshape({-1});
    Interval piece;
    auto& mine = pieces.emplace_back();
    for (const int64_t p : step.from->mesh().line(comm.positions[i], step.mesh_dim)) {
      piece = {piece.start + piece.length, c10::multiply_integers(local_shape(*step.to, p))};
      mine.push_back(part_of(flat, 0, piece));
    }
  }
  return pieces;
}

// Who reduces instead of a fold in rank order; null: nobody.
Library* library_of(const Step& step, const Comm& comm) {
  return reduced_by_library(*step.from) ? comm.world->library() : nullptr;
}

// A library's average is its sum, divided; here so that the bits of a NaN do not depend on where it stands,
// as with libtorch's division they do in a bfloat16.
void divide(Locals& sums, const Step& step) {
  if (reduction(step) != ReduceOp::kAvg) return;
  for (auto& sum : sums)
    sum = at::where(sum.ne(sum), sum, divided(sum, step.from->mesh().size(step.mesh_dim)));
}

ReduceOp without_division(ReduceOp op) {
  return op == ReduceOp::kAvg ? ReduceOp::kSum : op;
}

// What is there already.
Moving arrived(Locals locals) {
  return {std::make_shared<Locals>(std::move(locals)), Work("nothing", [] {})};
}

// What a collective brings, which is not yet as a local of `to` lies.
Moving conforming(std::shared_ptr<Locals> result, Work work, const SpecPtr& to) {
  return {result, std::move(work).then([result, to] { conform_all(*result, *to); })};
}

Locals reduced_by(Library& library, const Step& step, const Locals& locals, const Comm& comm) {
  Locals result;
  for (const auto& local : locals) result.push_back(local.clone(at::MemoryFormat::Contiguous));
  library.all_reduce(groups_of(step, comm), without_division(reduction(step)), result);
  divide(result, step);
  return conformed(std::move(result), *step.to);
}

Moving reduced(const Step& step, const Locals& locals, const Comm& comm) {
  if (auto* library = library_of(step, comm)) return arrived(reduced_by(*library, step, locals, comm));
  auto result = std::make_shared<Locals>(locals.size());
  auto work = all_reduce(*comm.world, groups_of(step, comm), reduction(step), locals, *result);
  return conforming(std::move(result), std::move(work), step.to);
}

// As a library's reduce-scatter has it: pieces of one size in one buffer, the last filled up with zeros.
Locals scattered_by(Library& library, const Step& step, const Locals& locals, const Comm& comm) {
  const int64_t dim = cut_by(step, *step.to), m = step.from->mesh().size(step.mesh_dim);
  const auto terms = cut(locals, dim, step);
  Locals sent, into, result;
  for (size_t i = 0; i < locals.size(); ++i) {
    const auto piece = padded_piece(locals[i].sizes().vec(), dim, m);
    std::vector<int64_t> stacked{m};
    stacked.insert(stacked.end(), piece.begin(), piece.end());
    sent.push_back(at::zeros(stacked, locals[i].options()));
    for (size_t r = 0; r < terms[i].size(); ++r) {
      const auto term = terms[i][r].tensor();
      sent[i].select(0, static_cast<int64_t>(r)).narrow(dim, 0, term.size(dim)).copy_(term);
    }
    into.push_back(at::empty(piece, locals[i].options()));
  }
  const auto& groups = groups_of(step, comm);
  library.reduce_scatter(groups, without_division(reduction(step)), sent, into);
  divide(into, step);
  for (size_t i = 0; i < locals.size(); ++i)
    result.push_back(into[i].narrow(dim, 0, chunk(locals[i].size(dim), m, groups[i].place).length));
  return conformed(std::move(result), *step.to);
}

// A library scatters pieces of one size: where they are not, it reduces all, of which each rank keeps its
// piece.
Locals flat_scattered_by(Library& library, const Step& step, const Locals& locals, const Comm& comm) {
  Locals result;
  const auto pieces = cut_flat(reduced_by(library, step, locals, comm), step, comm);
  for (size_t i = 0; i < locals.size(); ++i)
    result.push_back(pieces[i][as_size(groups_of(step, comm)[i].place)].tensor().clone());
  return result;
}

Moving reduced_and_scattered(const Step& step, const Locals& locals, const Comm& comm) {
  const bool flat = is_flat(*step.to);
  if (auto* library = library_of(step, comm))
    return arrived((flat ? flat_scattered_by : scattered_by)(*library, step, locals, comm));
  auto result = std::make_shared<Locals>(locals.size());
  const auto terms = flat ? cut_flat(locals, step, comm) : cut(locals, cut_by(step, *step.to), step);
  auto work = reduce_scatter(*comm.world, groups_of(step, comm), reduction(step), terms, *result);
  return conforming(std::move(result), std::move(work), step.to);
}

// A gathering, and what it refers to.
struct Gathered {
  Gathered(const Step& step, Locals sent, const Comm& comm)
      : locals(std::move(sent)), gathering(groups_of(step, comm), locals, [step, &comm](size_t i) {
          auto whole = empty_local(*step.to, local_shape(*step.to, comm.positions[i]));
          auto pieces = cut(whole, cut_by(step, *step.from), step);
          return Whole{std::move(whole), std::move(pieces)};
        }) {}
  const Locals locals;
  Gathering gathering;
};

Moving gathered(const Step& step, const Locals& locals, const Comm& comm) {
  auto all = std::make_shared<Gathered>(step, locals, comm);
  auto result = std::make_shared<Locals>();
  auto work =
      all_gather(*comm.world, groups_of(step, comm), all->locals, all->gathering.forms(),
                 [all](size_t i, size_t k, const at::Tensor& piece) { all->gathering.arrive(i, k, piece); });
  return {result, std::move(work).then([result, all] { *result = std::move(all->gathering).result(); })};
}

Moving turned(const Step& step, const Locals& locals, const Comm& comm) {
  auto result = empty_locals(*step.to, comm);
  auto sent = cut(locals, cut_by(step, *step.to), step);
  auto into = cut(result, cut_by(step, *step.from), step);
  auto work = all_to_all(*comm.world, groups_of(step, comm), std::move(sent), std::move(into));
  return {std::make_shared<Locals>(std::move(result)), std::move(work)};
}

// The run that a region lies in, or the whole local tensor.
at::Tensor run_of(const at::Tensor& local, const Region& region) {
  if (!region.run.has_value()) return local;
  const auto& [start, shape] = *region.run;
  return part_of(local, 0, {start, c10::multiply_integers(shape)}).tensor().view(shape);
}

// The elements of a local tensor in a region, as views: one for each choice of an interval along each
// dimension.
Buffers views(const at::Tensor& local, const Region& region) {
  Buffers found{run_of(local, region)};
  for (size_t dim = 0; dim < region.lists.size(); ++dim) {
    const auto& list = region.lists[dim];
    const auto along = static_cast<int64_t>(dim);
    if (list.size() == 1 && list[0].length == found[0].of.size(along)) continue;  // all of it
    Buffers finer;
    for (const auto& view : found)
      for (const auto& i : list) finer.push_back(part_of(view.tensor(), along, i));
    found = std::move(finer);
  }
  return found;
}

Moving sliced(const Step& step, const Locals& locals, const Comm& comm) {
  auto result = empty_locals(*step.to, comm);
  for (size_t i = 0; i < locals.size(); ++i)
    for (const auto& t : kept_at(*step.from, *step.to, comm.positions[i])) {
      const auto from = views(locals[i], t.at_source), to = views(result[i], t.at_target);
      for (size_t k = 0; k < to.size(); ++k) copy_bits(to[k], from[k]);
    }
  return arrived(std::move(result));
}

// Who meets in an exchange from one mesh to another: the ranks of the first, and then who is in the second
// alone.
struct Meeting {
  Meeting(const Comm& comm, const Comm& after)
      : ranks(comm.mesh.ranks()), places(standing_in(comm.mesh, after.mesh)) {
    for (size_t t = 0; t < places.size(); ++t) {
      if (places[t] >= 0) continue;
      places[t] = std::ssize(ranks);
      ranks.push_back(after.mesh.ranks()[t]);
    }
    for (const int64_t p : comm.positions) groups.push_back({ranks, p});
    for (const int64_t t : after.positions)
      if (places[as_size(t)] >= comm.mesh.size()) groups.push_back({ranks, places[as_size(t)]});
  }
  std::vector<int64_t> ranks;
  std::vector<int64_t> places;  // of the positions of the second
  std::vector<Group> groups;    // of who is hosted here, ascending by place
};

size_t index_of(const std::vector<Group>& groups, int64_t place) {
  const auto before = [](const Group& group, int64_t p) { return group.place < p; };
  return static_cast<size_t>(std::lower_bound(groups.begin(), groups.end(), place, before) - groups.begin());
}

// From one mesh to another, or within one: who holds an element sends it to whoever needs it.
Moving crossed(const Step& step, const Locals& locals, const Comm& comm, const Comm& after) {
  auto result = empty_locals(*step.to, after);
  const auto meeting = comm.mesh == after.mesh ? nullptr : std::make_shared<const Meeting>(comm, after);
  const auto& groups = meeting == nullptr ? comm.whole : meeting->groups;
  const auto place = [&](int64_t target) {
    return meeting == nullptr ? target : meeting->places[as_size(target)];
  };
  Moves moves(*step.from, *step.to);
  Exchange asked{name(step.kind), PerRank<Part>(groups.size()), nullptr};
  for (size_t k = 0; k < groups.size(); ++k) asked.parts[k].group = &groups[k];
  for (size_t i = 0; i < locals.size(); ++i)
    for (const int64_t target : moves.targets(comm.positions[i]))
      for (const auto& t : moves.between(comm.positions[i], target))
        for (auto& view : views(locals[i], t.at_source))
          asked.parts[i].sent.push_back({place(target), std::move(view)});
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t target = after.positions[i];
    auto& received = asked.parts[index_of(groups, place(target))].received;
    for (const int64_t source : moves.sources(target))
      for (const auto& t : moves.between(source, target))
        for (auto& view : views(result[i], t.at_target)) received.push_back({source, std::move(view)});
  }
  auto work = begin_exchange(*comm.world, std::move(asked)).then([meeting] {});
  return {std::make_shared<Locals>(std::move(result)), std::move(work)};
}

Moving exchanged(const Step& step, const Locals& locals, const Comm& comm) {
  return crossed(step, locals, comm, comm);
}

Moving make_partial(const Step& step, const Locals& locals, const Comm& comm) {
  const auto op = std::get<Partial>(step.to->placements()[as_size(step.mesh_dim)]).op;
  const bool same_everywhere = op == ReduceOp::kAvg || op == ReduceOp::kMin || op == ReduceOp::kMax;
  Locals result;
  for (size_t i = 0; i < locals.size(); ++i) {
    const bool owner = comm.along[as_size(step.mesh_dim)][i].place == 0;
    result.push_back(owner || same_everywhere ? locals[i].clone()
                                              : at::full_like(locals[i], identity(op, step.to->dtype())));
  }
  return arrived(std::move(result));
}

// In the order of StepKind.
constexpr Moving (*kRuns[])(const Step&, const Locals&, const Comm&) = {
    reduced, reduced_and_scattered, sliced, gathered, turned, exchanged, make_partial};

Moving run(const Step& step, const Locals& locals, const Comm& comm, const Comm& after) {
  if (step.from->mesh() != step.to->mesh()) return crossed(step, locals, comm, after);
  const auto& here = step.from->mesh() == comm.mesh ? comm : after;
  if (here.positions.empty()) return arrived({});  // no rank of that mesh is hosted here
  return kRuns[static_cast<size_t>(step.kind)](step, locals, here);
}

}  // namespace

Locals execute(const Route& route, const Locals& locals, const Comm& comm, const Comm& after) {
  auto moving = begin(route, locals, comm, after);
  moving.work.wait();
  return std::move(*moving.locals);
}

std::vector<Locals> execute_together(const std::vector<const Route*>& routes, std::vector<Locals> locals,
                                     const Comm& comm) {
  const auto together = std::make_shared<Together>(comm.world);
  auto its = comm;
  its.world = together;
  size_t most = 0;
  for (const auto* route : routes) most = std::max(most, route->steps.size());
  for (size_t k = 0; k < most; ++k) {
    std::vector<std::pair<size_t, Moving>> begun;
    {
      const Recording nobody(nullptr);  // what they ask for is recorded as it begins, together
      for (size_t i = 0; i < routes.size(); ++i)
        if (k < routes[i]->steps.size()) begun.emplace_back(i, run(routes[i]->steps[k], locals[i], its, its));
    }
    together->begin();
    for (auto& [i, moving] : begun) {
      moving.work.wait();
      locals[i] = std::move(*moving.locals);
    }
  }
  return locals;
}

Moving begin(const Route& route, const Locals& locals, const Comm& comm, const Comm& after) {
  if (route.steps.empty()) return arrived(locals);
  auto now = std::make_shared<Locals>(locals);
  for (size_t k = 0; k + 1 < route.steps.size(); ++k) {
    auto moving = run(route.steps[k], *now, comm, after);
    moving.work.wait();
    now = moving.locals;
  }
  return run(route.steps.back(), *now, comm, after);
}

at::Scalar identity(ReduceOp op, c10::ScalarType dtype) {
  const bool floating = c10::isFloatingType(dtype);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return floating ? at::Scalar(-0.0) : at::Scalar(0);
    case ReduceOp::kProduct:
      return 1;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      break;
  }
  const bool max = op == ReduceOp::kMax;
  if (floating)
    return max ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  if (dtype == at::kBool) return !max;
  return AT_DISPATCH_INTEGRAL_TYPES(dtype, "identity", [max]() -> at::Scalar {
    return static_cast<int64_t>(max ? std::numeric_limits<scalar_t>::lowest()
                                    : std::numeric_limits<scalar_t>::max());
  });
}

at::Tensor empty_local(const Spec& spec, const std::vector<int64_t>& shape) {
  return at::empty_strided(shape, local_stride(spec, shape), local_options(spec));
}

void conform_all(PerRank<at::Tensor>& locals, const Spec& spec) {
  std::vector<int64_t> shape, stride;  // of the local before: most are alike
  for (auto& local : locals) {
    if (stride.empty() || local.sizes() != at::IntArrayRef(shape)) {
      shape = local.sizes().vec();
      stride = local_stride(spec, shape);
    }
    if (local.strides() != at::IntArrayRef(stride)) local = conform(local, spec);
  }
}

namespace {
bool same_memory(const at::Tensor& local, const std::vector<int64_t>& stride) {
  for (size_t d = 0; d < stride.size(); ++d)
    if (local.size(static_cast<int64_t>(d)) > 1 && stride[d] != local.stride(static_cast<int64_t>(d)))
      return false;
  return true;
}
}  // namespace

at::Tensor conform(const at::Tensor& local, const Spec& spec) {
  const auto shape = local.sizes().vec();
  const auto stride = local_stride(spec, shape);
  if (local.strides() == at::IntArrayRef(stride)) return local;
  if (same_memory(local, stride) || local.numel() == 0) return local.as_strided(shape, stride);
  auto copy = at::empty_strided(shape, stride, local.options());
  copy.copy_(local);
  return copy;
}

at::Tensor conform_view(const at::Tensor& local, const Spec& spec) {
  const auto stride = local_stride(spec, local.sizes().vec());
  if (local.strides() == at::IntArrayRef(stride) || !same_memory(local, stride)) return local;
  return local.as_strided(local.sizes(), stride);
}

}  // namespace lockstep
