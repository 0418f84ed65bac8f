// SPDX-License-Identifier: Apache-2.0
// Gradients of DTensors: where they arrive, and what autograd makes itself.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"

namespace lockstep {
namespace {

const Placement kR = Replicate{};

// Twice and three times the input, as one function.
struct TwoParts : torch::autograd::Function<TwoParts> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return {x * 2, x * 3};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    return {grads[0] * 2 + grads[1] * 3};
  }
};

// One that returns what it makes itself, or libtorch's zeros for its second output, as they are, written to,
// or sparse.
struct Returns : torch::autograd::Function<Returns> {
  enum What : int64_t { kOnes, kZeros, kScaled, kSparse };
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                                                int64_t what) {
    ctx->saved_data["what"] = what;
    return {x * 2, x * 3};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto what = ctx->saved_data["what"].toInt();
    if (what == kOnes) return {at::ones({2, 3}), at::Tensor()};
    if (what == kSparse) return {grads[1].to_sparse(), at::Tensor()};
    return {what == kScaled ? grads[1].mul_(3) : grads[1], at::Tensor()};
  }
};

struct MakesOnes : torch::autograd::FunctionPostHook {
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& made,
                                            const torch::autograd::variable_list&) override {
    auto other = made;
    other[0] = at::ones({2, 3});
    return other;
  }
};

class GradientsTest : public testing::Test {
 protected:
  MeshInWorld mesh_ = init_device_mesh({2, 3}, {"dp", "tp"});
  at::Tensor place(const at::Tensor& t, Placement a, Placement b) {
    return distribute_tensor(t, mesh_, {a, b});
  }
};

// Catches: gradients that autograd makes from options alone, plain beside DTensors.
TEST_F(GradientsTest, GradientsOfDTensorsAreDTensors) {
  auto x = place(ramp({2, 3}), Shard{0}, kR).requires_grad_();
  auto y = place(ramp({2, 3}), kR, kR).requires_grad_();
  auto none = place(at::empty({0}), kR, Shard{0}).requires_grad_();
  const auto lists = at::_foreach_neg({redistribute(x, {kR, kR}), y});
  const auto loss = at::cat({none, lists[1].prod(0)}).sum();
  const auto grads = torch::autograd::grad({loss}, {x, y, none}, {}, {}, false, /*allow_unused=*/true);
  EXPECT_FALSE(grads[0].defined());
  EXPECT_TRUE(is_dtensor(grads[1]) && is_dtensor(grads[2]));
  const auto plain = ramp({2, 3}).requires_grad_();
  plain.neg().prod(0).sum().backward();
  EXPECT_TRUE(full_tensor(grads[1]).equal(plain.grad()));
}

// What a hook is given is a DTensor where its tensor is. Catches: the zeros that cat's backward makes for an
// empty vector, plain where a hook computes with them.
TEST_F(GradientsTest, AHookOfWhatCatLeavesOutIsGivenADTensor) {
  const auto x = place(ramp({2}), Shard{0}, kR).requires_grad_();
  const auto none = place(at::empty({0}), kR, Shard{0}).requires_grad_() * 2;
  int64_t asked = 0;
  none.register_hook([&](const at::Tensor& g) {
    ++asked;
    EXPECT_TRUE(is_dtensor(g));
    return g + none.detach();
  });
  at::cat({none, x}).sum().backward();
  EXPECT_EQ(asked, 1);
}

// What a gradient that repeats an element is added to lies as the two together on one device, also where the
// gradient has moved. Catches: a move after which what was repeated decides the order of the dimensions.
TEST_F(GradientsTest, WhatRepeatsSaysSoWhereItGoes) {
  const auto seed = ramp({3, 4, 2}).transpose(0, 2);  // strides 1, 2, 8
  const auto gradient = [](const at::Tensor& x, const at::Tensor& of_neg, auto&& move) {
    const auto neg = x.neg();
    return torch::autograd::grad({move(x).sum(), neg}, {x}, {at::Tensor(), of_neg})[0];
  };
  const auto plain = ramp({2, 4, 3}).requires_grad_();
  const auto expected = gradient(plain, seed, [](const at::Tensor& t) { return t.clone(); });
  EXPECT_EQ(expected.strides(), at::IntArrayRef({1, 2, 8}));
  for (const auto& to : {Shard{0}, Shard{1}, Shard{2}}) {
    const auto x = place(plain.detach(), to, kR).requires_grad_();
    const auto grad = gradient(x, place(seed, kR, kR), [](const at::Tensor& t) {
      return redistribute(t, {kR, Shard{1}});
    });
    EXPECT_EQ(grad.strides(), expected.strides()) << to.dim;
    EXPECT_TRUE(full_tensor(grad).equal(expected)) << to.dim;
    for (const auto& local : local_tensors(grad)) EXPECT_TRUE(local.is_non_overlapping_and_dense());
  }
}

