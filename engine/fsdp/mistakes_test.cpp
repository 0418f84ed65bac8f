// SPDX-License-Identifier: Apache-2.0
// What would be lost or wrong in silence under fully_shard is an error; after each the unit computes with
// what its parts have, and trains.
#include "engine/fsdp/testing.h"

namespace lockstep {
namespace {

// A module whose forward is a function.
struct Function : nn::Module {
  explicit Function(std::function<at::Tensor(Function&, const at::Tensor&)> f) : function(std::move(f)) {
    add_parameter("weight", {3, 3}, at::kFloat);
  }
  at::Tensor forward(const Tensors& in) override { return function(*this, in.at(0)); }
  std::function<at::Tensor(Function&, const at::Tensor&)> function;
};

at::Tensor product(Function& m, const at::Tensor& in) {
  return at::mm(in, m.parameter("weight"));
}

// The weight of a sharded one, which has values now.
at::Tensor with_values(const Function& module, const MeshInWorld& mesh) {
  const at::NoGradGuard no_grad;
  auto weight = module.parameter("weight");
  return weight.copy_(distribute_tensor(values({3, 3}, 2), mesh, {Replicate{}}));
}

class Mistakes : public testing::Test {
 protected:
  using Forward = std::function<at::Tensor(Function&, const at::Tensor&)>;
  using Use = std::function<void(Function&, FSDPModule&)>;

  // The error of such a use of a module with this forward has this part.
  void expect(const char* part, const Forward& forward, const Use& use) const {
    Function module(forward);
    auto handle = fully_shard(module, mesh_);
    const auto weight = with_values(module, mesh_);
    const auto error = error_of([&] { use(module, handle); });
    EXPECT_NE(error.find(part), std::string::npos) << error;
    module.function = product;
    handle.reshard();
    expect_trains(module, weight, error);
  }
  // The same of a module that is of no use afterwards.
  void expect_spoilt(const char* part, const Use& use) const {
    Function module(product);
    auto handle = fully_shard(module, mesh_);
    with_values(module, mesh_);
    for (int again = 0; again < 2; ++again) {
      const auto error = error_of([&] { again == 0 ? use(module, handle) : void(module(x_)); });
      EXPECT_NE(error.find(part), std::string::npos) << again << error;
    }
  }

  const MeshInWorld mesh_ = init_device_mesh({2});
  const at::Tensor x_ = distribute_tensor(values({4, 3}, 1), mesh_, {Shard{0}});
  const Use call_ = [this](Function& m, FSDPModule&) { m(lockstep::parameter(x_)); };

