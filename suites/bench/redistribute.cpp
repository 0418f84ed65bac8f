// SPDX-License-Identifier: Apache-2.0
// Redistribution: what a route takes, how many collectives it calls and how many bytes they carry.
#include <ATen/ATen.h>

#include <memory>

#include "engine/tensor/dtensor.h"
#include "suites/bench/body.h"
#include "suites/bench/measure.h"
#include "suites/engines/counting_world.h"

namespace lockstep::suites {
namespace {

struct Way {
  const char *mesh, *from, *to;
};

// One of each kind of step, and the general exchange.
const Way kWays[] = {
    {"8", "[R]", "[S0]"},        {"8", "[S0]", "[R]"},          {"8", "[P]", "[R]"},
    {"8", "[P]", "[S0]"},        {"8", "[S0]", "[S1]"},         {"8", "[S0]", "[I0x4]"},
    {"2x4", "[S0,P]", "[R,S1]"}, {"2x4", "[S0,S1]", "[S1,S0]"}, {"8", "[S0]", "[G0:1/3/4/8/16/16/8/8]"}};

struct Start {
  Traffic traffic;
  at::Tensor tensor;
  Placements to;
  at::Tensor go() const { return redistribute(tensor, to); }
};

std::shared_ptr<Start> start(const Way& way) {
  auto made = std::make_shared<Start>();
  const auto shape = parse_mesh(way.mesh);
  const auto mesh = init_device_mesh(shape.shape(), {}, counting(local_world(shape.size()), made->traffic));
  const auto whole = at::arange(128 * 64, at::kFloat).remainder(251).view({128, 64});
  made->tensor = distribute_tensor(whole, mesh, parse_placements(way.from));
  made->to = parse_placements(way.to);
  return made;
}

// Small integers: a sum of terms has one value in every order.
void check(const Way& way, const Start& s) {
  check_bits(std::string("redistribute ") + way.from + " to " + way.to, {full_tensor(s.tensor)},
             {full_tensor(s.go())});
}

Prepared timed(const Way& way) {
  auto s = start(way);
  return {[&way, s] { check(way, *s); },
          [s](double least) { return 1e6 * seconds_per_call([&] { s->go(); }, least); }, [s] { s->go(); }};
}

Prepared counted(const Way& way, int64_t Traffic::*what) {
  auto s = start(way);
  return {[&way, s] { check(way, *s); },
          [s, what](double) {
            s->traffic = {};
            s->go();
            return static_cast<double>(s->traffic.*what);
          }};
}

}  // namespace

void add_redistribute(Bodies& bodies) {
  for (const auto& way : kWays) {
    const auto name = std::string("redistribute ") + way.from + " to " + way.to + " on " + way.mesh;
    bodies.push_back({{name, "redistribute", false, false, "us"}, [&way] { return timed(way); }});
    bodies.push_back({{name + ": collectives", "redistribute", true, false, "1"},
                      [&way] { return counted(way, &Traffic::calls); }});
    bodies.push_back({{name + ": bytes", "redistribute", true, false, "B"},
                      [&way] { return counted(way, &Traffic::bytes); }});
  }
}

}  // namespace lockstep::suites
