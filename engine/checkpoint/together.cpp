// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/together.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <functional>

#include "engine/values/error.h"
#include "engine/world/collectives.h"
#include "engine/world/comm.h"

namespace lockstep::dcp {
namespace {

// By rank, what each says.
std::vector<int64_t> all_of(World& world, const Comm& all, int64_t mine) {
  const auto said = at::full({1}, mine, at::TensorOptions(at::kLong).device(world.device()));
  std::vector<int64_t> heard;
  all_gather(world, all.whole, PerRank<at::Tensor>(all.ranks.size(), said),
             [&](size_t hosted, const at::Tensor& word) {
               if (hosted == 0) heard.push_back(word.item<int64_t>());
             })
      .wait();
  return heard;
}

std::vector<int64_t> all_of(const WorldPtr& world, int64_t mine) {
  if (world == nullptr) return {mine};
  const Comm all(DeviceMesh({world->size()}).on(world->device().type()), world);
  return all_of(*world, all, mine);
}

}  // namespace

void together(const WorldPtr& world, const std::function<void()>& act) {
  std::exception_ptr failure;
  try {
    act();
  } catch (const Error&) {
    failure = std::current_exception();
  } catch (const std::exception& e) {
    failure = std::make_exception_ptr(Error(concat("[checkpoint] ", e.what())));
  }
  const auto failed = all_of(world, failure == nullptr ? 0 : 1);
  if (failure != nullptr) std::rethrow_exception(failure);
  const auto first = std::find(failed.begin(), failed.end(), 1);
  LOCKSTEP_CHECK(first == failed.end(), "[checkpoint] it failed in the process of rank ",
                 first - failed.begin(), ", which says why; nothing has changed here either");
}

int64_t greatest(const WorldPtr& world, int64_t mine) {
  const auto all = all_of(world, mine);
  return *std::max_element(all.begin(), all.end());
}

bool is_same(const WorldPtr& world, const std::string& mine) {
  const auto all = all_of(world, static_cast<int64_t>(std::hash<std::string>()(mine)));
  return std::all_of(all.begin(), all.end(), [&](int64_t said) { return said == all.front(); });
}

}  // namespace lockstep::dcp
