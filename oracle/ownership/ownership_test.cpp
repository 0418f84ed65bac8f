// SPDX-License-Identifier: Apache-2.0
// Ownership by brute force: known answers, and that slices, folds and assembly fit together.
#include "oracle/ownership/ownership.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "engine/values/error.h"
#include "engine/values/testing_orders.h"
#include "oracle/ownership/compare.h"

namespace lockstep::oracle {
namespace {

Spec make(const std::string& mesh, const std::string& placements, std::vector<int64_t> shape,
          c10::ScalarType dtype = at::kFloat) {
  auto [p, order] = parse_placements_and_order(placements);
  return Spec(parse_mesh(mesh), p, shape, contiguous_strides(shape), dtype, order);
}

Indices held(const std::string& mesh, const std::string& placements, int64_t n, int64_t position) {
  return owned(make(mesh, placements, {n}), position).lists[0];
}

// The global elements, numbered row-major, that a rank holds of a matrix, in local order.
Indices numbers(const std::string& mesh, const std::string& placements, int64_t rows, int64_t columns,
                int64_t position) {
  const auto spec = make(mesh, placements, {rows, columns}, at::kLong);
  const auto held = slice(at::arange(rows * columns).reshape({rows, columns}), spec, position);
  EXPECT_EQ(held.dim(), 1);
  return {held.const_data_ptr<int64_t>(), held.const_data_ptr<int64_t>() + held.numel()};
}

at::Tensor count(const std::vector<int64_t>& shape) {
  return at::arange(c10::multiply_integers(shape), at::kFloat).reshape(shape);
}

// Would catch: another rule of cutting than torch.chunk's, whose last pieces are short or missing.
TEST(Ownership, ChunkIsTorchChunk) {
  for (int64_t n = 0; n <= 20; ++n)
    for (int64_t pieces = 1; pieces <= 9; ++pieces) {
      Indices list(static_cast<size_t>(n));
      std::iota(list.begin(), list.end(), 0);
      const auto chunks = at::arange(n).chunk(pieces);
      for (int64_t which = 0; which < pieces; ++which) {
        const auto piece = at::tensor(chunk_of(list, pieces, which), at::kLong);
        const bool exists = n > 0 && which < static_cast<int64_t>(chunks.size());
        EXPECT_TRUE(exists ? piece.equal(chunks[static_cast<size_t>(which)]) : piece.numel() == 0)
            << n << "/" << pieces;
      }
    }
}

// Would catch: mesh dimensions applied in the wrong order, interleaving the wrong way round.
TEST(Ownership, KnownAnswers) {
  EXPECT_EQ(held("4", "[S0]", 10, 3), (Indices{9}));
  EXPECT_EQ(held("4", "[S0]", 5, 3), (Indices{}));
  EXPECT_EQ(held("2x2", "[S0,S0]", 8, 1), (Indices{2, 3}));
  EXPECT_EQ(held("2x2", "[S0,S0]@1.0", 8, 1), (Indices{4, 5}));
  EXPECT_EQ(held("2x3", "[S0,S0]", 7, 5), (Indices{6}));     // 4 + 3; the 3 as 1, 1, 1
  EXPECT_EQ(held("2x3", "[S0,S0]@1.0", 7, 5), (Indices{}));  // 3 + 3 + 1; the 1 as 1, 0
  EXPECT_EQ(held("2x3", "[S0,S0]@1.0", 7, 4), (Indices{5}));
  EXPECT_EQ(held("2", "[I0x3]", 12, 0), (Indices{0, 1, 4, 5, 8, 9}));
  EXPECT_EQ(held("2", "[I0x3]", 7, 1), (Indices{2, 5}));  // pieces 3, 3, 1 cut as 2+1, 2+1, 1+0
  EXPECT_EQ(held("2x2", "[R,P]", 3, 2), (Indices{0, 1, 2}));
}

// Would catch: units taken as rows, blocks given to the wrong rank, a Shard that cuts after the RaggedShard.
TEST(Ownership, RaggedKnownAnswers) {
  EXPECT_EQ(numbers("3", "[G0:2/0/1]", 3, 2, 0), (Indices{0, 1, 2, 3}));
  EXPECT_EQ(numbers("3", "[G0:2/0/1]", 3, 2, 1), (Indices{}));
  EXPECT_EQ(numbers("3", "[G0:2/0/1]", 3, 2, 2), (Indices{4, 5}));
  EXPECT_EQ(numbers("2", "[G0.1:1/5]", 3, 2, 0), (Indices{0}));
  EXPECT_EQ(numbers("2", "[G0.1:2/4]", 3, 4, 1), (Indices{4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(numbers("2x2", "[S1,G0:1/2]", 3, 4, 2), (Indices{2, 3}));
  EXPECT_EQ(numbers("2x2", "[G0:1/2,S1]", 3, 4, 2), (Indices{4, 5, 8, 9}));
  EXPECT_EQ(numbers("2x2", "[S0,G0:1/1]", 4, 2, 3), (Indices{6, 7}));
  EXPECT_EQ(numbers("2x2", "[G0:1/1,I0x2]", 4, 2, 1), (Indices{2, 3}));
  EXPECT_EQ(numbers("2", "[G0:3/1]", 0, 2, 0), (Indices{}));
}

// Would catch: the list of another coordinate, lists counted with the last mesh dimension first.
TEST(Ownership, ListsOfUnitsKnownAnswers) {
  EXPECT_EQ(numbers("2x2", "[S0,G0:1/1|1/0]", 3, 2, 1), (Indices{2, 3}));
  EXPECT_EQ(numbers("2x2", "[S0,G0:1/1|1/0]", 3, 2, 2), (Indices{4, 5}));
  EXPECT_EQ(numbers("2x2", "[S0,G0:1/1|1/0]", 3, 2, 3), (Indices{}));
  EXPECT_EQ(numbers("2x2", "[G0:1/1|1/0,S0]", 3, 2, 2), (Indices{2, 3}));
  const auto* text = "[S0,G0.1:1/3|2/0|0/2|1/0,S1]";  // 3x3 in boxes of 2x2, 2x1, 1x2 and 1x1
  EXPECT_EQ(numbers("2x2x2", text, 3, 3, 0), (Indices{0}));
  EXPECT_EQ(numbers("2x2x2", text, 3, 3, 2), (Indices{1, 3, 4}));
  EXPECT_EQ(numbers("2x2x2", text, 3, 3, 1), (Indices{2, 5}));
  EXPECT_EQ(numbers("2x2x2", text, 3, 3, 6), (Indices{6, 7}));
  EXPECT_EQ(numbers("2x2x2", text, 3, 3, 5), (Indices{8}));
}

const std::vector<std::pair<std::string, std::vector<std::string>>> kPlacements = {
    {"1", {"[R]", "[S0]", "[I1x2]"}},
    {"3", {"[R]", "[S0]", "[S1]", "[S2]", "[I0x2]", "[I2x4]", "[G0:0/0/1]", "[G0.1.2:1/0/0]"}},
    {"2x3",
     {"[S0,S1]", "[S1,S0]", "[S0,S0]", "[S0,S0]@1.0", "[I0x3,S0]", "[I0x3,S0]@1.0", "[R,S2]", "[S2,R]",
      "[S1,G0:0/1/0]", "[G0.1:1/0,I0x2]"}},
    {"2x2x2", {"[S0,S0,S0]@2.0.1", "[S1,R,S1]@2.1.0", "[S0,S1,S2]"}}};
const std::vector<std::vector<int64_t>> kShapes = {{5, 7, 4}, {8, 8, 8}, {1, 2, 3}, {0, 3, 5}, {13, 1, 6}};

// Would catch: an element lost, held twice, or put back in another place.
TEST(Ownership, AssembleInvertsSlices) {
  for (const auto& [mesh, placements] : kPlacements)
    for (const auto& p : placements)
      for (const auto& shape : kShapes)
        for (const bool transposed : {false, true}) {
          auto global = count(shape);
          auto spec = make(mesh, p, shape);
          if (transposed) {
            global = global.permute({2, 0, 1}).contiguous().permute({1, 2, 0});
            spec = spec.with_tensor(shape, global.strides().vec(), at::kFloat);
          }
          const auto locals = slices(global, spec);
          for (int64_t r = 0; r < spec.mesh().size(); ++r) {
            const auto& local = locals[static_cast<size_t>(r)];
            EXPECT_EQ(local.sizes().vec(), local_shape(spec, r));
            EXPECT_TRUE(local.is_non_overlapping_and_dense());
            EXPECT_EQ(local.strides(),
                      at::IntArrayRef(local_stride(owned(spec, r), global.sizes(), global.strides())));
          }
          const auto whole = assemble(locals, spec);
          ASSERT_FALSE(whole.disagreement) << spec << whole.disagreement->text;
          EXPECT_TRUE(compare(global, whole.global).equal()) << spec;
          EXPECT_EQ(whole.global.strides(), global.strides());
        }
}

// Would catch: a slice that is a view, so that an in-place op on one rank reaches another or the global
// tensor.
TEST(Ownership, SlicesAreFresh) {
  const auto global = at::zeros({4});
  auto locals = slices(global, make("2", "[R]", {4}));
  locals[0].fill_(1);
  EXPECT_EQ(locals[1].sum().item<float>() + global.sum().item<float>(), 0);
}

// Would catch: flat slices put back in another order, or in memory order; flat replicas not compared, or
// differences of theirs named by the local index.
TEST(Ownership, RaggedSharesOfUnequalSize) {
  const std::vector<int64_t> shape = {4, 6, 2};
  for (const auto* placements : {"[G0:1/3,R]", "[G0.1:5/1,S2]", "[S1,G0.1.2:1/0/3]", "[I1x2,G0:1/0/1]",
                                 "[S0,G0.1:3/1/2]", "[S0,G0.1:3/1/2]@1.0", "[I0x3,G0:1/1/0|1/0/0]"}) {
    auto global = count(shape);
    for (const bool transposed : {false, true}) {
      if (transposed) global = global.permute({2, 0, 1}).contiguous().permute({1, 2, 0});
      const auto spec = make("2x3", placements, shape).with_tensor(shape, global.strides().vec(), at::kFloat);
      auto locals = slices(global, spec);
      const auto whole = assemble(locals, spec);
      ASSERT_FALSE(whole.disagreement) << spec << whole.disagreement->text;
      EXPECT_TRUE(compare(global, whole.global).equal()) << spec;
    }
  }
  const auto spec = make("2x2", "[R,G0:1/3]", {4, 3});
  auto locals = slices(at::zeros({4, 3}), spec);
  locals[3][7] = 5;
  const auto found = assemble(locals, spec).disagreement;
  ASSERT_TRUE(found);
  EXPECT_EQ(found->position, 3);
  EXPECT_EQ(found->index, (Indices{3, 1}));
}

// Would catch: only the first replica looked at, a difference of the sign of zero or a NaN missed, a wrong
// place named.
TEST(Ownership, EveryReplicaIsCompared) {
  const auto spec = make("2x2", "[R,S0]", {4, 3});
  for (const double planted : {-0.0, 5.0, std::nan("")}) {
    auto locals = slices(at::zeros({4, 3}), spec);
    locals[3][1][2] = planted;
    const auto found = assemble(locals, spec).disagreement;
    ASSERT_TRUE(found);
    EXPECT_EQ(found->position, 3);
    EXPECT_EQ(found->reference, 1);
    EXPECT_EQ(found->index, (Indices{3, 2}));
  }
  auto locals = slices(at::zeros({4, 3}), spec);
  locals[2] = at::zeros({3, 2});
  EXPECT_EQ(assemble(locals, spec).disagreement->position, 2);
  locals[2] = at::zeros({2, 3}, at::kDouble);
  EXPECT_EQ(assemble(locals, spec).disagreement->position, 2);
  locals[2] = at::Tensor();
  EXPECT_EQ(assemble(locals, spec).disagreement->position, 2);
  locals.pop_back();
  EXPECT_THROW(assemble(locals, spec), Error);
}

// Would catch: dimensions folded in the wrong order, the declared order ignored, replicas of partials not
// folded alike.
TEST(Ownership, PartialsFoldInTheDeclaredOrder) {
  const auto assembled = [&](const char* mesh, std::vector<float> xs, const std::string& order = "") {
    const auto spec = make(mesh, xs.size() == 4 ? "[P,P]" : "[P]", {1});
    std::vector<at::Tensor> locals;
    for (const float x : xs) locals.push_back(at::full({1}, x));
    const auto result =
        order.empty() ? assemble(locals, spec) : assemble(locals, spec, parse_reduction_order(order));
    EXPECT_FALSE(result.disagreement);
    return result.global.item<float>();
  };
  EXPECT_EQ(assembled("2x2", {1e8, 1, -1e8, 1}), 2);  // (1e8 - 1e8) + (1 + 1)
  EXPECT_EQ(assembled("2x2", {1e8, 1, -1e8, 1}, to_string(fold_over(make("2x2", "[P,P]", {1})))), 2);
  EXPECT_EQ(assembled("2x2", {1e8, 1, -1e8, 1}, "over 0.1: sum:f32(fold (fold 0 1) (fold 2 3))"), 0);
  EXPECT_EQ(assembled("3", {1, 1e8, -1e8}), 0);
  EXPECT_EQ(assembled("3", {1, 1e8, -1e8}, "over 0: sum:f32(fold 2 1 0)"), 1);
}

// Slices are of the whole tensor, wherever their elements lie. Would catch: slices counted in the local
// tensor.
TEST(Ownership, SlicesOfAnOrderAreOfTheWholeTensor) {
  const auto order = parse_reduction_order(
      "over 0: [0:3]=sum:f32(fold 0 1 2); [3:7]=sum:f32(fold 2 1 0); [7:]=sum:f32(fold 0 2 1)");
  for (const auto* placements : {"[P,R]", "[P,S0]", "[P,S1]"}) {
    const auto spec = make("3x2", placements, {3, 4});
    std::vector<at::Tensor> locals;
    for (int64_t p = 0; p < 6; ++p)
      locals.push_back(slice(at::full({3, 4}, std::vector<float>{1, 1e8, -1e8}[size_t(p) / 2]), spec, p));
    const auto result = assemble(locals, spec, order);
    EXPECT_FALSE(result.disagreement);
    const auto wanted = at::tensor({0.F, 0.F, 0.F, 1.F, 1.F, 1.F, 1.F, 0.F, 0.F, 0.F, 0.F, 0.F});
    EXPECT_TRUE(result.global.flatten().equal(wanted)) << placements << result.global;
  }
}

// Would catch: a mix of partial and sharded dimensions that folds the wrong ranks together.
TEST(Ownership, PartialsMixWithShards) {
  const std::vector<int64_t> shape = {5, 4};
  const auto spec = make("2x2x2", "[S0,Pmax,R]", shape);
  std::vector<at::Tensor> locals;
  for (int64_t p = 0; p < 8; ++p)
    locals.push_back(slice(spec.mesh().coordinate(p)[1] == 0 ? count(shape) : 19 - count(shape), spec, p));
  const auto result = assemble(locals, spec);
  EXPECT_FALSE(result.disagreement);
  EXPECT_TRUE(result.global.equal(at::maximum(count(shape), 19 - count(shape))));
  locals[7].add_(100);  // one replica's term
  EXPECT_EQ(assemble(locals, spec).disagreement->position, 5);
}

}  // namespace
}  // namespace lockstep::oracle
