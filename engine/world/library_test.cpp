// SPDX-License-Identifier: Apache-2.0
// Gloo's reductions have the order that library_order.h says, in every dtype, element by element: for counts
// that the world divides or not, below and above what Gloo sends at once.
#include "engine/world/library.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/layout/library_order.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/bits.h"
#include "engine/world/comm.h"

namespace lockstep {
namespace {

std::vector<at::Tensor> terms_of(int64_t ranks, int64_t n, c10::ScalarType dtype) {
  std::vector<at::Tensor> terms;
  for (int64_t r = 0; r < ranks; ++r) terms.push_back((at::randn({n}) * at::randn({n}).exp() * 3).to(dtype));
  return terms;
}

at::Tensor hop(ReduceOp op, const at::Tensor& own, const at::Tensor& arrived) {
  switch (op) {
    case ReduceOp::kMax:
      return at::where(own.lt(arrived), arrived, own);
    case ReduceOp::kMin:
      return at::where(arrived.lt(own), arrived, own);
    case ReduceOp::kProduct:
      return own * arrived;
    default:
      return own + arrived;
  }
}

// Chunk k begins at rank k - 1 and goes down.
at::Tensor around(ReduceOp op, const std::vector<at::Tensor>& terms) {
  const auto ranks = std::ssize(terms);
  const int64_t n = terms[0].numel();
  const int64_t chunk = ring_chunk(n, terms[0].element_size(), ranks);
  std::vector<at::Tensor> chunks;
  for (int64_t k = 0; k * chunk < n; ++k) {
    const auto part = [&](int64_t rank) {
      return terms[as_size((rank + ranks) % ranks)].slice(0, k * chunk, (k + 1) * chunk);
    };
    auto value = part(k - 1);
    for (int64_t i = 2; i <= ranks; ++i) value = hop(op, part(k - i + ranks), value);
    chunks.push_back(value);
  }
  return at::cat(chunks);
}

void expect_rings(int64_t ranks, int64_t n, c10::ScalarType dtype, ReduceOp op) {
  const auto world = reducing_by_gloo(local_world(ranks));
  const Comm comm(DeviceMesh({ranks}), world);
  const auto terms = terms_of(ranks, n, dtype);
  const auto wanted = around(op, terms);
  std::vector<at::Tensor> all, scattered;
  for (const auto& term : terms) {
    all.push_back(term.clone());
    scattered.push_back(at::empty({n / ranks}, term.options()));
  }
  world->library()->all_reduce(comm.along[0], op, all);
  for (const auto& got : all)
    EXPECT_TRUE(same_bits(got, wanted)) << ranks << " ranks, " << n << ' ' << dtype << ' ' << name(op);
  if (n % ranks != 0) return;
  world->library()->reduce_scatter(comm.along[0], op, terms, scattered);
  EXPECT_TRUE(same_bits(at::cat(scattered), wanted))
      << ranks << " ranks, " << n << ' ' << dtype << ' ' << name(op);
}

// Catches: a chunk that begins elsewhere, a ring that goes up, bf16 summed in f32, a reduce-scatter in
// another order than the all-reduce's.
TEST(Library, GlooReducesDownTheRing) {
  at::manual_seed(1);
  for (int64_t ranks = 2; ranks <= 8; ++ranks)
    for (const auto dtype :
         {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kInt, at::kLong, at::kByte})
      for (const auto op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProduct})
        for (const int64_t n : {int64_t{1}, ranks - 1, ranks, 2 * ranks + 1, 10 * ranks, int64_t{1000}})
          expect_rings(ranks, n, dtype, op);
}

// Catches: segments that are counted in elements, or not at all.
TEST(Library, LargeBuffersHaveMoreSegments) {
  at::manual_seed(2);
  for (const int64_t ranks : {3, 4})
    for (const int64_t n : {(1 << 18) + 1, 2500000})
      for (const auto dtype : {at::kFloat, at::kBFloat16}) expect_rings(ranks, n, dtype, ReduceOp::kSum);
}

// Catches: groups of one mesh that take each other's terms.
TEST(Library, EachGroupHasItsOwnSum) {
  const auto world = reducing_by_gloo(local_world(6));
  const Comm comm(DeviceMesh({2, 3}), world);
  std::vector<at::Tensor> all;
  for (int64_t r = 0; r < 6; ++r) all.push_back(at::full({4}, 1 << r));
  world->library()->all_reduce(comm.along[1], ReduceOp::kSum, all);
  for (int64_t r = 0; r < 6; ++r) EXPECT_EQ(all[as_size(r)][0].item<int64_t>(), r < 3 ? 7 : 56);
}

// Catches: a World that hosts some ranks and waits for ever.
TEST(Library, AWorldOfSomeRanksIsRefused) {
  EXPECT_THROW(reducing_by_gloo(lone_world(2, 0)), Error);
}

}  // namespace
}  // namespace lockstep
