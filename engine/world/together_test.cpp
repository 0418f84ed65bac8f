// SPDX-License-Identifier: Apache-2.0
#include "engine/world/together.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/values/error.h"
#include "engine/world/collectives.h"
#include "engine/world/comm.h"

namespace lockstep {
namespace {

// Notes the ops of what reaches the World below.
class Noting : public World {
 public:
  explicit Noting(WorldPtr inner) : World(*inner), inner_(std::move(inner)) {}
  Work exchange(Exchange asked) override {
    ops += concat(asked.op, " ");
    return inner_->exchange(std::move(asked));
  }
  std::string ops;

 private:
  WorldPtr inner_;
};

// Tensors of which each rank has its own.
PerRank<at::Tensor> own(int64_t ranks, int64_t elements, int64_t value) {
  PerRank<at::Tensor> all;
  for (int64_t r = 0; r < ranks; ++r) all.push_back(at::full({elements}, 10 * value + r));
  return all;
}

// For each rank, memory for what each of its group sends.
PerRank<Buffers> memory(int64_t ranks, int64_t group, int64_t elements) {
  PerRank<Buffers> all(static_cast<size_t>(ranks));
  for (auto& of : all)
    for (int64_t k = 0; k < group; ++k) of.emplace_back(at::zeros({elements}, at::kLong));
  return all;
}

// What is asked for together goes where it goes alone, by one exchange of each kind and group, waited for in
// any order. Catches: parcels of one exchange that are taken for another's, groups or ops that are mixed, an
// exchange that hands over what arrives joined with one that writes it, what is empty and shifts the others.
TEST(Together, EachGoesWhereItGoesAlone) {
  const auto noting = std::make_shared<Noting>(local_world(6));
  const Comm comm(DeviceMesh({2, 3}), noting);
  Together together(noting);
  const auto a = own(6, 2, 1), none = own(6, 0, 2), b = own(6, 3, 3), c = own(6, 1, 4), d = own(6, 2, 5);
  const auto into_a = memory(6, 3, 2), into_none = memory(6, 3, 0), into_b = memory(6, 3, 3);
  PerRank<at::Tensor> sum_c(6), sum_d(6);
  {
    auto first = all_gather(together, comm.along[1], a, into_a);
    auto reduced = all_reduce(together, comm.along[0], ReduceOp::kSum, c, sum_c);
    auto empty = all_gather(together, comm.along[1], none, into_none);
    auto second = all_gather(together, comm.along[1], b, into_b);
    auto other = all_reduce(together, comm.along[1], ReduceOp::kSum, d, sum_d);
    EXPECT_EQ(noting->ops, "");
    together.begin();
    EXPECT_EQ(noting->ops, "all_gather all_reduce all_reduce ");
    other.wait();
    second.wait();
    empty.wait();
    reduced.wait();
    first.wait();
  }
  for (size_t r = 0; r < 6; ++r) {
    const size_t row = r / 3 * 3;
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_TRUE(into_a[r][k].tensor().equal(a[row + k])) << r;
      EXPECT_TRUE(into_b[r][k].tensor().equal(b[row + k])) << r;
    }
    EXPECT_TRUE(sum_c[r].equal(c[r % 3] + c[r % 3 + 3])) << r;
    EXPECT_TRUE(sum_d[r].equal(d[row] + d[row + 1] + d[row + 2])) << r;
  }
}

// Catches: a wait that never ends, or that reads what nobody has sent.
TEST(Together, IsNotWaitedForBeforeItBegins) {
  const auto world = local_world(2);
  const Comm comm(DeviceMesh({2}), world);
  Together together(world);
  const auto sent = own(2, 1, 1);
  const auto into = memory(2, 2, 1);
  auto work = all_gather(together, comm.along[0], sent, into);
  EXPECT_THROW(work.wait(), Error);
}

}  // namespace
}  // namespace lockstep