 private:
  void expect_trains(Function& module, const at::Tensor& weight, const std::string& after) const {
    EXPECT_TRUE(module.parameter("weight").is_same(weight)) << after;
    at::Tensor(weight).mutable_grad() = at::Tensor();
    const auto y = module(x_);
    const auto x = full_tensor(x_);
    EXPECT_TRUE(full_tensor(y.detach()).allclose(at::mm(x, full_tensor(weight.detach())))) << after;
    y.sum().backward();
    EXPECT_TRUE(full_tensor(weight.grad()).allclose(at::mm(x.t(), at::ones({4, 3})))) << after;
  }
};

void write_gathered(const Function& m) {
  at::Tensor(m.parameter("weight").detach()).mul_(2);
}

TEST_F(Mistakes, OfAForward) {
  expect(
      "returns a parameter of its own", [](auto& m, auto&) { return m.parameter("weight").t(); }, call_);
  expect(
      "'weight' was written while it was gathered",
      [](auto& m, auto& in) {
        write_gathered(m);
        return product(m, in);
      },
      call_);
  expect(
      "mm",  // and it throws for another reason
      [](auto& m, auto& in) {
        write_gathered(m);
        return at::mm(in, in);
      },
      call_);
  expect(
      "written in place to its input 0", [](auto& m, auto& in) { return product(m, at::Tensor(in).mul_(2)); },
      [&](auto& m, auto&) { m(lockstep::parameter(x_) * 1); });
}

TEST_F(Mistakes, OfABackwardPass) {
  expect("between a forward and its backward pass", product, [&](auto& m, auto&) {
    const auto loss = loss_of(m(x_));
    const at::NoGradGuard no_grad;
    at::Tensor(m.parameter("weight")).mul_(2);
    loss.backward();
  });
  expect("create_graph", product,
         [&](auto& m, auto&) { loss_of(m(x_)).backward({}, true, /*create_graph=*/true); });
  expect("'weight' outside of a call of its module", product, [&](auto& m, auto& handle) {
    handle.unshard();
    loss_of(product(m, x_)).backward();
    handle.reshard();
  });
  at::Tensor kept;
  expect(
      "'weight' outside of a call of its module",
      [&](auto& m, auto& in) {
        kept = m.parameter("weight") * 1;
        return product(m, in);
      },
      [&](auto& m, auto&) {
        m(x_);
        kept.sum().backward();
        m(x_);
      });
}

TEST_F(Mistakes, OfParametersThatAreWrittenOrReplaced) {
  expect("was written while it was gathered", product, [&](auto& m, auto& handle) {
    handle.unshard();
    write_gathered(m);
    m(x_);
  });
  expect_spoilt("has been replaced", [&](auto& m, auto& handle) {
    handle.unshard();
    const auto other = distribute_tensor(values({3, 3}, 1), mesh_, {Replicate{}});
    m.set_parameter("weight", lockstep::parameter(other));
    handle.reshard();
  });
  for (const bool gathered : {false, true})
    expect_spoilt("or its data by another's", [&](auto& m, auto& handle) {
      if (gathered) handle.unshard();
      const auto weight = m.parameter("weight");
      weight.set_data(distribute_tensor(values({3, 3}, 1), mesh_, placements(weight)));
      m(x_);
    });
}

// Catches: a crash where what was gathered is read after it was cut again.
TEST_F(Mistakes, OfWhoReadsTooLate) {
  at::Tensor kept;
  expect("[redistribute]", product, [&](auto& m, auto& handle) {
    handle.unshard();
    kept = m.parameter("weight").detach();
    handle.reshard();
    full_tensor(kept);
  });
  for (const auto& [who, read] : std::vector<std::pair<const char*, std::function<void()>>>{
           {"[aten::clone]", [&] { kept.clone(); }}, {"[to_local]", [&] { to_local(kept); }}}) {
    const auto error = error_of(read);
    EXPECT_NE(error.find(who), std::string::npos) << error;
    EXPECT_NE(error.find("has no memory any more"), std::string::npos) << error;
  }
}

// Catches: gradients that do not know of a write to what others hold.
TEST_F(Mistakes, OfWhoWritesToAnOutputThatIsKept) {
  at::Tensor kept;
  const auto write = [&](bool to_both) {
    return [&, to_both](Function& m, FSDPModule&) {
      const auto y = m(lockstep::parameter(x_) * 1);
      (at::Tensor(y).mul_(2) + (to_both ? kept : y)).sum().backward();
    };
  };
  constexpr char kRefused[] = "is being modified inplace";
  expect(
      kRefused, [](auto&, auto& in) { return in; }, write(false));
  expect(
      kRefused, [&](auto& m, auto& in) { return kept = product(m, in); }, write(true));
  expect(
      kRefused,
      [&](auto& m, auto& in) {
        kept = product(m, in);
        return kept.view({-1});
      },
      write(false));
}

// Catches: a refusal where nobody else has what a call returned.
TEST_F(Mistakes, AnOutputMayBeWrittenInPlace) {
  const auto x = full_tensor(x_);
  for (const bool is_view : {false, true}) {
    Function module([is_view](Function& m, const at::Tensor& in) {
      const auto y = product(m, in);
      return is_view ? y.view({2, 2, 3}) : y;
    });
    fully_shard(module, mesh_);
    const auto weight = with_values(module, mesh_);
    (module(x_).relu_() * 2).sum().backward();
    const auto at_zero = at::mm(x, full_tensor(weight.detach())).gt(0).to(at::kFloat);
    EXPECT_TRUE(full_tensor(weight.grad()).allclose(at::mm(x.t(), at_zero * 2))) << is_view;
  }
}

// Catches: a module that returns nothing, and is asked who else has it.
TEST_F(Mistakes, AModuleMayReturnNothing) {
  Function module([](Function&, const at::Tensor&) { return at::Tensor(); });
  fully_shard(module, mesh_);
  EXPECT_FALSE(module(lockstep::parameter(x_)).defined());
}

// Catches: a module half of which is sharded when fully_shard throws.
TEST(FullyShard, WhatThrowsHasChangedNothing) {
  const auto mesh = init_device_mesh({2});
  struct Complex : Function {
    Complex()
        : Function([](Function& m, const at::Tensor& in) { return at::mm(in, m.parameter("weight")); }) {
      add_buffer("freqs",
                 [](c10::Device d) { return at::ones({2}, at::TensorOptions(at::kComplexFloat).device(d)); });
    }
  } module;
  nn::make_buffers(module, c10::kCPU);
  for (int i = 0; i < 2; ++i)
    EXPECT_NE(error_of([&] { fully_shard(module, mesh); }).find("view_as_real"), std::string::npos);
  EXPECT_FALSE(is_dtensor(module.parameter("weight")));
  Net net;
  fully_shard(net, mesh);
  EXPECT_NE(error_of([&] { fully_shard(*net.first, mesh); }).find("shard inner modules first"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
