// SPDX-License-Identifier: Apache-2.0
// torch's functional collectives on DTensors.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "engine/layout/route.h"
#include "engine/tensor/testing.h"
#include "engine/values/as_size.h"
#include "engine/world/bits.h"

namespace lockstep {
namespace {

// As a program calls it: by its name, through the dispatcher.
template <class... Args>
c10::IValue call(const std::string& name, const Args&... args) {
  torch::jit::Stack stack;
  torch::jit::push(stack, args...);
  c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").callBoxed(stack);
  return stack.back();
}
at::Tensor wait(const c10::IValue& result) {
  return call("_c10d_functional::wait_tensor", result.toTensor()).toTensor();
}

const std::vector<int64_t> kEven;

const std::string kSpace = "_c10d_functional";

// The four collectives along one mesh dimension: how each is called, which placements it takes there, and
// what its definition makes of the locals of a group for the rank at a place.
struct Collective {
  const char* name;
  c10::IValue (*run)(const std::string& space, const at::Tensor& x, const std::string& group, int64_t ranks);
  bool (*takes)(const Placement& p, int64_t ranks);
  at::Tensor (*defined)(const std::vector<at::Tensor>& group, int64_t place);
};

at::Tensor sum(const std::vector<at::Tensor>& terms) {
  auto total = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) total = total + terms[i];
  return total;
}

const Collective kCollectives[] = {
    {"all_gather_into_tensor",
     [](const std::string& space, const at::Tensor& x, const std::string& group, int64_t n) {
       return call(space + "::all_gather_into_tensor", x, n, group);
     },
     [](const Placement& p, int64_t) { return p == Placement(Shard{0}); },
     [](const std::vector<at::Tensor>& group, int64_t) { return at::cat(group, 0); }},
    {"all_reduce",
     [](const std::string& space, const at::Tensor& x, const std::string& group, int64_t) {
       return call(space + "::all_reduce", x, "sum", group);
     },
     [](const Placement& p, int64_t) { return p == Placement(Partial{}); },
     [](const std::vector<at::Tensor>& group, int64_t) { return sum(group); }},
    {"reduce_scatter_tensor",
     [](const std::string& space, const at::Tensor& x, const std::string& group, int64_t n) {
       return call(space + "::reduce_scatter_tensor", x, "sum", n, group);
     },
     [](const Placement& p, int64_t) { return p == Placement(Partial{}); },
     [](const std::vector<at::Tensor>& group, int64_t place) {
       return sum(group).chunk(std::ssize(group), 0)[as_size(place)];
     }},
    {"all_to_all_single",
     [](const std::string& space, const at::Tensor& x, const std::string& group, int64_t) {
       return call(space + "::all_to_all_single", x, kEven, kEven, group);
     },
     [](const Placement& p, int64_t n) {
       return p == Placement(Shard{0}) || p == Placement(InterleavedShard{0, n});
     },
     [](const std::vector<at::Tensor>& group, int64_t place) {
       std::vector<at::Tensor> received;
       for (const auto& local : group) received.push_back(local.chunk(std::ssize(group), 0)[as_size(place)]);
       return at::cat(received, 0);
     }}};

bool cuts_rows(const Placement& p) {
  return shard_dim(p) == 0;
}

class FunctionalCollectives : public testing::Test {
 protected:
  // What a collective gives is by its definition, and by redistribute.
  void expect_law(const Collective& of, const at::Tensor& x, int64_t d) const {
    const auto y = wait(of.run(kSpace, x, mesh_.mesh.names()[as_size(d)], mesh_.mesh.size(d)));
    const auto same = redistribute(x, placements(y), spec(y).order());
    ASSERT_EQ(spec(y), spec(same)) << of.name;
    for (int64_t p = 0; p < 6; ++p) {
      std::vector<at::Tensor> group;
      for (const int64_t q : mesh_.mesh.line(p, d)) group.push_back(local_tensors(x)[as_size(q)]);
      const auto& local = local_tensors(y)[as_size(p)];
      EXPECT_TRUE(same_bits(local, of.defined(group, mesh_.mesh.coordinate(p)[as_size(d)]).contiguous()))
          << of.name << " of " << spec(x) << " along " << d << ", rank " << p;
      EXPECT_TRUE(same_bits(local, local_tensors(same)[as_size(p)])) << of.name << " of " << spec(x);
    }
    EXPECT_TRUE(same_bits(full_tensor(y), value_)) << of.name << " of " << spec(x) << " to " << spec(y);
  }

