// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/by_way.h"

#include <algorithm>
#include <stdexcept>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/comm.h"
#include "generators/space/placements.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/ownership.h"
#include "oracle/program/statements.h"

namespace lockstep::suites {
namespace {

// In which other form the redistribution is asked for.
enum class Form { kNone, kList, kCollective, kPadded };

// Where a tensor goes on the way: a mesh of other dimensions, or whose ranks stand in another order, or are
// some of those before, and how it is placed there. No average, whose terms do not come to the value again.
struct Way {
  DeviceMesh mesh;
  oracle::Target target;
  bool begins = false;  // and does not wait for it
  Form form = Form::kNone;
};
// A dimension of any size that divides what is left, and what is left then.
std::vector<int64_t> draw_shape(generators::Random& random, int64_t size) {
  std::vector<int64_t> shape;
  for (int64_t left = size; shape.size() < 2 && (left > 1 || shape.empty()); left = size) {
    int64_t n = 1 + random.below(left);
    while (left % n != 0) --n;
    shape.push_back(n);
    size = left / n;
  }
  if (size > 1) shape.push_back(size);
  return shape;
}

std::vector<int64_t> draw_ranks(generators::Random& random, std::vector<int64_t> ranks) {
  if (random.chance(25)) ranks.resize(1 + as_size(random.below(std::ssize(ranks))));
  const auto other = random.below(3);
  if (other == 1) std::reverse(ranks.begin(), ranks.end());
  for (size_t i = ranks.size(); other == 2 && i > 1; --i)
    std::swap(ranks[i - 1], ranks[as_size(random.below(static_cast<int64_t>(i)))]);
  return ranks;
}

bool averages(const Placement& placement) {
  return placement == Placement(Partial{ReduceOp::kAvg});
}

// @param number of the redistribution
Way draw_way(int64_t seed, uint64_t number, const Spec& from) {
  auto random = generators::Random(static_cast<uint64_t>(seed)).split(number);
  Way way;
  const DeviceMesh& mesh = from.mesh();
  const auto ranks = draw_ranks(random, mesh.ranks());
  auto shape = draw_shape(random, std::ssize(ranks));
  if (shape == mesh.shape() && ranks == mesh.ranks()) shape.insert(shape.begin(), 1);
  way.mesh = DeviceMesh(std::move(shape), {}, ranks).on(mesh.device_type());
  way.target = generators::draw_target(random, way.mesh, from.shape(), from.dtype());
  for (auto& placement : way.target.placements)
    if (averages(placement)) placement = Replicate{};
  way.begins = random.chance(25);
  way.form = static_cast<Form>(random.below(4));
  return way;
}

// Whether a rank's term is the value: of what was made to pend by sum or product those at coordinate 0 have
// it.
bool has_value(const Spec& placed, int64_t position) {
  const auto at = placed.mesh().coordinate(position);
  for (size_t d = 0; d < at.size(); ++d)
    if (const auto* pends = std::get_if<Partial>(&placed.placements()[d]))
      if (at[d] > 0 && (pends->op == ReduceOp::kSum || pends->op == ReduceOp::kProduct)) return false;
  return true;
}

// @param comm of the mesh where it is
void check(const at::Tensor& there, const at::Tensor& from, const DeviceMesh& mesh, const Comm& comm) {
  const at::NoGradGuard no_grad;
  const auto& got = spec(there);
  const Spec placed(mesh, got.placements(), got.shape(), got.stride(), got.dtype(), got.order());
  const auto whole = full_tensor(from.detach());
  const auto& locals = local_tensors(there);
  for (size_t i = 0; i < locals.size(); ++i) {
    const auto at = std::find(mesh.ranks().begin(), mesh.ranks().end(), comm.ranks[i]) - mesh.ranks().begin();
    if (!has_value(placed, at)) continue;
    const auto difference = oracle::compare(oracle::slice(whole, placed, at), locals[i].detach());
    if (!difference.equal())
      throw std::logic_error(concat("rank ", comm.ranks[i], ", position ", at, " of ", placed,
                                    ", does not hold its part of ", spec(from), ": ",
                                    oracle::describe(difference, placed.dtype())));
  }
}

bool is_elsewhere(const TensorRecord& record, const DeviceMesh& home) {
  return record.spec != nullptr && record.spec->mesh() != home;
}

bool is_same(const TensorRecord& a, const TensorRecord& b) {
  return *a.spec == *b.spec && a.digests == b.digests;
}

}  // namespace

at::Tensor ByWay::move(const at::Tensor& tensor, const oracle::Target& target) {
  const auto [mesh, placed, begins, form] = draw_way(seed_, next_++, spec(tensor));
  const auto made = remade_ ? remade_(home_.mesh, mesh) : mesh;
  const MeshInWorld other{made, home_.world, std::make_shared<const Comm>(made, home_.world)};
  const auto begun = timeline_.size();
  const auto there = redistribute(tensor, other, placed.placements, placed.order, begins);
  const auto back = redistribute(there, home_, target.placements, target.order);
  const auto moved = timeline_.size();
  if (moved == begun + 2) ways_.push_back(begun);
  check(there, tensor, mesh, *other.comm);
  if (form == Form::kList) check_list(tensor.detach(), target);
  if (form == Form::kCollective) check_collectives(there.detach(), spoil_);
  if (form == Form::kPadded) check_padded(back.detach(), spoil_);
  unseen_.emplace_back(moved, timeline_.size());
  return back;
}

void ByWay::tidy() {
  std::vector<bool> is_left_out(timeline_.size());
  for (const auto way : ways_) {
    timeline_[way].outputs = std::move(timeline_[way + 1].outputs);
    is_left_out[way + 1] = true;
  }
  for (const auto& [from, to] : unseen_)
    std::fill_n(is_left_out.begin() + static_cast<ptrdiff_t>(from), to - from, true);
  Timeline kept;
  for (size_t i = 0; i < timeline_.size(); ++i)
    if (!is_left_out[i]) kept.push_back(std::move(timeline_[i]));
  timeline_ = std::move(kept);
}

void join_gradients(Timeline& timeline, const DeviceMesh& home) {
  const auto goes = [&](const TimelineEntry& e, bool from_home) {
    return e.op == oracle::kRedistribute && e.outputs.size() == 1 &&
           is_elsewhere(from_home ? e.outputs[0] : e.inputs[0], home) &&
           !is_elsewhere(from_home ? e.inputs[0] : e.outputs[0], home);
  };
  for (auto out = timeline.begin(); out != timeline.end(); ++out) {
    if (!goes(*out, true)) continue;
    const auto back = std::find_if(out + 1, timeline.end(), [&](const TimelineEntry& e) {
      return goes(e, false) && is_same(e.inputs[0], out->outputs[0]);
    });
    if (back == timeline.end())
      throw std::logic_error(
          concat("a gradient goes to ", *out->outputs[0].spec, " and does not come back from there"));
    out->outputs = back->outputs;
    timeline.erase(back);
  }
}

}  // namespace lockstep::suites