// Zeros that nobody computed lie as the zeros that they come of. Catches: whole ones on every rank instead,
// which a hook sees.
TEST_F(GradientsTest, ZerosOfAProductLieAsItsZeros) {
  const auto x = place(ramp({2, 3}), Shard{0}, kR).requires_grad_();
  const auto middle = x * 2;
  int64_t asked = 0;
  middle.register_hook([&](const at::Tensor& g) {
    ++asked;
    EXPECT_EQ(spec(g), spec(middle));
    return g;
  });
  const auto product = middle * place(ramp({2, 3}), Shard{0}, kR);
  at::sgn(redistribute(product, {Shard{1}, kR})).sum().backward();  // whose zeros come back to the product
  EXPECT_EQ(asked, 1);
}

// A gradient of sgn is zero, and libtorch knows it: the bits of what is computed of it are a plain tensor's,
// whatever is infinite or negative beside it. Catches: 0 * -2 and 0 * inf computed, -0 + 0, a view or a move
// of zeros that are no more known, zeros that stay known when they are written.
TEST_F(GradientsTest, GradientsKnownToBeZero) {
  using Function = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& other)>;
  const std::map<std::string, Function> functions = {
      {"times", [](auto& x, auto& other) { return at::sgn(x * other); }},
      {"number", [](auto& x, auto&) { return at::sgn(x * -2); }},
      {"divided", [](auto& x, auto& other) { return at::sgn(x / other); }},
      {"view", [](auto& x, auto& other) { return at::sgn(x.t() * other.t()); }},
      {"view before", [](auto& x, auto& other) { return at::sgn((x * other).t()); }},
      {"moved",
       [this](auto& x, auto& other) {
         const auto y = x * other;
         return at::sgn(is_dtensor(y) ? redistribute(y, {Shard{1}, kR}) : y);
       }},
      {"also", [](auto& x, auto& other) {
         const auto y = x * other;
         return at::sgn(y) + (y * -0.0).sgn();
       }}};
  const auto values = ramp({2, 3}) - 3;
  const auto other =
      at::tensor({-1., -std::numeric_limits<double>::infinity(), -0., 1., 2., -3.}).view({2, 3}).to(values);
  const std::map<std::string, Function> then = {
      {"itself", [](auto& g, auto&) { return g.clone(); }},
      {"times", [](auto& g, auto& o) { return g * o; }},
      {"added", [](auto& g, auto& o) { return g + o * 0.5; }},
      {"added to", [](auto& g, auto& o) { return o * -0.0 + g; }},
      {"written", [](auto& g, auto& o) { return g.clone().sub_(1) * o; }}};
  const auto of = [&](const Function& f, const Function& g, at::Tensor x, const at::Tensor& o) {
    x.requires_grad_();
    const auto grad = torch::autograd::grad({f(x, o).sum()}, {x})[0];
    const at::NoGradGuard no_grad;
    return g(grad, o);
  };
  const auto bits = [](const at::Tensor& t) { return t.contiguous().view(at::kInt); };
  for (const auto& [name, f] : functions)
    for (const auto& [after, g] : then) {
      const auto placed = of(f, g, place(values, Shard{0}, kR), place(other, Shard{0}, kR));
      EXPECT_TRUE(bits(full_tensor(placed)).equal(bits(of(f, g, values.clone(), other))))
          << name << ", " << after;
    }
}

