// SPDX-License-Identifier: Apache-2.0
// Indices that a table does not have, in every op that takes indices: an error wherever one device has one.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Indexed {
  const char* name;
  Tensors values;  // besides the index, which comes last and is below 4
  std::vector<int64_t> index_shape;
  std::function<void(const Tensors&)> call;
};

const at::Tensor kTable = ramp({4, 6}), kSource = ramp({4, 6}) * 3, kScores = ramp({6, 4});

const std::vector<Indexed>& calls() {
  static const std::vector<Indexed> all = {
      {"embedding", {kTable}, {5}, [](auto& t) { at::embedding(t[0], t[1]); }},
      {"embedding of a grid", {kTable}, {2, 3}, [](auto& t) { at::embedding(t[0], t[1]); }},
      {"index_select", {kTable}, {5}, [](auto& t) { at::index_select(t[0], 0, t[1]); }},
      {"gather", {kTable}, {3, 6}, [](auto& t) { at::gather(t[0], 0, t[1]); }},
      {"scatter.src", {kTable, kSource}, {4, 6}, [](auto& t) { at::scatter(t[0], 0, t[2], t[1]); }},
      {"scatter.value", {kTable}, {4, 6}, [](auto& t) { at::scatter(t[0], 0, t[1], 2); }},
      {"scatter_", {kTable}, {4, 6}, [](auto& t) { at::Tensor(t[0]).scatter_(0, t[1], 2); }},
      {"scatter_add", {kTable, kSource}, {4, 6}, [](auto& t) { at::scatter_add(t[0], 0, t[2], t[1]); }},
      {"index_add", {kTable, kSource}, {4}, [](auto& t) { at::index_add(t[0], 0, t[2], t[1]); }},
      {"index_fill", {kTable}, {3}, [](auto& t) { at::index_fill(t[0], 0, t[1], 7); }},
      {"index", {kTable}, {3}, [](auto& t) { t[0].index({t[1]}); }},
      {"index_put", {kTable, ramp({6})}, {3}, [](auto& t) { t[0].index_put({t[2]}, t[1]); }},
      {"nll_loss", {kScores}, {6}, [](auto& t) { at::nll_loss(t[0], t[1]); }},
      {"nll_loss of each", {kScores}, {6}, [](auto& t) { at::nll_loss(t[0], t[1], {}, 0); }},
      {"cross_entropy_loss", {kScores}, {6}, [](auto& t) { at::cross_entropy_loss(t[0], t[1]); }},
  };
  return all;
}

