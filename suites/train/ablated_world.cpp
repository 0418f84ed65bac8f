// SPDX-License-Identifier: Apache-2.0
#include "suites/train/ablated_world.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

#include "engine/world/world.h"

namespace lockstep::suites {
namespace {

// Once for all who get the same elements.
void copy_in(Part& part) {
  std::multimap<const char*, std::pair<at::Tensor, at::Tensor>> copies;  // by where what is sent begins
  for (auto& parcel : part.sent) {
    if (parcel.slab.empty()) continue;
    const auto sent = parcel.tensor();
    const auto [begin, end] = copies.equal_range(parcel.slab.const_data_ptr());
    auto found = std::find_if(begin, end, [&](const auto& copy) {
      const auto& of = copy.second.first;
      return of.sizes() == sent.sizes() && of.strides() == sent.strides();
    });
    if (found == end) found = copies.emplace(parcel.slab.const_data_ptr(), std::pair(sent, sent.clone()));
    parcel.slab = found->second.second;
  }
}

class PackingWorld : public World {
 public:
  explicit PackingWorld(WorldPtr world) : World(*world), world_(std::move(world)) {}

  Work exchange(Exchange asked) override {
    const std::string_view op = asked.op;
    if (op != "all_gather" && op != "reduce_scatter") return world_->exchange(std::move(asked));
    const at::NoGradGuard no_grad;
    for (auto& part : asked.parts) copy_in(part);
    if (op != "all_gather") return world_->exchange(std::move(asked));
    if (asked.arrived) {
      const auto kept = std::make_shared<std::vector<at::Tensor>>();
      asked.arrived = [to = std::move(asked.arrived), kept](size_t part, size_t parcel,
                                                            const at::Tensor& piece) {
        to(part, parcel, kept->emplace_back(piece.clone()));
      };
      return world_->exchange(std::move(asked)).then([kept] { kept->clear(); });
    }
    std::vector<std::pair<at::Tensor, at::Tensor>> copies;
    for (auto& part : asked.parts)
      for (auto& parcel : part.received) {
        const auto into = parcel.tensor();
        parcel.slab = copies.emplace_back(into, at::empty_like(into)).second;
      }
    return world_->exchange(std::move(asked)).then([copies = std::move(copies)] {
      for (const auto& [into, from] : copies) into.copy_(from);
    });
  }
  Library* library() override { return world_->library(); }

 private:
  WorldPtr world_;
};

class WaitingWorld : public World {
 public:
  explicit WaitingWorld(WorldPtr world) : World(*world), world_(std::move(world)) {}

  Work exchange(Exchange asked) override {
    const char* op = asked.op;
    world_->exchange(std::move(asked)).wait();
    return {op, [] {}};
  }
  Library* library() override { return world_->library(); }

 private:
  WorldPtr world_;
};

}  // namespace

WorldPtr waiting(WorldPtr world) {
  return std::make_shared<WaitingWorld>(std::move(world));
}

WorldPtr packing(WorldPtr world) {
  return std::make_shared<PackingWorld>(std::move(world));
}

}  // namespace lockstep::suites