// Catches: zeros whose own order of dimensions in memory decides of that of what is computed of them, and
// zeros that lose it where libtorch copies them.
TEST_F(GradientsTest, ZerosLieAsWhatTheyMeet) {
  using Function = at::Tensor (*)(const at::Tensor&);
  const auto strides = [](Function f, at::Tensor x) {
    x = x.detach().requires_grad_();
    return torch::autograd::grad({f(x).sum()}, {x})[0].clone().strides().vec();
  };
  const auto columns = ramp({3, 2}).t();
  for (const Function f : {Function([](const at::Tensor& x) { return at::sgn(at::tanh(x)); }),
                           Function([](const at::Tensor& x) { return at::sgn(x.t()); }),
                           Function([](const at::Tensor& x) { return at::sgn(x * 2); })})
    for (const auto& x : {columns, columns.contiguous()})
      EXPECT_EQ(strides(f, place(x, Shard{0}, kR)), strides(f, x));
  EXPECT_EQ(strides([](const at::Tensor& x) { return at::sgn(at::tanh(x)); }, columns),
            (std::vector<int64_t>{1, 2}));
}

// Catches: a gradient that libtorch knows to be zero, computed with where the other is what the pass began
// with, so that its -0 becomes 0; or not computed with where libtorch adds in place, which it does without a
// graph.
TEST_F(GradientsTest, ZerosAddedToWhatOthersHold) {
  const auto values = ramp({2, 3}), ones = at::ones_like(values), zeros = at::zeros_like(values);
  const auto of = [&](at::Tensor x, const at::Tensor& seed, const at::Tensor& other, bool fresh, bool graph) {
    x.requires_grad_();
    const auto y = fresh ? x * -1 : x;
    return torch::autograd::grad({at::sgn(x), y}, {x}, {seed, other}, graph, graph)[0].detach();
  };
  const auto bits = [](const at::Tensor& t) { return t.contiguous().view(at::kInt); };
  for (const bool graph : {false, true})
    for (const bool fresh : {false, true})
      for (const Placement& p :
           {Placement(kR), Placement(Shard{0}), Placement(Shard{1}), Placement(Partial{})}) {
        const auto other = fresh ? zeros : zeros.neg();
        const auto placed = of(place(values, Shard{0}, kR), place(ones, kR, kR),
                               redistribute(place(other, kR, kR), {p, kR}), fresh, graph);
        EXPECT_TRUE(bits(full_tensor(placed)).equal(bits(of(values.clone(), ones, other, fresh, graph))))
            << to_string(p) << (fresh ? ", fresh" : ", of the pass") << (graph ? ", with a graph" : "");
      }
}

// Catches: leaves whose gradients lie in one memory, so that what is added to one shows in the other.
TEST_F(GradientsTest, GradientsOfLeavesAreTheirOwn) {
  const auto one = init_device_mesh({1}, {"tp"});
  const auto leaf = [&](const Placement& p) { return parameter(distribute_tensor(ramp({2, 3}), one, {p})); };
  const auto local_sum = [](const at::Tensor& x, const at::Tensor& y) {
    return from_local({to_local(x)[0] + to_local(y)[0]}, device_mesh(x), placements(x));
  };
  const auto moved_sum = [](const at::Tensor& x, const at::Tensor& y) { return x + y; };
  for (const auto& [p, q, sum] : std::vector<std::tuple<Placement, Placement, decltype(+local_sum)>>{
           {kR, kR, local_sum}, {kR, Shard{0}, moved_sum}, {Shard{0}, Shard{1}, moved_sum}}) {
    const auto x = leaf(p), y = leaf(q);
    const auto both = sum(x, y);
    const auto seed = distribute_tensor(at::ones({2, 3}), one, {kR});
    for (int times = 0; times < 2; ++times) torch::autograd::backward({both}, {seed}, /*retain_graph=*/true);
    EXPECT_TRUE(full_tensor(x.grad()).equal(at::full({2, 3}, 2))) << to_string(p);
    EXPECT_TRUE(full_tensor(y.grad()).equal(at::full({2, 3}, 2))) << to_string(q);
  }
}

