// SPDX-License-Identifier: Apache-2.0
// Gradients that pend along two mesh dimensions (veScale, Figure 12): reduced one by one, along one mesh
// dimension after the other; many in one bucket; and in one bucket along both at once.
#include <ATen/ATen.h>

#include <memory>
#include <numeric>

#include "engine/plan/bucket.h"
#include "engine/tensor/dtensor_impl.h"
#include "engine/values/error.h"
#include "suites/bench/body.h"
#include "suites/bench/measure.h"
#include "suites/engines/counting_world.h"

namespace lockstep::suites {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr const char* kMesh = "sp:16,fsdp:4";

// Of two layers like LLaMA's, and of the table of tokens.
std::vector<std::vector<int64_t>> shapes() {
  std::vector<std::vector<int64_t>> all{{257, 64}};
  for (int layer = 0; layer < 2; ++layer)
    all.insert(all.end(),
               {{64}, {64, 64}, {32, 64}, {32, 64}, {64, 64}, {64}, {128, 64}, {128, 64}, {64, 128}});
  return all;
}

// Small integers: a sum has one value in every order.
at::Tensor term(const std::vector<int64_t>& shape, int64_t rank) {
  return at::arange(c10::multiply_integers(shape), at::kFloat).remainder(7).add(rank % 3).view(shape);
}

struct Gradients {
  Traffic traffic;
  Tensors terms;
};

std::shared_ptr<Gradients> gradients() {
  auto made = std::make_shared<Gradients>();
  const auto mesh = parse_mesh(kMesh);
  const auto placed =
      init_device_mesh(mesh.shape(), mesh.names(), counting(local_world(mesh.size()), made->traffic));
  for (const auto& shape : shapes()) {
    PerRank<at::Tensor> locals;
    for (int64_t rank = 0; rank < mesh.size(); ++rank) locals.push_back(term(shape, rank));
    made->terms.push_back(from_local(locals, placed, parse_placements("[P,P]")));
  }
  return made;
}

Tensors in_a_bucket(const Tensors& terms, const std::vector<int64_t>& dims) {
  std::vector<size_t> all(terms.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::vector<SpecPtr> like;
  for (const auto& t : terms) like.push_back(dtensor_impl(t)->spec());
  const auto& comm = dtensor_impl(terms[0])->comm();
  Bucket bucket(std::move(all), like, comm, dims, path_of(SumOrder::kFold, {}, at::kFloat));
  bucket.add(terms);
  bucket.close();
  bucket.settle();
  bucket.gather();
  return bucket.finish();
}

struct Way {
  const char* name;
  Tensors (*reduce)(const Tensors& terms);
};
const Way kWays[] = {{"one by one",
                      [](const Tensors& terms) {
                        Tensors sums;
                        for (const auto& t : terms) {
                          const auto half = redistribute(t, parse_placements("[R,P]"));
                          sums.push_back(redistribute(half, parse_placements("[R,R]")));
                        }
                        return sums;
                      }},
                     {"in a bucket, along one mesh dimension after the other",
                      [](const Tensors& terms) { return in_a_bucket(in_a_bucket(terms, {0}), {1}); }},
                     {"in a bucket, along both mesh dimensions at once", [](const Tensors& terms) {
                        return in_a_bucket(terms, {0, 1});
                      }}};

// On every rank.
void check(const Way& way, const Gradients& g) {
  const auto sums = way.reduce(g.terms);
  Tensors expected, actual;
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto& terms = local_tensors(g.terms[i]);
    const auto sum = at::stack(terms).sum(0);
    for (const auto& local : local_tensors(sums[i])) {
      expected.push_back(sum);
      actual.push_back(local);
    }
  }
  check_bits(concat("gradients on ", kMesh, ", ", way.name), expected, actual);
}

Prepared timed(const Way& way) {
  auto g = gradients();
  return {[&way, g] { check(way, *g); },
          [&way, g](double least) { return 1e3 * seconds_per_call([&] { way.reduce(g->terms); }, least); }};
}

Prepared counted(const Way& way, int64_t Traffic::*what) {
  auto g = gradients();
  return {[&way, g] { check(way, *g); },
          [&way, g, what](double) {
            g->traffic = {};
            way.reduce(g->terms);
            return static_cast<double>(g->traffic.*what);
          }};
}

}  // namespace

void add_reductions(Bodies& bodies) {
  for (const auto& way : kWays) {
    const auto name = concat("gradients on ", kMesh, ", ", way.name);
    bodies.push_back({{name, "redistribute", false, false, "ms"}, [&way] { return timed(way); }});
    bodies.push_back({{name + ": collectives", "redistribute", true, false, "1"},
                      [&way] { return counted(way, &Traffic::calls); }});
    bodies.push_back({{name + ": bytes", "redistribute", true, false, "B"},
                      [&way] { return counted(way, &Traffic::bytes); }});
  }
}

}  // namespace lockstep::suites
