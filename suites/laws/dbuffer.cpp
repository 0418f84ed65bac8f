// SPDX-License-Identifier: Apache-2.0
// The law: a DBuffer gathers what each rank is to hold, and reduces what pends to where it is cut, in its
// declared order, bit for bit; its tensors are parts of its memory, and nothing else is written. grouping.h
// says what a case is.
#include <ATen/ATen.h>

#include <algorithm>

#include "engine/fsdp/reduce.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/in_host.h"
#include "oracle/ownership/ownership.h"
#include "suites/core/engine_threw.h"
#include "suites/core/judge.h"
#include "suites/engines/counting_world.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/fsdp/buffer_costs.h"
#include "suites/fsdp/grouping.h"
#include "suites/fsdp/padding.h"
#include "suites/fsdp/sharded_fault.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

at::Tensor values(at::IntArrayRef shape, c10::ScalarType dtype, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat).to(dtype);
}

class Buffered {
 public:
  // @param traffic what `world` moves; null: it hosts some of the ranks, and nobody asks what theirs costs
  Buffered(const Grouping& g, WorldPtr world, const Traffic* traffic)
      : g_(g),
        mesh_(init_device_mesh(g.mesh.device_type(), g.mesh.shape(), g.mesh.names(), std::move(world))),
        traffic_(traffic) {
    std::vector<fsdp::GroupTensor> tensors;
    for (size_t i = 0; i < g.shapes.size(); ++i) {
      const auto& shape = g.shapes[i];
      const int64_t row = shape.size() >= 2 ? c10::multiply_integers(shape.begin() + 1, shape.end()) : 1;
      tensors.push_back({std::make_shared<const Spec>(mesh_.mesh, g.placements_of(i), shape, g.dtype),
                         g.rows > 0 && shape.size() >= 2 ? std::max<int64_t>(g.rows * row, 1) : 1});
      plain_.push_back(values(shape, g.dtype, g.seed * 16 + i));
    }
    buffer_.emplace(mesh_.comm, fsdp::GroupLayout(std::move(tensors), g.dim, g.order, {g.gathered}));
  }

  // Empty: the law holds.
  std::string wrong() {
    for (size_t i = 0; i < plain_.size(); ++i) write(i, plain_[i]);
    if (auto why = wrong_memory(); !why.empty()) return why;
    if (auto why = wrong_gather("", plain_); !why.empty()) return why;
    if (auto why = wrong_again(); !why.empty()) return why;
    if (auto why = wrong_reduction(); !why.empty()) return why;
    return written_padding(*buffer_);
  }

  // What the ranks that are hosted here have reduced, and gather of the first values.
  std::vector<at::Tensor> held() {
    for (size_t i = 0; i < plain_.size(); ++i) write(i, plain_[i]);
    buffer_->gather().wait();
    auto all = reduced_;
    for (size_t i = 0; i < plain_.size(); ++i) all.push_back(buffer_->whole(i));
    return all;
  }

 private:
  const fsdp::GroupLayout& layout() const { return buffer_->layout(); }
  int64_t position(size_t r) const { return mesh_.comm->positions[r]; }

  // Of what is done once. Empty: it costs what it must.
  std::string wasted_by(const char* what, const std::function<void()>& act,
                        const std::function<Spent()>& needed) const {
    if (traffic_ == nullptr) {
      act();
      return "";
    }
    const auto spent = spent_on(
        *buffer_, [&] { return traffic_->bytes; }, act);
    return wasted(*buffer_, what, spent, needed());
  }

  void write(size_t i, const at::Tensor& value) {
    const auto& locals = local_tensors(buffer_->sharded(i));
    for (size_t r = 0; r < locals.size(); ++r)
      at::Tensor(locals[r]).copy_(oracle::slice(value, *layout().sharded(i), position(r)));
  }

  std::string compared(const std::string& what, size_t i, const Spec& spec,
                       const std::vector<at::Tensor>& locals, const at::Tensor& value) const {
    for (size_t r = 0; r < locals.size(); ++r) {
      const auto difference = oracle::compare(oracle::slice(value, spec, position(r)), locals[r]);
      if (!difference.equal())
        return concat(what, "tensor ", i, ", ", spec, ", on rank ", position(r), ": ",
                      oracle::describe(difference, spec.dtype()));
    }
    return "";
  }

  std::string wrong_memory() const {
    const auto size =
        static_cast<int64_t>(std::min(c10::elementSize(g_.dtype), c10::elementSize(g_.gathered)));
    for (size_t i = 0; i < plain_.size(); ++i) {
      if (layout().plan().intervals[i].start * size % 64 != 0)
        return concat("tensor ", i, " does not start at a multiple of 64 bytes");
      for (size_t r = 0; r < buffer_->shards().size(); ++r)
        if (!local_tensors(buffer_->sharded(i))[r].is_alias_of(buffer_->shards()[r]))
          return concat("tensor ", i, " is no part of the shard of rank ", position(r));
    }
    for (const auto& shard : buffer_->shards())
      if (!is_aligned(shard)) return "a shard does not start at a multiple of 64 bytes";
    return "";
  }