  const MeshInWorld mesh_ = init_device_mesh({2, 3}, {"dp", "tp"});
  const at::Tensor value_ = ramp({36, 4});
};

// Under every pair of placements a collective is by its definition on locals what redistribute gives, or,
// where that is no part of the same tensor, refused. Catches: the group of another mesh dimension, pieces in
// another order, shards that nest otherwise, a sum of what does not pend, a call that is let through and
// changes the tensor.
TEST_F(FunctionalCollectives, AreByTheirDefinitionWhatRedistributeGives) {
  int64_t legal = 0;
  for (const auto& a : placement_choices(2))
    for (const auto& b : placement_choices(2)) {
      const auto x = distribute_tensor(value_, mesh_, {a, b});
      for (const auto& of : kCollectives)
        for (int64_t d = 0; d < 2; ++d) {
          const auto& now = d == 0 ? a : b;
          const bool outer = d == 0 && cuts_rows(a) && cuts_rows(b);
          if (of.takes(now, mesh_.mesh.size(d)) && !outer) {
            expect_law(of, x, d);
            ++legal;
            continue;
          }
          EXPECT_TRUE(
              says(error_of([&] { of.run(kSpace, x, mesh_.mesh.names()[as_size(d)], mesh_.mesh.size(d)); }),
                   {of.name, to_string(spec(x)).c_str(), "on mesh dp:2,tp:3", "redistribute"}))
              << of.name << " of " << spec(x) << " along " << d;
        }
    }
  EXPECT_EQ(legal, 48);
}

// Each reduction is its own. Catches: one that is called by another name than the tensor pends by, and let
// through.
TEST_F(FunctionalCollectives, ReduceAsTheTensorPends) {
  for (const auto op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    PerRank<at::Tensor> terms;
    for (int64_t p = 0; p < 6; ++p) terms.push_back(ramp({4, 3}) + p);
    const auto x = from_local(terms, mesh_, {Partial{op}, Shard{1}});
    const auto y = wait(call("_c10d_functional::all_reduce", x, name(op), "dp"));
    const auto z = wait(call("_c10d_functional::reduce_scatter_tensor", x, name(op), int64_t{2}, "dp"));
    EXPECT_EQ(placements(y), (Placements{Replicate{}, Shard{1}}));
    EXPECT_EQ(placements(z), (Placements{Shard{0}, Shard{1}}));
    const auto whole = full_tensor(redistribute(x, {Replicate{}, Shard{1}}));
    EXPECT_TRUE(same_bits(full_tensor(y), whole));
    EXPECT_TRUE(same_bits(full_tensor(z), whole));
    const auto* other = op == ReduceOp::kSum ? "avg" : "sum";
    EXPECT_TRUE(says(error_of([&] { call("_c10d_functional::all_reduce", x, other, "dp"); }),
                     {"[_c10d_functional::all_reduce]", "a Partial of its reduction", "along dp"}));
  }
}

// Gradients are those of redistribute, above autograd, and in InferenceMode there are none. Catches: a call
// that cuts the graph, a gradient that stays where the result is.
TEST_F(FunctionalCollectives, HaveGradients) {
  const auto weight = distribute_tensor(ramp({36, 4}) * 0.5, mesh_, {Replicate{}, Replicate{}});
  for (const auto& of : kCollectives)
    for (const auto& space : {kSpace, kSpace + "_autograd"}) {
      if (space != kSpace && std::string(of.name) == "all_reduce") continue;  // which torch has not there
      Placement start = Shard{0};
      if (of.takes(Partial{}, 2)) start = Partial{};
      const auto x = parameter(distribute_tensor(value_, mesh_, {start, Replicate{}}));
      const auto y = wait(of.run(space, x, "dp", 2));
      EXPECT_TRUE(y.requires_grad()) << of.name;
      (y * weight).sum().backward();
      EXPECT_EQ(placements(x.grad()), dual(placements(x))) << of.name;
      EXPECT_TRUE(same_bits(full_tensor(x.grad()), full_tensor(weight))) << of.name;
      const c10::InferenceMode inference;
      EXPECT_TRUE(same_bits(full_tensor(of.run(space, x, "dp", 2).toTensor()), value_)) << of.name;
    }
}

// What a definition on locals makes no part of the same tensor, and what nobody knows, is refused by its name
// and with what to do. Catches: rows that are lost where ranks hold other numbers of them, a group that is
// guessed.
TEST_F(FunctionalCollectives, RefuseByName) {
  const auto cut = [&](int64_t rows) {
    return distribute_tensor(ramp({rows, 2}), mesh_, {Shard{0}, Replicate{}});
  };
  const std::vector<int64_t> uneven{1, 3}, even{2, 2};
  const auto gather = [&](const at::Tensor& x, int64_t n, const char* group) {
    return error_of([&] { call("_c10d_functional::all_gather_into_tensor", x, n, group); });
  };
  EXPECT_TRUE(
      says(gather(cut(4), 2, "pp"), {"knows no group 'pp'", "on mesh dp:2,tp:3", "by its name: dp, tp"}));
  EXPECT_TRUE(says(gather(cut(4), 3, "dp"), {"has group_size 3, not 2", "along dp"}));
  EXPECT_TRUE(says(gather(cut(5), 2, "dp"), {"the same number of rows on each rank", "redistribute"}));
  const auto turn = [&](const at::Tensor& x, const std::vector<int64_t>& out,
                        const std::vector<int64_t>& in) {
    return error_of([&] { wait(call("_c10d_functional::all_to_all_single", x, out, in, "dp")); });
  };
  EXPECT_EQ(turn(cut(8), even, even), "");
  EXPECT_TRUE(says(turn(cut(8), even, uneven), {"has input_split_sizes [1, 3]", "only equal ones"}));
  EXPECT_TRUE(says(turn(cut(6), {}, {}), {"the same number of rows on each rank"}));
  const auto x = distribute_tensor(ramp({4}), mesh_, {Partial{}, Replicate{}});
  EXPECT_TRUE(says(error_of([&] { call("_c10d_functional::all_reduce_", x, "sum", "dp"); }),
                   {"[_c10d_functional::all_reduce_]", "writes to what it is given", "redistribute"}));
  EXPECT_TRUE(
      says(error_of([&] { call("_c10d_functional::broadcast", x, int64_t{0}, "dp"); }), {"another tensor"}));
}

// Flat locals are added up as they lie, and have no rows. Catches: a RaggedShard beside it that is taken for
// rows.
TEST_F(FunctionalCollectives, AddUpFlatLocals) {
  const auto x = distribute_tensor(value_, mesh_, {Partial{}, RaggedShard{{0}, {1, 0, 2}}});
  const auto y = wait(call("_c10d_functional::all_reduce", x, "sum", "dp"));
  EXPECT_TRUE(is_ragged(placements(y)[1]));
  EXPECT_TRUE(same_bits(full_tensor(y), value_));
  EXPECT_TRUE(
      says(error_of([&] { call("_c10d_functional::reduce_scatter_tensor", x, "sum", int64_t{2}, "dp"); }),
           {"flat locals have none", "redistribute"}));
}

// Catches: a list that is moved one by one, or whose results change places.
TEST_F(FunctionalCollectives, ListsAreInTheirOrder) {
  const std::vector<at::Tensor> values{ramp({4, 2}), ramp({6}) * 2, ramp({2, 3}) * 4};
  const auto each = [&](const Placement& p) {
    std::vector<at::Tensor> placed;
    for (const auto& value : values) placed.push_back(distribute_tensor(value, mesh_, {p, Replicate{}}));
    return placed;
  };
  const auto expect = [&](const c10::IValue& result, const Placement& p) {
    const auto list = result.toTensorVector();
    ASSERT_EQ(list.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(placements(list[i]), (Placements{p, Replicate{}}));
      EXPECT_TRUE(same_bits(full_tensor(list[i]), values[i])) << i;
    }
  };
  const auto pending = each(Partial{}), cut = each(Shard{0});
  expect(call("_c10d_functional::all_reduce_coalesced", pending, "sum", "dp"), Replicate{});
  expect(call("_c10d_functional::all_gather_into_tensor_coalesced", cut, int64_t{2}, "dp"), Replicate{});
  expect(call("_c10d_functional::reduce_scatter_tensor_coalesced", pending, "sum", int64_t{2}, "dp"),
         Shard{0});
}

// Catches: plain tensors, whose collectives are c10d's own, that no longer reach it.
TEST_F(FunctionalCollectives, ArePlainOnesOnPlainTensors) {
  const auto x = at::ones({2}).requires_grad_();
  EXPECT_TRUE(wait(c10::IValue(x)).equal(x));
  const auto said = error_of([&] { call("_c10d_functional::all_reduce", x, "sum", "dp"); });
  EXPECT_NE(said, "");
  EXPECT_EQ(said.find("[_c10d_functional"), std::string::npos) << said;
}

}  // namespace
}  // namespace lockstep
