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

// What it costs to host ranks: their tensors are 100 kB, and the route is held against plain copies.
const Way kHosted[] = {{"8", "[R]", "[S0]"},
                       {"8", "[S0]", "[R]"},
                       {"8", "[P]", "[R]"},
                       {"8", "[P]", "[S0]"},
                       {"8", "[S0]", "[S1]"}};

struct Start {
  Traffic traffic;
  at::Tensor tensor;
  Placements to;
  at::Tensor go() const { return redistribute(tensor, to); }
};

std::shared_ptr<Start> start(const Way& way, std::vector<int64_t> of = {128, 64}) {
  auto made = std::make_shared<Start>();
  const auto shape = parse_mesh(way.mesh);
  const auto mesh = init_device_mesh(shape.shape(), {}, counting(local_world(shape.size()), made->traffic));
  const auto whole = at::arange(c10::multiply_integers(of), at::kFloat).remainder(251).view(of);
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

// A new tensor of each rank's part, filled; where terms are to be reduced, after one sum of them all.
void copy_plainly(const PerRank<at::Tensor>& from, const PerRank<at::Tensor>& to, bool reduces) {
  at::Tensor sum;
  for (const auto& term : from)
    if (reduces) sum = sum.defined() ? sum.add(term) : term.clone();
  for (const auto& local : to) local.clone();
}

Prepared beside_copies(const Way& way) {
  auto s = start(way, {200, 128});
  const auto to = s->go();
  const bool reduces = spec(s->tensor).has_partial();
  const auto copy = [s, to, reduces] { copy_plainly(local_tensors(s->tensor), local_tensors(to), reduces); };
  return {[&way, s] { check(way, *s); },
          [s, copy](double least) {
            return seconds_per_call([&] { s->go(); }, least) / seconds_per_call(copy, least);
          }};
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
  for (const auto& way : kHosted)
    bodies.push_back({{std::string("hosted ranks, 100 kB ") + way.from + " to " + way.to + " on " + way.mesh +
                           ": times its plain copies",
                       "redistribute", false, false, "1"},
                      [&way] { return beside_copies(way); }});
}

}  // namespace lockstep::suites