// Catches: the same of plain leaves that two from_local have taken in.
TEST_F(GradientsTest, GradientsOfPlainLeavesAreTheirOwn) {
  const auto pair = init_device_mesh({2}, {"tp"});
  PerRank<at::Tensor> x, y;
  for (auto* locals : {&x, &y})
    for (int rank = 0; rank < 2; ++rank) locals->push_back(ramp({2, 3}).requires_grad_());
  const auto both = from_local(x, pair, {Shard{0}}) + from_local(y, pair, {Shard{0}});
  const auto seed = distribute_tensor(at::ones({4, 3}), pair, {Shard{0}});
  for (int times = 0; times < 2; ++times) torch::autograd::backward({both}, {seed}, /*retain_graph=*/true);
  for (const auto* locals : {&x, &y})
    for (const auto& local : *locals) EXPECT_TRUE(local.grad().equal(at::full({2, 3}, 2)));
}

// Catches: a leaf whose gradient is the plain tensor that autograd made of its own zeros.
TEST_F(GradientsTest, GradientsOfLeavesAreDTensors) {
  const auto part = [](const at::Tensor& base, const at::Tensor& x) {
    return base.narrow(0, 0, 0).add_(x, 0.25);
  };
  auto x = place(at::ones({0}), kR, Shard{0}).requires_grad_();
  const auto seed = place(at::ones({0}), kR, kR);
  const auto grad = torch::autograd::grad({part(place(at::ones({1}), kR, kR), x)}, {x}, {seed})[0];
  EXPECT_TRUE(is_dtensor(grad));
  torch::autograd::backward({part(place(at::ones({1}), kR, kR), x)}, {seed});
  EXPECT_TRUE(is_dtensor(x.grad()));
}

// Catches: what a hook writes, taken for a tensor that the formula has made, so that it moves and the hook's
// own is not written, or lies elsewhere; a formula that is refused what it writes to its own.
TEST_F(GradientsTest, AHookWritesToWhatLiesWhereItIs) {
  const auto own = place(at::zeros({4, 3}), Shard{0}, kR);
  const auto rows = place(at::zeros({4, 3}, at::kLong), kR, kR);
  auto x = place(ramp({4, 3}), Shard{0}, kR).requires_grad_();
  const auto y = x * 2;
  y.register_hook([&](const at::Tensor& grad) { own.scatter_add_(0, rows, grad); });
  const auto error = error_of([&] { y.sum().backward(); });
  EXPECT_TRUE(says(error, {"aten::scatter_add_", "without moving a tensor that it writes to"})) << error;
  EXPECT_EQ(placements(own)[0], Placement(Shard{0}));
  const auto cut = place(at::zeros({4, 3}, at::kLong), Shard{0}, kR), w = place(ramp({4, 3}), Shard{0}, kR);
  auto whole = place(ramp({4, 3}), kR, kR).requires_grad_();
  EXPECT_EQ(error_of([&] { (at::gather(whole, 0, cut) * w).sum().backward(); }), "");
  EXPECT_TRUE(full_tensor(whole.grad()).narrow(0, 1, 3).eq(0).all().item<bool>());
  // What a formula may move, a hook may not, though both call the same op on the same Specs.
  for (const auto& p : {kR, Placement(Shard{0})}) {
    const auto mine = place(at::zeros({4, 3}), p, kR), seen = mine.detach();
    const auto z = place(ramp({4, 3}), Shard{0}, kR).requires_grad_() * w;
    z.register_hook([&](const at::Tensor& grad) { mine.scatter_add_(0, cut, grad); });
    const auto said = error_of([&] { (z * w).sum().backward(); });
    EXPECT_EQ(said.empty(), p == kR) << said;
    EXPECT_EQ(placements(mine)[0], p);
    EXPECT_TRUE(full_tensor(mine).equal(full_tensor(seen)));
  }
}

