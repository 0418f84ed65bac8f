// SPDX-License-Identifier: Apache-2.0
#include "engine/debug/words.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/context/activity.h"
#include "engine/layout/layout.h"
#include "engine/tensor/dtensor_impl.h"
#include "engine/tensor/plain_guard.h"
#include "engine/values/as_size.h"
#include "engine/world/collectives.h"

namespace lockstep::debug {
namespace {

// Words are no part of the program: nobody records them, and no scope around them changes them.
struct Aside {
  const Recording nobody{nullptr};
  const PlainGuard plain;
};

Groups all_ranks(const World& world) {
  Groups groups;
  for (const int64_t rank : world.hosted()) groups.push_back({up_to(world.size()), rank});
  return groups;
}

at::Tensor bytes_of(const std::string& words) {
  auto bytes = at::empty({std::ssize(words)}, at::kByte);
  std::copy(words.begin(), words.end(), static_cast<char*>(bytes.mutable_data_ptr()));
  return bytes;
}

std::string text_of(const at::Tensor& bytes) {
  return {static_cast<const char*>(bytes.const_data_ptr()), as_size(bytes.numel())};
}

at::Tensor number(int64_t value) {
  return at::full({1}, value, at::kLong);
}

// From the host of `source` to that of rank 0, into `into`, which only the latter needs.
void send_to_first(World& world, int64_t source, const at::Tensor& sent, const at::Tensor& into) {
  const auto groups = all_ranks(world);
  Exchange asked{"gather", {}, nullptr};
  for (const auto& group : groups) {
    auto& part = asked.parts.emplace_back(Part{&group, {}, {}});
    if (group.self() == source) part.sent.push_back({0, sent});
    if (group.self() == 0) part.received.push_back({source, into});
  }
  world.exchange(std::move(asked)).wait();
}

}  // namespace

bool leads(const WorldPtr& world) {
  return world == nullptr || world->hosted().at(0) == 0;
}

bool is_alone(const WorldPtr& world) {
  return world == nullptr || std::ssize(world->hosted()) == world->size();
}

std::string told(const WorldPtr& world, const std::string& words) {
  if (is_alone(world)) return words;
  const Aside aside;
  const auto groups = all_ranks(*world);
  const auto tell = [&](const at::Tensor& mine, const at::Tensor& empty) {
    PerRank<at::Tensor> into;
    for (size_t i = 0; i < groups.size(); ++i) into.push_back(at::empty_like(empty));
    broadcast(*world, groups, 0, PerRank<at::Tensor>(groups.size(), mine), into).wait();
    return leads(world) ? mine : into[0];
  };
  const auto length = tell(number(std::ssize(words)), number(0)).item<int64_t>();
  if (length == 0) return "";
  return text_of(tell(bytes_of(words), at::empty({length}, at::kByte)));
}

// The first rank that each hosts speaks for it; of the others none comes.
std::vector<std::string> collected(const WorldPtr& world, const std::string& words) {
  if (is_alone(world)) return {words};
  const Aside aside;
  const auto groups = all_ranks(*world);
  PerRank<at::Tensor> mine;
  for (size_t i = 0; i < groups.size(); ++i) mine.push_back(number(i == 0 ? std::ssize(words) : 0));
  std::vector<int64_t> lengths;
  all_gather(*world, groups, mine, [&](size_t i, const at::Tensor& length) {
    if (i == 0) lengths.push_back(length.item<int64_t>());
  }).wait();
  std::vector<std::string> all;
  for (int64_t rank = 0; rank < world->size(); ++rank) {
    if (lengths[as_size(rank)] == 0) continue;
    if (rank == 0) {
      if (leads(world)) all.push_back(words);
      continue;
    }
    const auto into = at::empty({lengths[as_size(rank)]}, at::kByte);
    const bool is_mine = rank == world->hosted()[0];
    send_to_first(*world, rank, is_mine ? bytes_of(words) : into, into);
    if (leads(world)) all.push_back(text_of(into));
  }
  return all;
}

at::Tensor local_at(const at::Tensor& dtensor, int64_t position) {
  const Aside aside;
  const auto& impl = require_dtensor(dtensor, "local_at");
  const auto& spec = impl.spec();
  const auto& comm = impl.comm();
  const auto hosted = std::find(comm->positions.begin(), comm->positions.end(), position);
  const bool has = hosted != comm->positions.end();
  const auto mine = has ? impl.locals()[as_size(hosted - comm->positions.begin())] : at::Tensor();
  const int64_t rank = spec->mesh().ranks()[as_size(position)];
  if (is_alone(comm->world) || rank == 0) return leads(comm->world) ? mine : at::Tensor();
  const auto shape = local_shape(*spec, position);
  const auto into = at::empty_strided(shape, local_stride(*spec, shape), local_options(*spec));
  if (into.numel() > 0) send_to_first(*comm->world, rank, has ? mine : into, into);
  return leads(comm->world) ? into : at::Tensor();
}

}  // namespace lockstep::debug
