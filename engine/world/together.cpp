// SPDX-License-Identifier: Apache-2.0
#include "engine/world/together.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "engine/values/error.h"
#include "engine/world/observed.h"

namespace lockstep {

// Exchanges that become one.
struct Together::Batch {
  std::vector<Exchange> asked;
  std::optional<Work> work;  // of the one; waited for: empty
  bool begun = false;

  bool takes(const Exchange& other) const;
  Exchange joined();
  void wait();
};

namespace {

bool same_group(const Part& a, const Part& b) {
  return a.group->place == b.group->place && a.group->ranks == b.group->ranks;
}

void append(std::vector<Parcel>& to, std::vector<Parcel> more) {
  std::move(more.begin(), more.end(), std::back_inserter(to));
}

}  // namespace

bool Together::Batch::takes(const Exchange& other) const {
  const auto& first = asked.front();
  return first.op == std::string_view(other.op) && (first.arrived == nullptr) == (other.arrived == nullptr) &&
         std::equal(first.parts.begin(), first.parts.end(), other.parts.begin(), other.parts.end(),
                    same_group);
}

// What arrives is told apart by where it stands among a rank's parcels.
Exchange Together::Batch::joined() {
  using Starts = std::vector<size_t>;  // of the parcels of each exchange, among those received
  Exchange all{asked.front().op, PerRank<Part>(asked.front().parts.size()), nullptr};
  PerRank<Starts> starts(all.parts.size());
  for (size_t i = 0; i < all.parts.size(); ++i) {
    all.parts[i].group = asked.front().parts[i].group;
    for (auto& one : asked) {
      starts[i].push_back(all.parts[i].received.size());
      append(all.parts[i].sent, std::move(one.parts[i].sent));
      append(all.parts[i].received, std::move(one.parts[i].received));
    }
  }
  if (asked.front().arrived == nullptr) return all;
  std::vector<decltype(Exchange::arrived)> each;
  for (auto& one : asked) each.push_back(std::move(one.arrived));
  all.arrived = [starts = std::move(starts), each = std::move(each)](size_t i, size_t k,
                                                                     const at::Tensor& t) {
    const auto next = std::upper_bound(starts[i].begin(), starts[i].end(), k);
    const auto which = static_cast<size_t>(next - starts[i].begin()) - 1;
    each[which](i, k - starts[i][which], t);
  };
  return all;
}

// The first who asks waits for all of them.
void Together::Batch::wait() {
  LOCKSTEP_CHECK(begun, "[", asked.front().op, "] is waited for before it begins; call begin() first");
  if (!work.has_value()) return;
  auto one = std::move(*work);
  work.reset();
  one.wait();
}

Together::Together(WorldPtr world) : World(*world), world_(std::move(world)) {}
Together::~Together() = default;

Work Together::exchange(Exchange asked) {
  const char* op = asked.op;
  auto found =
      std::find_if(batches_.begin(), batches_.end(), [&](auto& batch) { return batch->takes(asked); });
  if (found == batches_.end()) found = batches_.insert(found, std::make_shared<Batch>());
  (*found)->asked.push_back(std::move(asked));
  return Work(op, [batch = *found] { batch->wait(); });
}

void Together::begin() {
  for (const auto& batch : std::exchange(batches_, {})) {
    batch->work.emplace(begin_exchange(*world_, batch->joined()));
    batch->begun = true;
  }
}

}  // namespace lockstep
