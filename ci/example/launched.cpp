// SPDX-License-Identifier: Apache-2.0
// The same in several processes, of which each hosts one rank:
//   torchrun --nproc-per-node 4 --no-python out/launched      mpirun -n 4 out/launched
#include <ATen/ATen.h>

#include <lockstep/lockstep.h>
#include <cstdio>

int main(int, char** argv) {
  lockstep::enter_lane(lockstep::Lane::kExact, argv);
  const auto world = lockstep::World::from_environment();
  const auto mesh = lockstep::init_device_mesh({world->size()}, {"tp"}, world);
  const auto x = at::arange(6 * 10).reshape({6, 10}).to(at::kFloat), w = x.t().contiguous();
  const auto expected = at::mm(x, w);
  const auto actual = at::mm(lockstep::distribute_tensor(x, mesh, lockstep::parse_placements("[S1]")),
                             lockstep::distribute_tensor(w, mesh, lockstep::parse_placements("[S0]")));
  const bool equal = lockstep::oracle::compare(expected, lockstep::full_tensor(actual)).equal();
  if (world->hosted()[0] == 0)
    std::printf("%ld processes: %s\n", world->size(), equal ? "equal" : "different");
  return equal ? 0 : 1;
}
