// SPDX-License-Identifier: Apache-2.0
// The smallest case that other engines can run too: sum(relu(mm(x, w)), 1) on four hosted ranks against one
// device, without harness and oracle. ci/peers.py has the same for PyTorch's LocalTensorMode.
#include <ATen/ATen.h>

#include "engine/tensor/dtensor.h"
#include "suites/bench/body.h"
#include "suites/bench/measure.h"

namespace lockstep::suites {
namespace {

struct Shape {
  int64_t rows, inner, columns;
};
constexpr Shape kShapes[] = {{8, 6, 10}, {7, 5, 9}, {12, 4, 3}, {5, 16, 8}};
constexpr const char* kCuts[][2] = {{"[S0]", "[R]"}, {"[R]", "[S1]"}, {"[S1]", "[S0]"}, {"[R]", "[R]"}};

at::Tensor ramp(int64_t rows, int64_t columns) {
  return at::arange(rows * columns, at::kFloat).remainder(7).add(1).view({rows, columns});
}

// Small integers: a sum has one value in every order.
void run_case(const Shape& shape, const char* const (&cut)[2]) {
  const auto mesh = init_device_mesh({4});
  const auto x = ramp(shape.rows, shape.inner), w = ramp(shape.inner, shape.columns);
  const auto y = at::relu(at::mm(distribute_tensor(x, mesh, parse_placements(cut[0])),
                                 distribute_tensor(w, mesh, parse_placements(cut[1]))));
  const auto whole = redistribute(at::sum(y, {1}), parse_placements("[R]"));
  const std::vector<at::Tensor> expected(4, at::sum(at::relu(at::mm(x, w)), {1}));
  check_bits("small cases", expected, local_tensors(whole));
}

void all_cases() {
  for (const auto& shape : kShapes)
    for (const auto& cut : kCuts) run_case(shape, cut);
}

Prepared prepare() {
  return {all_cases,
          [](double least) {
            return static_cast<double>(std::size(kShapes) * std::size(kCuts)) /
                   seconds_per_call(all_cases, least);
          },
          all_cases};
}

}  // namespace

void add_small_cases(Bodies& bodies) {
  bodies.push_back({{"small cases, 4 ranks", "harness", false, true, "1/s"}, prepare});
}

}  // namespace lockstep::suites
