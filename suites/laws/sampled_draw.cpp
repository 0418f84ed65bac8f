// SPDX-License-Identifier: Apache-2.0
#include "suites/laws/sampled_draw.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "engine/random/random.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "generators/space/random.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/share.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::suites {
namespace {

// Where an element lies: the rank at coordinate 0 of the dimensions that replicate, and its local index.
struct Home {
  int64_t position = 0;
  std::vector<int64_t> local, local_shape;
};

// By torch.chunk along each mesh dimension in turn: pieces of the rounded-up size, the last ones shorter.
Home home_of(std::vector<int64_t> at, const Spec& spec) {
  auto size = spec.shape();
  std::vector<int64_t> coordinate(as_size(spec.mesh().ndim()));
  for (int64_t m = 0; m < spec.mesh().ndim(); ++m) {
    const auto* shard = std::get_if<Shard>(&spec.placements()[as_size(m)]);
    if (shard == nullptr) continue;
    const auto d = as_size(shard->dim);
    const int64_t ranks = spec.mesh().size(m), chunk = (size[d] + ranks - 1) / ranks, which = at[d] / chunk;
    coordinate[as_size(m)] = which;
    at[d] -= which * chunk;
    size[d] = std::min(chunk, size[d] - which * chunk);
  }
  return {spec.mesh().position(coordinate), std::move(at), std::move(size)};
}

// What the Layout of that rank says of the element, if it is not the same.
std::optional<std::string> misplaced(const Home& home, const std::vector<int64_t>& at,
                                     const std::vector<IndexList>& owned) {
  for (size_t d = 0; d < at.size(); ++d) {
    if (length(owned[d]) != home.local_shape[d])
      return concat("dimension ", d, " has ", length(owned[d]), " local indices, not ", home.local_shape[d]);
    const auto global = global_index(owned[d], home.local[d]);
    if (global != at[d])
      return concat("local index ", home.local[d], " of dimension ", d, " is global ", global, ", not ",
                    at[d]);
  }
  return std::nullopt;
}

// Threads of a launch over all elements: the first, the last, the one that most operators give the last
// element, and some between.
std::vector<int64_t> choose_threads(const RandomCall& call, int64_t elements, const DeviceModel& device,
                                    generators::Random& random) {
  const bool by_fours = call.kind == RandomKind::kBernoulliUniform;  // as many threads as it takes
  const int64_t threads =
      by_fours ? (elements + 3) / 4 : std::min(device.sm_count * device.threads_per_sm, elements);
  std::set<int64_t> chosen{0, threads - 1, (elements - 1) % threads};
  for (int i = 0; i < (by_fours ? 16 : 2); ++i) chosen.insert(random.between(0, threads - 1));
  return {chosen.begin(), chosen.end()};
}

}  // namespace

at::Tensor draw_owned(const RandomCall& call, const std::vector<IndexList>& owned, const RandomState& state,
                      const DeviceModel& device) {
  std::vector<int64_t> shape;
  for (const auto& list : owned) shape.push_back(length(list));
  return draw_local(call, owned, contiguous_strides(shape), state, device);
}

std::optional<std::string> first_wrong_sample(const RandomCall& call, const Spec& spec,
                                              const RandomState& state, const DeviceModel& device,
                                              uint64_t seed, const DrawOwned& draw) {
  constexpr int64_t kSamples = 48;
  generators::Random random(seed);
  const auto writes =
      oracle::simulate_threads(call, device, state, choose_threads(call, spec.numel(), device, random));
  const auto count = std::ssize(writes.places);
  if (count == 0) return "the chosen threads write nothing";
  if (const auto moved = advance(call, device); moved != writes.advance)
    return concat("the generator moves by ", moved, ", not by ", writes.advance);
  const auto last = std::max_element(writes.places.begin(), writes.places.end()) - writes.places.begin();
  for (int64_t i = 0; i < std::min(count, kSamples); ++i) {
    const auto k = i == 0 ? last : random.between(0, count - 1);
    const auto at = oracle::unravel(writes.places[as_size(k)], spec.shape());
    const auto home = home_of(at, spec);
    const auto wrong_place = misplaced(home, at, owned_by(spec, home.position).lists);
    std::vector<IndexList> one;
    for (const auto index : at) one.push_back({{index, 1}});
    const auto drawn = draw(call, one, state, device).flatten();
    const auto difference = oracle::compare(writes.values.narrow(0, k, 1), drawn);
    if (!wrong_place && difference.equal()) continue;
    return concat("element ", shape_text(at), " on the rank at position ", home.position, ": ",
                  wrong_place ? *wrong_place : oracle::describe(difference, drawn.scalar_type()));
  }
  return std::nullopt;
}

}  // namespace lockstep::suites
