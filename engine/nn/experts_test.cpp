// SPDX-License-Identifier: Apache-2.0
// A mixture of experts: on one device against a loop over tokens, and cut over experts and batch against one
// device, for any routing.
#include "engine/nn/experts.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>

#include "engine/nn/distribute.h"
#include "engine/values/error.h"

namespace lockstep::nn {
namespace {

constexpr int64_t kHidden = 6;

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.sizes() == y.sizes() && std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

at::Tensor values(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed));
}

// Where tokens go.
enum class Route { kAny, kTied, kOne };

void set_values(Module& module, Route route) {
  uint64_t seed = 0;
  for (const auto& [path, value] : module.named_parameters()) {
    auto fresh = values(value.sizes(), ++seed);
    if (path == "gate.weight" && route == Route::kTied) fresh = at::zeros(value.sizes());
    if (path == "gate.weight" && route == Route::kOne) {
      fresh = at::zeros(value.sizes());
      fresh[1].fill_(1);
    }
    module.set_parameter(path, fresh.requires_grad_());
  }
  make_buffers(module);
}

at::Tensor batch(int64_t tokens, Route route) {
  const auto x = values({tokens, 1, kHidden}, 77);
  return (route == Route::kOne ? x.abs() + 1 : x).requires_grad_();
}

// Catches: an expert's rows with another's weights, weights of a token over all experts, a tie that goes to
// the higher number, gate and up exchanged.
TEST(MixtureOfExperts, IsALoopOverTokens) {
  for (const auto route : {Route::kAny, Route::kTied, Route::kOne}) {
    MixtureOfExperts moe({.hidden = kHidden, .inner = 5, .experts = 4, .top_k = 2});
    set_values(moe, route);
    const auto x = batch(9, route);
    const auto y = moe(x);
    for (int64_t t = 0; t < 9; ++t) {
      const auto token = x.select(0, t).select(0, 0);
      const auto scores = moe.parameter("gate.weight").mv(token).softmax(0);
      int64_t first = 0, second = -1;
      for (int64_t e = 1; e < 4; ++e)
        if (scores[e].item<float>() > scores[first].item<float>()) first = e;
      for (int64_t e = 0; e < 4; ++e)
        if (e != first && (second < 0 || scores[e].item<float>() > scores[second].item<float>())) second = e;
      auto expected = at::zeros({kHidden});
      for (const int64_t e : {first, second}) {
        const auto of = [&](const char* name) { return moe.parameter(concat("experts.", name))[e]; };
        const auto inner = at::silu(of("gate_proj").mv(token)) * of("up_proj").mv(token);
        expected = expected + of("down_proj").mv(inner) * (scores[e] / (scores[first] + scores[second]));
      }
      EXPECT_LT((y.select(0, t).select(0, 0) - expected).abs().max().item<float>(), 1e-5) << t;
    }
  }
}

struct Cut {
  std::vector<int64_t> mesh;
  std::vector<std::string> names;
  const char* batch;
};
const Cut kCuts[] = {
    {{1}, {"ep"}, "[S0]"},
    {{2}, {"ep"}, "[S0]"},
    {{4}, {"ep"}, "[S0]"},
    {{7}, {"ep"}, "[S0]"},
    {{3}, {"ep"}, "[R]"},
    {{2}, {"dp"}, "[S0]"},
    {{2, 2}, {"dp", "ep"}, "[S0,S0]"},
    {{2, 2}, {"dp", "ep"}, "[R,S0]"},
    {{3, 2}, {"dp", "ep"}, "[S0,S0]"},
    {{2, 2, 2}, {"dp", "dp2", "ep"}, "[S0,S0,S0]"},
};

void distribute(Module& moe, const MeshInWorld& mesh) {
  Placements experts(static_cast<size_t>(mesh.mesh.ndim()), Replicate{});
  for (size_t d = 0; d < experts.size(); ++d)
    if (mesh.mesh.names()[d] == "ep") experts[d] = Shard{0};
  distribute_module(moe, mesh, {{"experts.*", experts}});
}