  // @param among as many neighbours as have all of it together, each an equal part; 0: each rank has its
  // shard
  std::string wrong_gather(const std::string& what, const std::vector<at::Tensor>& expected,
                           int64_t among = 0) {
    if (auto why = wasted_by(
            "a gather", [&] { buffer_->gather().wait(); }, [&] { return needed_to_gather(*buffer_, among); });
        !why.empty())
      return what + why;
    for (size_t i = 0; i < plain_.size(); ++i) {
      const auto& locals = local_tensors(buffer_->whole(i));
      if (auto why = compared(what, i, *layout().whole(i), locals, expected[i].to(g_.gathered)); !why.empty())
        return why;
      if (!std::all_of(locals.begin(), locals.end(), is_aligned))
        return concat(what, "tensor ", i, " does not start at a multiple of 64 bytes where it is gathered");
    }
    return "";
  }

  // From neighbours, though the shards are others by then; then from these.
  std::string wrong_again() {
    buffer_->release(g_.among);
    std::vector<at::Tensor> others;
    for (size_t i = 0; i < plain_.size(); ++i) write(i, others.emplace_back(at::ones_like(plain_[i])));
    if (auto why = wrong_gather("again, ", g_.among > 0 ? plain_ : others, g_.among); !why.empty())
      return why;
    buffer_->release();
    if (auto why = wrong_gather("anew, ", others); !why.empty()) return why;
    buffer_->release();
    return "";
  }

  // A term for each rank; those that the placements call replicas have the same one.
  PerRank<at::Tensor> terms_of(size_t i, const Spec& spec) const {
    PerRank<at::Tensor> terms;
    for (int64_t p = 0; p < spec.mesh().size(); ++p) {
      auto at = spec.mesh().coordinate(p);
      for (size_t d = 0; d < at.size(); ++d)
        if (is_replicate(spec.placements()[d])) at[d] = 0;
      const auto seed = g_.seed * 16 + i + 1009 * static_cast<uint64_t>(spec.mesh().position(at) + 1);
      terms.push_back(oracle::on_mesh(mesh_.mesh, values(oracle::local_shape(spec, p), g_.gathered, seed)));
    }
    return terms;
  }

  std::string wrong_reduction() {
    std::vector<at::Tensor> gradients, expected;
    for (size_t i = 0; i < plain_.size(); ++i) {
      auto placements = g_.placements_of(i);
      std::vector<int64_t> over{g_.dim};
      placements[as_size(g_.dim)] = Partial{};
      for (int64_t d = 0; d < g_.mesh.ndim(); ++d) {
        if (d == g_.dim || (g_.pends >> d & 1) == 0 || !is_replicate(placements[as_size(d)])) continue;
        placements[as_size(d)] = Partial{};
        over.push_back(d);
      }
      const Spec spec(mesh_.mesh, placements, g_.shapes[i], g_.gathered);
      const auto terms = terms_of(i, spec);
      expected.push_back(oracle::assemble(terms, spec, fold_over(spec, over)).global);
      PerRank<at::Tensor> hosted;
      for (const int64_t p : mesh_.comm->positions) hosted.push_back(terms[as_size(p)]);
      gradients.push_back(from_local(hosted, mesh_, placements, g_.shapes[i]));
    }
    const auto reduce_all = [&] {
      auto reducing = fsdp::reduce(*buffer_, gradients);
      reducing.finish();
      reduced_ = reducing.gradients();
    };
    if (auto why =
            wasted_by("a reduction", reduce_all, [&] { return needed_to_reduce(*buffer_, gradients); });
        !why.empty())
      return why;
    for (size_t i = 0; i < plain_.size(); ++i) {
      if (auto why =
              compared("the gradient of ", i, spec(reduced_[i]), local_tensors(reduced_[i]), expected[i]);
          !why.empty())
        return why;
    }
    return untidy_gradients(*buffer_, reduced_, false);
  }

  const Grouping g_;
  const MeshInWorld mesh_;
  const Traffic* traffic_;
  std::vector<at::Tensor> plain_, reduced_;
  std::optional<fsdp::DBuffer> buffer_;
};

}  // namespace

oracle::Case dbuffer_case(uint64_t run_seed, int64_t index) {
  return case_of(any_grouping(run_seed, index));
}

void check_dbuffer(const oracle::Case& c) {
  grouping_of(c);
}

std::vector<oracle::Case> simpler_dbuffer(const oracle::Case& c) {
  return simpler_groupings(c);
}

EngineResult run_dbuffer(const WorldPtr& world, const oracle::Case& c) {
  const auto grouping = grouping_of(c);
  Buffered buffered(grouping, world, nullptr);
  if (const auto why = buffered.wrong(); !why.empty()) throw std::logic_error(why);
  EngineResult ends;
  for (const auto& tensor : buffered.held()) ends.values.push_back(value_of(tensor));
  return ends;
}

// A buffer is no Program: it is judged here, whatever the engine under test.
Outcome judge_dbuffer(const oracle::Case& c, EngineUnderTest& engine) {
  const auto grouping = grouping_of(c);
  Traffic traffic;
  auto world = local_world(grouping.mesh.size(), grouping.mesh.device_type());
  if (const auto* fault = engine.sharded_fault(); fault != nullptr && fault->world != nullptr)
    world = fault->world(std::move(world));
  world = counting(std::move(world), traffic);
  try {
    const auto why = in_engine([&] { return Buffered(grouping, world, &traffic).wrong(); });
    if (!why.empty()) return failed("dbuffer", "different", "", "-", dtype_name(grouping.gathered), why);
    Passed passed;
    passed.bytes_moved = traffic.bytes;
    return passed;
  } catch (const EngineThrew& e) {
    return failed("dbuffer", "exception", e.op, "-", dtype_name(grouping.gathered), e.what());
  }
}

}  // namespace lockstep::suites
