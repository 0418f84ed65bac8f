// SPDX-License-Identifier: Apache-2.0
// Lockstep in a program of your own: the same model runs on plain tensors and on DTensors over a 2x2 mesh,
// data parallel along one dimension and tensor parallel along the other; every result is compared as bits.
#include <ATen/ATen.h>

#include <lockstep/lockstep.h>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

// The model, as you would write it for one device. It does not know which kind of tensor it is given.
struct Model {
  at::Tensor up, down;
  at::Tensor operator()(const at::Tensor& x) const { return at::mm(at::relu(at::mm(x, up)), down); }
};

struct Inputs {
  at::Tensor x, up, down;
};

// What is compared: the output, and the gradient of the summed output for each parameter.
struct Results {
  at::Tensor output, up_gradient, down_gradient;
};

Results run(const Inputs& in) {
  Model model{in.up.detach().requires_grad_(), in.down.detach().requires_grad_()};
  const auto output = model(in.x);
  output.sum().backward();
  return {output.detach(), model.up.grad(), model.down.grad()};
}

// Batch 6 and width 10 are cut unevenly on purpose.
Inputs inputs(bool whole_numbers) {
  const auto values = [&](int64_t rows, int64_t columns) {
    const auto t = at::arange(rows * columns).mul(0.7390851).sin().mul(4).reshape({rows, columns});
    return whole_numbers ? t.round() : t;
  };
  return {values(6, 7), values(7, 10), values(10, 5)};
}

// Megatron's cut: the first weight by columns, the second by rows, the batch over the other mesh dimension.
Inputs distributed(const Inputs& in, const lockstep::MeshInWorld& mesh) {
  const auto place = [&](const at::Tensor& t, const char* text) {
    return lockstep::distribute_tensor(t, mesh, lockstep::parse_placements(text));
  };
  return {place(in.x, "[S0,R]"), place(in.up, "[R,S1]"), place(in.down, "[R,S0]")};
}

// How many of the results differ in any bit.
int compare(const char* title, const Inputs& in) {
  const auto mesh = lockstep::init_device_mesh({2, 2}, {"dp", "tp"});
  const auto plain = run(in);
  const auto sharded = run(distributed(in, mesh));
  int different = 0;
  std::printf("%s\n", title);
  const auto line = [&](const char* name, const at::Tensor& expected, const at::Tensor& actual) {
    const auto difference = lockstep::oracle::compare(expected, lockstep::full_tensor(actual));
    different += difference.equal() ? 0 : 1;
    std::printf("  %-14s %-9s %s\n", name, lockstep::to_string(lockstep::placements(actual)).c_str(),
                lockstep::oracle::describe(difference, expected.scalar_type()).c_str());
  };
  line("output", plain.output, sharded.output);
  line("gradient up", plain.up_gradient, sharded.up_gradient);
  line("gradient down", plain.down_gradient, sharded.down_gradient);
  return different;
}

// libtorch's operator<< shows a DTensor by its Spec, its mesh and the whole value, whatever the shards.
int print() {
  const auto mesh = lockstep::init_device_mesh({2, 2}, {"dp", "tp"});
  const auto whole = at::arange(6, at::kFloat).reshape({2, 3});
  const auto x = lockstep::distribute_tensor(whole, mesh, lockstep::parse_placements("[S0,R]"));
  std::cout << x << '\n';
  std::ostringstream text, value;
  text << x;
  value << whole;
  return text.str() == "DTensor(f32[2x3]@[S0,R], mesh dp:2,tp:2)\n" + value.str() ? 0 : 1;
}

}  // namespace

int main(int, char** argv) {
  lockstep::enter_lane(lockstep::Lane::kExact, argv);
  lockstep::require_exact_lane();
  // With whole numbers every order of summation is exact: a difference would be a bug.
  const int bugs = compare("whole numbers: equal, or a bug", inputs(true));
  // With others, sums that cross ranks may round differently; `lockstep run` proves which differences are
  // only that.
  compare("other numbers: sums across ranks may round differently", inputs(false));
  const int unprinted = print();
  return bugs + unprinted == 0 ? 0 : 1;
}