// libtorch makes the text of an error, with its backtrace, where it is asked for, and that takes long.
template <class F>
bool throws(F&& f) {
  try {
    f();
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

// Catches: a row that is looked up on the rank that has it, and on none where nobody has it; a table that a
// failed call has moved or written.
TEST(IndexRange, WhatOneDeviceRefusesIsAnErrorOnEveryPlacement) {
  for (const auto& of : calls())
    for (const int64_t bad : {int64_t{4}, int64_t{9}, int64_t{-1}, int64_t{-5}})
      for (const int64_t place : {int64_t{0}, int64_t{-1}}) {
        auto all = of.values;
        auto index = at::arange(c10::multiply_integers(of.index_shape)).remainder(4);
        index[place] = bad;
        all.push_back(index.reshape(of.index_shape));
        Tensors copies;
        for (const auto& t : all) copies.push_back(t.clone());
        if (!throws([&] { of.call(copies); })) continue;  // it counts from the end
        each_placing(3, placement_choices, all, [&](const Tensors& t, const std::string& text) {
          std::vector<Placements> before;
          for (const auto& x : t) before.push_back(placements(x));
          EXPECT_TRUE(throws([&] { of.call(t); })) << of.name << ' ' << text << " takes " << bad;
          for (size_t i = 0; i < t.size(); ++i)
            EXPECT_EQ(placements(t[i]), before[i]) << of.name << ' ' << text;
        });
      }
}

// Catches: a message that does not say which index, of what table, and which there are.
TEST(IndexRange, ALookUpNamesTheIndexAndTheTable) {
  const auto mesh = init_device_mesh({2, 3});
  const auto table = distribute_tensor(kTable, mesh, {Replicate{}, Shard{0}});
  const auto index = distribute_tensor(at::tensor({0, 9, 3}, at::kLong), mesh, {Replicate{}, Replicate{}});
  EXPECT_EQ(
      error_of([&] { at::embedding(table, index); }),
      "[aten::embedding] index 9 is not a row of the table f32[4x6]@[R,S0]; its indices go from 0 to 3");
}

// Catches: an error of libtorch's as it is: which op, which rank and what it held are to be guessed.
TEST(IndexRange, AKernelsErrorNamesOpRankAndLocals) {
  const auto mesh = init_device_mesh({2, 3});
  const auto table = distribute_tensor(kTable, mesh, {Replicate{}, Replicate{}});
  const auto index = distribute_tensor(at::tensor({0, 1, 9}, at::kLong), mesh, {Replicate{}, Shard{0}});
  try {
    at::index_select(table, 0, index);
    FAIL();
  } catch (const KernelError& e) {
    EXPECT_EQ(e.op, "aten::index_select");
    EXPECT_STREQ(
        e.what(),
        "[aten::index_select] on rank 2 at (0,2): index out of range in self; locals f32[4x6], i64[1]");
  }
}

// Catches: a fill in place that is refused though its indices are of another dimension than the shards.
TEST(IndexFill, StaysWhereNothingIsIndexed) {
  const auto mesh = init_device_mesh({2});
  const auto index = at::tensor({0, 2}, at::kLong);
  for (int64_t sharded : {0, 1}) {
    auto x = distribute_tensor(kTable.clone(), mesh, {Shard{sharded}});
    const auto at_index = distribute_tensor(index, mesh, {Replicate{}});
    x.index_fill_(1 - sharded, at_index, 7);
    EXPECT_TRUE(full_tensor(x).equal(kTable.index_fill(1 - sharded, index, 7))) << sharded;
    EXPECT_THROW(x.index_fill_(sharded, at_index, 7), Error) << sharded;
  }
}

// Catches: a write in place that is refused though it stays on its rank: behind the dimensions that are
// indexed, or where a mask lies as what it masks; values that are cut where they are broadcast.
TEST(IndexPut, StaysBehindWhatIsIndexedAndUnderAMask) {
  const auto mesh = init_device_mesh({2});
  const auto index = at::tensor({0, 2, 0}, at::kLong), mask = kTable.gt(4);
  const auto on_mesh = [&](const at::Tensor& t, const Placement& p) {
    return distribute_tensor(t, mesh, {p});
  };
  for (const auto& values : {ramp({3, 6}), ramp({6}), ramp({3, 1})}) {
    auto x = on_mesh(kTable.clone(), Shard{1});
    x.index_put_({on_mesh(index, Replicate{})}, on_mesh(values, Replicate{}), true);
    EXPECT_TRUE(full_tensor(x).equal(kTable.index_put({index}, values, true))) << values.sizes();
  }
  for (int64_t sharded : {0, 1}) {
    auto x = on_mesh(kTable.clone(), Shard{sharded});
    x.index_put_({on_mesh(mask, Shard{1 - sharded})}, on_mesh(ramp({1}), Replicate{}), true);
    EXPECT_TRUE(full_tensor(x).equal(kTable.index_put({mask}, ramp({1}), true))) << sharded;
  }
}

// Catches: a write in place that is refused, or whose values are cut along another dimension, where a list
// leaves out what is cut: before an index, or between two of them.
TEST(IndexPut, StaysInTheGapsOfItsList) {
  const auto mesh = init_device_mesh({2});
  const auto index = at::tensor({0, 2, 0}, at::kLong), cube = ramp({3, 4, 3});
  const auto on_mesh = [&](const at::Tensor& t, const Placement& p) {
    return distribute_tensor(t, mesh, {p});
  };
  const auto expect_stays = [&](std::vector<std::optional<at::Tensor>> list, int64_t sharded,
                                const at::Tensor& values) {
    c10::List<std::optional<at::Tensor>> plain, placed;
    for (const auto& i : list) {
      plain.push_back(i);
      placed.push_back(i ? std::optional(on_mesh(*i, Replicate{})) : std::nullopt);
    }
    auto x = on_mesh(cube.clone(), Shard{sharded});
    x.index_put_(placed, on_mesh(values, Replicate{}), true);
    EXPECT_TRUE(full_tensor(x).equal(cube.index_put(plain, values, true))) << sharded << values.sizes();
  };
  for (const auto& values : {ramp({3, 3, 3}), ramp({3, 3}), ramp({3}), ramp({3, 1, 1})})
    expect_stays({std::nullopt, index}, 0, values);
  for (const auto& values : {ramp({3, 4}), ramp({4}), ramp({3, 1})})
    expect_stays({index, std::nullopt, index}, 1, values);
}

}  // namespace
}  // namespace lockstep
