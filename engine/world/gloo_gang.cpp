// SPDX-License-Identifier: Apache-2.0
#include "engine/world/gloo_gang.h"

#include <future>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace lockstep {
namespace {

using Gloo = c10d::ProcessGroupGloo;
using GlooPtr = c10::intrusive_ptr<Gloo>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

constexpr std::chrono::minutes kPatience(5);

c10d::ReduceOp::RedOpType name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::kAvg:
      return c10d::ReduceOp::AVG;
    case ReduceOp::kMin:
      return c10d::ReduceOp::MIN;
    case ReduceOp::kMax:
      return c10d::ReduceOp::MAX;
    case ReduceOp::kProduct:
      break;
  }
  return c10d::ReduceOp::PRODUCT;
}

GlooPtr joined(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank, int64_t ranks) {
  auto options = Gloo::Options::create(kPatience);
  options->threads = 1;
  options->devices.push_back(Gloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<Gloo>(store, static_cast<int>(rank), static_cast<int>(ranks),
                                   std::move(options));
}

void wait(const std::vector<WorkPtr>& works) {
  for (const auto& work : works) work->wait();
}

}  // namespace

struct GlooGang::Impl {
  std::vector<GlooPtr> ranks;
};

// Each waits for the others while it is made.
GlooGang::GlooGang(int64_t ranks) : impl_(std::make_unique<Impl>()) {
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::future<GlooPtr>> made;
  for (int64_t rank = 0; rank < ranks; ++rank)
    made.push_back(std::async(std::launch::async, [=] { return joined(store, rank, ranks); }));
  for (auto& one : made) impl_->ranks.push_back(one.get());
}

GlooGang::~GlooGang() = default;

void GlooGang::all_reduce(ReduceOp op, const std::vector<at::Tensor>& tensors) {
  c10d::AllreduceOptions options;
  options.reduceOp = name_of(op);
  std::vector<WorkPtr> works;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<at::Tensor> one{tensors[i]};
    works.push_back(impl_->ranks[i]->allreduce(one, options));
  }
  wait(works);
}

void GlooGang::reduce_scatter(ReduceOp op, const std::vector<at::Tensor>& sent,
                              const std::vector<at::Tensor>& into) {
  c10d::ReduceScatterOptions options;
  options.reduceOp = name_of(op);
  std::vector<WorkPtr> works;
  for (size_t i = 0; i < sent.size(); ++i) {
    auto from = sent[i].view({-1}), to = into[i].view({-1});
    works.push_back(impl_->ranks[i]->_reduce_scatter_base(to, from, options));
  }
  wait(works);
}

}  // namespace lockstep
