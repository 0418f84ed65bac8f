// SPDX-License-Identifier: Apache-2.0
// Faults of the random stream: offsets, lanes, the unroll, the geometry, vector widths. Each replaces how a
// rank draws, or how far a call moves the offset; state between calls lives as long as one run.
#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <map>

#include "engine/layout/layout.h"
#include "engine/random/random.h"
#include "engine/random/random_geometry.h"
#include "oracle/ownership/ownership.h"
#include "suites/faults/tables.h"

namespace lockstep::suites::plant {
namespace {

// The call of a stock kernel on the local tensor alone.
RandomCall on_local(const RandomCall& call, const Spec& spec, int64_t position) {
  RandomCall own = call;
  own.shape = local_shape(spec, position);
  own.stride = local_stride(spec, own.shape);
  return own;
}

at::Tensor filled(const RandomCall& call, const Spec& spec, int64_t position, const RandomState& state,
                  const RandomGeometry& geometry) {
  const auto shape = local_shape(spec, position);
  const auto out = at::empty_strided(shape, local_stride(spec, shape), at::TensorOptions(value_dtype(call)));
  fill_local(call, owned_by(spec, position), state, geometry, out);
  return out;
}

// One launch whose threads take one element at a time, grid stride by grid stride.
bool strides_a_grid(const RandomGeometry& geometry) {
  return geometry.launches.size() == 1 && geometry.vector_width == 1;
}

// The q-th element of each thread takes the number of its `from(q)`-th.
using Order = int64_t (*)(int64_t q);
at::Tensor reordered(const RandomCall& call, const Spec& spec, int64_t position, const RandomState& state,
                     const RandomGeometry& geometry, Order from) {
  const auto threads = geometry.launches[0].threads, elements = c10::multiply_integers(call.shape);
  const auto rounds = (elements + threads - 1) / threads;
  IndexList taken;
  int64_t most = 0;
  for (int64_t q = 0; q < rounds; ++q) {
    taken.push_back({from(q) * threads, threads});
    most = std::max(most, from(q));
  }
  RandomCall flat = call;
  flat.shape = {(most + 1) * threads};
  flat.stride = {1};
  RandomGeometry launch = geometry;
  launch.rank_stride = {1};
  launch.launches[0].count = flat.shape[0];
  const auto numbers = at::empty({rounds * threads}, at::TensorOptions(value_dtype(call)));
  fill_local(flat, std::vector<IndexList>{taken}, state, launch, numbers);
  return oracle::slice(numbers.as_strided(call.shape, geometry.rank_stride), spec, position);
}

// Where the order can show: several elements a thread, each a word of its own.
template <Order From>
Drawing taking() {
  return {.local = [](const RandomCall& call, const Spec& spec, int64_t position, const RandomState& state,
                      const DeviceModel& device) {
    const auto geometry = random_geometry(call, device);
    if (c10::multiply_integers(call.shape) == 0 || !strides_a_grid(geometry) ||
        call.kind == RandomKind::kRandperm)
      return filled(call, spec, position, state, geometry);
    return reordered(call, spec, position, state, geometry, From);
  }};
}

int64_t neighbour(int64_t q) {
  return q ^ 1;
}
int64_t two_of_four(int64_t q) {
  return q / 2 * 4 + q % 2;
}

// Draws from another state than the generator's.
Drawing from_state(std::function<RandomState(const RandomCall&, const Spec&, int64_t, RandomState)> other) {
  return {.local = [other](const RandomCall& call, const Spec& spec, int64_t position,
                           const RandomState& state, const DeviceModel& device) {
    return filled(call, spec, position, other(call, spec, position, state), random_geometry(call, device));
  }};
}

// Draws by another geometry than the call's on the device.
Drawing with_geometry(
    std::function<void(RandomGeometry&, const RandomCall&, const Spec&, int64_t position, const DeviceModel&)>
        change) {
  return {.local = [change](const RandomCall& call, const Spec& spec, int64_t position,
                            const RandomState& state, const DeviceModel& device) {
    auto geometry = random_geometry(call, device);
    change(geometry, call, spec, position, device);
    return filled(call, spec, position, state, geometry);
  }};
}

Drawing stale_offset() {
  struct Offsets {
    uint64_t before = 0, now = 0;
  };
  const auto seen = std::make_shared<Offsets>();
  return from_state([seen](const RandomCall&, const Spec&, int64_t, RandomState state) {
    if (state.offset != seen->now) *seen = {seen->now, state.offset};
    state.offset = seen->before;
    return state;
  });
}

Drawing per_rank_offset() {
  return from_state([](const RandomCall&, const Spec&, int64_t position, RandomState state) {
    state.offset += 4 * static_cast<uint64_t>(position);
    return state;
  });
}

Drawing offset_doubled() {
  return Drawing{.advance = [](const RandomCall& call, const Spec&, const DeviceModel& device) {
    return 2 * advance(call, device);
  }};
}

Drawing local_advance() {
  return Drawing{.advance = [](const RandomCall& call, const Spec& spec, const DeviceModel& device) {
    return call.kind == RandomKind::kRandperm ? advance(call, device)
                                              : advance(on_local(call, spec, 0), device);
  }};
}

Drawing empty_ranks_stay() {
  const auto behind = std::make_shared<std::map<int64_t, uint64_t>>();
  const auto late = [behind](const RandomCall&, const Spec&, int64_t position, RandomState state) {
    state.offset -= (*behind)[position];
    return state;
  };
  Drawing drawing = from_state(late);
  drawing.advance = [behind](const RandomCall& call, const Spec& spec, const DeviceModel& device) {
    const auto moved = advance(call, device);
    for (int64_t p = 0; p < spec.mesh().size(); ++p)
      if (c10::multiply_integers(local_shape(spec, p)) == 0) (*behind)[p] += moved;
    return moved;
  };
  return drawing;
}

Drawing local_geometry() {
  return with_geometry([](RandomGeometry& geometry, const RandomCall& call, const Spec& spec,
                          int64_t position, const DeviceModel& device) {
    const auto own = on_local(call, spec, position);
    if (call.kind == RandomKind::kRandperm || c10::multiply_integers(own.shape) == 0) return;
    const auto local = random_geometry(own, device);
    for (size_t i = 0; i < std::min(geometry.launches.size(), local.launches.size()); ++i)
      geometry.launches[i].threads = local.launches[i].threads;
  });
}

Drawing local_numbering() {
  return Drawing{.local = [](const RandomCall& call, const Spec& spec, int64_t position,
                             const RandomState& state, const DeviceModel& device) {
    auto geometry = random_geometry(call, device);
    if (call.kind == RandomKind::kRandperm) return filled(call, spec, position, state, geometry);
    const auto own = on_local(call, spec, position);
    const auto out = at::empty_strided(own.shape, own.stride, at::TensorOptions(value_dtype(call)));
    geometry.rank_stride = contiguous_strides(own.shape);
    fill_local(own, owned_whole(own.shape), state, geometry, out);
    return out;
  }};
}

Drawing vectors_halved() {
  return with_geometry(
      [](RandomGeometry& geometry, const RandomCall& call, const Spec&, int64_t, const DeviceModel&) {
        if (call.kind == RandomKind::kDropoutMask && geometry.vector_width > 1) geometry.vector_width /= 2;
      });
}

// Stock takes `from` where a number rounds up to `to`. That is once in 2^25 of Philox's words, or in 2^53; of
// uniform numbers up to 1 it is the one that is 0. 16-bit floats, which round up often, stay right.
Drawing uniform_end() {
  return {.local = [](const RandomCall& call, const Spec& spec, int64_t position, const RandomState& state,
                      const DeviceModel& device) {
    const auto geometry = random_geometry(call, device);
    const auto out = filled(call, spec, position, state, geometry);
    if (call.kind != RandomKind::kUniform || (call.dtype != at::kFloat && call.dtype != at::kDouble))
      return out;
    auto unit = call;
    unit.a = 0, unit.b = 1;
    return out.masked_fill_(filled(unit, spec, position, state, geometry).eq(0), call.b);
  }};
}

bool draws_forged_uniform(const oracle::Case& c) {
  static const auto uniform = mentions("uniform rand");
  return c.words != RandomWords::kPhilox && uniform(c);
}

}  // namespace

std::vector<Fault> random_faults() {
  return {
      {44, "stale-offset", "K12", "a random op draws where the one before it did", "random", 100, 2,
       has_random, with_drawing(stale_offset)},
      {45, "per-rank-offset", "K12", "each rank draws at an offset of its own", "random", 100, 1,
       on_ranks(has_random), with_drawing(per_rank_offset)},
      {46, "offset-doubled", "K12", "the offset moves twice as far", "random", 100, 2, has_random,
       with_drawing(offset_doubled)},
      {47, "advance-of-local", "K12", "the offset moves as for the first rank's shard", "random", 300, 2,
       on_ranks(has_random), with_drawing(local_advance)},
      {48, "empty-ranks-stay", "K12", "the offset of a rank whose shard is empty does not move", "random",
       300, 2, on_ranks(has_random), with_drawing(empty_ranks_stay)},
      {49, "lanes-swapped", "K12", "the words of a block are taken in another order", "random", 100, 1,
       has_random, with_drawing(taking<neighbour>)},
      {50, "unroll-halved", "K12", "a thread takes two numbers of a block, not four", "random", 200, 1,
       has_random, with_drawing(taking<two_of_four>)},
      {51, "geometry-of-local", "K12", "as many threads as the shard needs, not the tensor", "random", 300, 1,
       on_ranks(has_random), with_drawing(local_geometry)},
      // Two ops where it is a view that shows it, on one rank: its own strides are not the tensor's.
      {52, "numbers-of-local", "K12", "elements are numbered within the shard, not the tensor", "random", 100,
       2, on_ranks(has_random), with_drawing(local_numbering)},
      {53, "vectors-halved", "K12", "dropout's threads take half as many elements at a time", "random", 300,
       1, has_random, with_drawing(vectors_halved)},
      {84, "uniform-end", "K12",
       "uniform_ draws the upper end of its interval too, where the lower one belongs", "random", 1000, 1,
       draws_forged_uniform, with_drawing(uniform_end)},
  };
}

}  // namespace lockstep::suites::plant