// Catches: ones of a user's that pass for autograd's own, by their values; zeros of autograd's own that do
// not.
TEST_F(GradientsTest, WhatAutogradMadeIsKnownByWhereItWasMade) {
  auto x = place(ramp({2, 3}), Shard{0}, kR).requires_grad_();
  const auto backward = [&](const auto& hook) {
    const auto y = x * 2;
    y.register_hook(hook);
    y.sum().backward();
  };
  for (const int value : {0, 1})
    EXPECT_TRUE(says(error_of([&] {
                       backward([=](const at::Tensor&) { return at::full({2, 3}, value, at::kFloat); });
                     }),
                     {"plain tensor of shape [2, 3]", "a hook must return a DTensor"}))
        << error_of([&] {
             backward([=](const at::Tensor&) { return at::full({2, 3}, value, at::kFloat); });
           });
  EXPECT_EQ(error_of([&] { backward([](const at::Tensor& grad) { return grad * 2; }); }), "");

  // One output of two has no gradient: libtorch's zeros stand in for it.
  const auto parts = TwoParts::apply(x);
  parts[0].sum().backward();
  EXPECT_EQ(full_tensor(x.grad()).sum().item<float>(), 4 * 6 + 2 * 6);

  // Ones that a user's formula makes; libtorch's zeros, which a formula may write to, and a hook may not.
  const auto told = [&](Returns::What what, bool fills) {
    const auto y = x * 1;
    if (fills) y.register_hook([](const at::Tensor& grad) { return at::Tensor(grad).fill_(1); });
    return error_of([&] { Returns::apply(y, int64_t{what})[0].sum().backward(); });
  };
  for (const auto what : {Returns::kOnes, Returns::kSparse})
    EXPECT_TRUE(says(told(what, false), {"plain tensor of shape [2, 3]"})) << told(what, false);
  EXPECT_EQ(told(Returns::kZeros, false), "");
  EXPECT_EQ(told(Returns::kScaled, false), "");
  EXPECT_TRUE(says(told(Returns::kZeros, true), {"plain tensor of shape [2, 3]"}));
  // What a node's hook makes of nothing, behind it.
  const auto z = x * 2;
  z.grad_fn()->add_post_hook(std::make_unique<MakesOnes>());
  EXPECT_TRUE(says(error_of([&] { z.sum().backward(); }), {"plain tensor of shape [2, 3]"}));
}

// Catches: gradients that land in a copy of what autograd writes through.
TEST_F(GradientsTest, GradientsThroughWrittenViewsArrive) {
  const auto run = [](at::Tensor x, const at::Tensor& by, const at::Tensor& grad) {
    const auto base = x * 1;
    const auto view = base.view({1, 6}).div_(by);
    return torch::autograd::grad({view}, {x}, {grad})[0];
  };
  const auto x = ramp({6}), by = at::full({1, 1}, 4.0f), grad = ramp({1, 6});
  const auto got = run(place(x, kR, kR).requires_grad_(), place(by, kR, kR), place(grad, kR, Shard{1}));
  EXPECT_TRUE(full_tensor(got).equal(run(x.clone().requires_grad_(), by, grad)));
  // Of the base's shape, in other strides.
  const auto transposed = [](const at::Tensor& y, const at::Tensor& g) {
    return torch::autograd::grad({(y * 1).t().neg_()}, {y}, {g})[0];
  };
  const auto square = ramp({6, 6}), its = transposed(square.clone().requires_grad_(), square);
  for (const auto& of : {kR, Placement(Shard{0}), Placement(Shard{1})}) {
    const auto moved = transposed(place(square, of, kR).requires_grad_(), place(square, kR, kR));
    EXPECT_TRUE(full_tensor(moved).equal(its)) << to_string(of);
  }
  const auto empty = [&] {
    const auto y = place(ramp({2, 3}), kR, kR).requires_grad_();
    const auto v = (y * 1).narrow(0, 0, 0).tanh_();
    torch::autograd::grad({v}, {y}, {place(at::ones({0, 3}), kR, kR)});
  };
  EXPECT_TRUE(says(error_of(empty), {"aten::copy_", "view without elements"})) << error_of(empty);
  const auto added = [&] {
    const auto y = place(ramp({2, 3}), kR, kR).requires_grad_();
    const auto base = y * 1, view = base.narrow(0, 0, 0), other = base.neg();
    base.mul_(2);
    const auto ones = place(at::ones({2, 3}), kR, kR), none = place(at::ones({0, 3}), kR, kR);
    torch::autograd::grad({other, view}, {y}, {ones, none});
  };
  EXPECT_TRUE(says(error_of(added), {"aten::add_", "view without elements"})) << error_of(added);
}

