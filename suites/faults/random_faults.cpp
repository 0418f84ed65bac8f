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
#include "suites/faults/planters.h"

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

}  // namespace

EnginePtr stale_offset() {
  return with_drawing([] {
    struct Offsets {
      uint64_t before = 0, now = 0;
    };
    const auto seen = std::make_shared<Offsets>();
    return from_state([seen](const RandomCall&, const Spec&, int64_t, RandomState state) {
      if (state.offset != seen->now) *seen = {seen->now, state.offset};
      return RandomState{state.seed, seen->before};
    });
  });
}

EnginePtr per_rank_offset() {
  return with_drawing([] {
    return from_state([](const RandomCall&, const Spec&, int64_t position, RandomState state) {
      return RandomState{state.seed, state.offset + 4 * static_cast<uint64_t>(position)};
    });
  });
}

EnginePtr offset_doubled() {
  return with_drawing([] {
    return Drawing{.advance = [](const RandomCall& call, const Spec&, const DeviceModel& device) {
      return 2 * advance(call, device);
    }};
  });
}

EnginePtr local_advance() {
  return with_drawing([] {
    return Drawing{.advance = [](const RandomCall& call, const Spec& spec, const DeviceModel& device) {
      return call.kind == RandomKind::kRandperm ? advance(call, device)
                                                : advance(on_local(call, spec, 0), device);
    }};
  });
}

EnginePtr empty_ranks_stay() {
  return with_drawing([] {
    const auto behind = std::make_shared<std::map<int64_t, uint64_t>>();
    const auto late = [behind](const RandomCall&, const Spec&, int64_t position, RandomState state) {
      return RandomState{state.seed, state.offset - (*behind)[position]};
    };
    Drawing drawing = from_state(late);
    drawing.advance = [behind](const RandomCall& call, const Spec& spec, const DeviceModel& device) {
      const auto moved = advance(call, device);
      for (int64_t p = 0; p < spec.mesh().size(); ++p)
        if (c10::multiply_integers(local_shape(spec, p)) == 0) (*behind)[p] += moved;
      return moved;
    };
    return drawing;
  });
}

EnginePtr lanes_swapped() {
  return with_drawing([] { return taking<neighbour>(); });
}
EnginePtr unroll_halved() {
  return with_drawing([] { return taking<two_of_four>(); });
}

EnginePtr local_geometry() {
  return with_drawing([] {
    return with_geometry([](RandomGeometry& geometry, const RandomCall& call, const Spec& spec,
                            int64_t position, const DeviceModel& device) {
      const auto own = on_local(call, spec, position);
      if (call.kind == RandomKind::kRandperm || c10::multiply_integers(own.shape) == 0) return;
      const auto local = random_geometry(own, device);
      for (size_t i = 0; i < std::min(geometry.launches.size(), local.launches.size()); ++i)
        geometry.launches[i].threads = local.launches[i].threads;
    });
  });
}

EnginePtr local_numbering() {
  return with_drawing([] {
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
  });
}

EnginePtr vectors_halved() {
  return with_drawing([] {
    return with_geometry(
        [](RandomGeometry& geometry, const RandomCall& call, const Spec&, int64_t, const DeviceModel&) {
          if (call.kind == RandomKind::kDropoutMask && geometry.vector_width > 1) geometry.vector_width /= 2;
        });
  });
}

}  // namespace lockstep::suites::plant