// Of a device that takes the blocks of the batch one after another: an expert has as many rows at once, which
// is what its products round by. What two mesh dimensions cut is added up along the first of them first.
struct InBlocks {
  at::Tensor output;
  std::map<std::string, at::Tensor> grads;
};
InBlocks in_blocks(MixtureOfExperts& plain, const at::Tensor& x, const at::Tensor& grad,
                   const std::vector<int64_t>& blocks) {
  const int64_t inner = blocks[1], all = blocks[0] * inner;
  const auto xs = x.chunk(all), grads = grad.chunk(all);
  std::vector<at::Tensor> outputs(xs.size());
  InBlocks result;
  for (int64_t b = 0; b < inner; ++b) {
    plain.zero_grad();
    for (auto block = static_cast<size_t>(b); block < xs.size(); block += static_cast<size_t>(inner)) {
      outputs[block] = plain(xs[block]);
      outputs[block].backward(grads[block]);
    }
    for (const auto& [name, parameter] : plain.named_parameters()) {
      auto& sum = result.grads[name];
      sum = sum.defined() ? sum + parameter.grad() : parameter.grad().clone();
    }
  }
  result.output = at::cat(outputs);
  return result;
}

// Catches: rows that another rank's experts answer, an expert without tokens whose gradient is another's,
// rows that come back in the order of the experts, a block's counts taken for another's. 12 tokens, 5
// experts: 7 ranks leave some without an expert and 5 tokens' worth of ranks without rows.
TEST(MixtureOfExperts, IsThePlainOneInBitsWhereverItsExpertsAre) {
  for (const auto route : {Route::kAny, Route::kTied, Route::kOne})
    for (const auto& cut : kCuts) {
      const auto mesh = init_device_mesh(cut.mesh, cut.names);
      SCOPED_TRACE(concat(mesh.mesh, " ", cut.batch, " ", static_cast<int>(route)));
      const ExpertsOptions options{.hidden = kHidden, .inner = 5, .experts = 5, .top_k = 2};
      MixtureOfExperts plain(options), moe(options);
      set_values(plain, route);
      set_values(moe, route);
      distribute(moe, mesh);
      const auto x = batch(12, route);
      const auto in = parameter(distribute_tensor(x.detach(), mesh, parse_placements(cut.batch)));
      std::vector<int64_t> blocks;
      const auto placed = parse_placements(cut.batch);
      for (size_t d = 0; d < placed.size(); ++d)
        if (placed[d] == Placement(Shard{0}) && cut.names[d] != "ep") blocks.push_back(cut.mesh[d]);
      blocks.resize(2, 1);
      const auto grad = values({12, 1, kHidden}, 5);
      const auto expected = in_blocks(plain, x, grad, blocks);
      const auto actual = moe(in);
      EXPECT_TRUE(same_bits(expected.output, full_tensor(actual)));
      actual.backward(distribute_tensor(grad, mesh, placements(actual)));
      EXPECT_TRUE(same_bits(x.grad(), full_tensor(in.grad())));
      for (const char* name : {"experts.gate_proj", "experts.up_proj", "experts.down_proj"})
        EXPECT_TRUE(same_bits(expected.grads.at(name), full_tensor(moe.parameter(name).grad()))) << name;
    }
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

// Catches: tokens that are silently cut otherwise than the experts' blocks.
TEST(MixtureOfExperts, SaysWhichMeshItTakes) {
  const auto said = [&](std::vector<std::string> names, const char* placements, int64_t tokens) {
    const auto mesh = init_device_mesh({2, 2}, std::move(names));
    MixtureOfExperts moe({.hidden = kHidden, .inner = 5, .experts = 4, .top_k = 2});
    set_values(moe, Route::kAny);
    distribute(moe, mesh);
    return error_of([&] {
      moe(distribute_tensor(batch(tokens, Route::kAny).detach(), mesh, parse_placements(placements)));
    });
  };
  EXPECT_NE(said({"ep", "dp"}, "[S0,S0]", 8).find("after those of the batch"), std::string::npos);
  EXPECT_NE(said({"dp", "ep"}, "[S0,S0]", 7).find("do not divide"), std::string::npos);
  EXPECT_EQ(said({"ep", "dp"}, "[S0,R]", 7), "");
  EXPECT_NE(error_of([] {
              MixtureOfExperts({.hidden = 4, .inner = 4, .experts = 2, .top_k = 3});
            }).find("best 3 of 2"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::nn