// Catches: a crash, or an error of some op deep below, where autograd makes a sparse gradient of DTensors; a
// forward pass that refuses because of it.
TEST_F(GradientsTest, SparseGradientsAreRefused) {
  static const auto whole = [](const at::Tensor& t) { return is_dtensor(t) ? full_tensor(t) : t; };
  static const auto part = [](const at::Tensor& t) { return is_dtensor(t) ? to_local(t)[0] : t; };
  const auto index = at::tensor({1, 0, 1}, at::kLong).unsqueeze(0);
  using Tensors = std::vector<at::Tensor>;
  struct Sample {
    const char *op, *remedy;
    at::Tensor (*call)(const Tensors&);
  };
  const std::vector<Sample> all = {
      {"_gather_sparse_backward", "sparse_grad=false",
       [](auto& t) { return at::gather(t[0], 0, t[1], true); }},
      {"_gather_sparse_backward", "sparse_grad=false",
       [](auto& t) { return at::gather(t[0], 0, t[1], true).sum() + t[0].sum(); }},
      {"embedding_sparse_backward", "sparse=false",
       [](auto& t) { return at::embedding(t[0], t[1], -1, false, true); }},
      {"full_tensor", "sparse_grad=false",
       [](auto& t) { return at::gather(whole(t[0]), 0, whole(t[1]), true); }},
      {"to_local", "sparse_grad=false", [](auto& t) { return at::gather(part(t[0]), 0, whole(t[1]), true); }},
  };
  for (const auto& p : {kR, Placement(Shard{0})})
    for (const auto& s : all) {
      auto x = place(ramp({3, 3}), kR, p).requires_grad_();
      if (std::string_view(s.op) == "to_local") x = place(ramp({3, 3}), kR, kR).requires_grad_();
      const auto y = s.call({x, place(index, kR, kR)});
      EXPECT_EQ(y.sum().item<float>(), s.call({ramp({3, 3}), index}).sum().item<float>());
      for (const bool graph : {false, true}) {
        const auto said =
            error_of([&] { torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true, graph); });
        EXPECT_TRUE(says(said, {s.op, s.remedy, "dense", "f32["})) << s.op << ": " << said;
      }
    }
}

// Catches: what is no dense tensor, made of DTensors or beside one.
TEST_F(GradientsTest, NothingIsSparseBesideADTensor) {
  const auto x = place(ramp({3}), kR, kR), i = place(at::tensor({0, 1, 2}, at::kLong).unsqueeze(0), kR, kR);
  const auto rows = place(at::arange(4), kR, kR);
  EXPECT_TRUE(says(error_of([&] { at::sparse_coo_tensor(i, x, {3}); }), {"full_tensor()"}));
  EXPECT_TRUE(says(error_of([&] {
                     at::sparse_csr_tensor(rows, i[0], x, {3, 3}, at::TensorOptions(at::kFloat));
                   }),
                   {"_sparse_compressed_tensor_unsafe", "full_tensor()"}));
  EXPECT_TRUE(says(error_of([&] { x + at::ones({1}).to_sparse(); }), {"aten::add.Tensor", "plain tensor"}));
  const FallbackReplicate allow;
  EXPECT_TRUE(says(error_of([&] { x.to_sparse(); }), {"aten::_to_sparse", "Sparse", "full_tensor()"}));
  EXPECT_TRUE(says(error_of([&] { at::quantize_per_tensor(x, 0.1, 0, at::kQInt8); }),
                   {"aten::quantize_per_tensor", "QInt8", "full_tensor()"}));
  const auto table = place(ramp({3, 3}), kR, kR).requires_grad_();
  const auto bag = std::get<0>(at::embedding_bag(table, i[0], i[0], false, 0, /*sparse=*/true));
  EXPECT_TRUE(says(error_of([&] { bag.sum().backward(); }), {"aten::_embedding_bag_backward", "Sparse"}));
}

}  // namespace
}  // namespace lockstep
