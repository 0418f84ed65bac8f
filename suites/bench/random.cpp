// SPDX-License-Identifier: Apache-2.0
// Random draws: what an element of one rank's shard takes, beside an element of the whole. ci/bench has them
// in more shapes, against stock operators.
#include <ATen/ATen.h>

#include <memory>

#include "engine/random/random.h"
#include "suites/bench/body.h"
#include "suites/bench/measure.h"

namespace lockstep::suites {
namespace {

struct Kind {
  const char* name;
  RandomKind kind;
};
const Kind kKinds[] = {{"uniform_", RandomKind::kUniform}, {"normal_", RandomKind::kNormal}};

struct Cut {
  const char *name, *mesh, *placements;
};
const Cut kCuts[] = {{"whole", "1", "[R]"},
                     {"rows of 8 ranks", "8", "[S0]"},
                     {"columns of 8 ranks", "8", "[S1]"},
                     {"both on 2x4", "2x4", "[S0,S1]"}};

constexpr RandomState kState{1234, 8};
constexpr int64_t kPosition = 3;  // of the rank that draws

struct Draw {
  RandomCall call;
  Spec spec;
  at::Tensor out;
  Owned owned;
};

Draw draw_of(const Kind& kind, const Cut& cut) {
  const Spec spec(parse_mesh(cut.mesh), parse_placements(cut.placements), {1024, 512}, c10::kFloat);
  RandomCall call;
  call.kind = kind.kind;
  call.shape = spec.shape();
  call.stride = spec.stride();
  auto owned = owned_by(spec, spec.mesh().size() == 1 ? 0 : kPosition);
  auto out = at::empty(local_shape(owned), at::kFloat);
  return {std::move(call), spec, std::move(out), std::move(owned)};
}

void fill(const Draw& d) {
  fill_local(d.call, d.owned, kState, DeviceModel{}, d.out);
}

// The shard of the whole, element by element of what the whole drew.
void check(const Kind& kind, const Draw& d) {
  const auto whole = draw_of(kind, kCuts[0]);
  fill(whole);
  fill(d);
  auto expected = whole.out;
  for (size_t dim = 0; dim < d.owned.lists.size(); ++dim) {
    const auto& part = d.owned.lists[dim].at(0);
    expected = expected.narrow(static_cast<int64_t>(dim), part.start, part.length);
  }
  check_bits(std::string("random ") + kind.name, {expected}, {d.out});
}

Prepared prepare(const Kind& kind, const Cut& cut) {
  auto d = std::make_shared<const Draw>(draw_of(kind, cut));
  return {[&kind, d] { check(kind, *d); },
          [d](double least) {
            return 1e9 * seconds_per_call([&] { fill(*d); }, least) / static_cast<double>(d->out.numel());
          },
          [d] { fill(*d); }};
}

}  // namespace

void add_random(Bodies& bodies) {
  for (const auto& kind : kKinds)
    for (const auto& cut : kCuts)
      bodies.push_back({{std::string("random ") + kind.name + ", " + cut.name, "random", false, false, "ns"},
                        [&kind, &cut] { return prepare(kind, cut); }});
}

}  // namespace lockstep::suites
