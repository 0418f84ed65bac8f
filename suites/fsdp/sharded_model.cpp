// SPDX-License-Identifier: Apache-2.0
#include "suites/fsdp/sharded_model.h"

#include <ATen/ATen.h>

#include "engine/nn/layers.h"
#include "engine/values/as_size.h"

namespace lockstep::suites {
namespace {

class Block : public nn::Module {
 public:
  Block(const BlockSpec& spec, int64_t width, c10::ScalarType dtype, bool calls_itself)
      : spec_(spec), calls_itself_(calls_itself && width_after(spec, width) == width) {
    for (const auto& layer : spec) {
      layers_.push_back(make(layer, width, dtype));
      if (layers_.back() != nullptr) add_child(std::to_string(layers_.size() - 1), layers_.back());
      if (layer.size > 0) width = layer.size;
    }
  }

 protected:
  at::Tensor forward(const nn::Tensors& inputs) override {
    auto x = inputs.size() > 1 ? inputs[0] + inputs[1] * 0.5 : inputs.at(0);
    for (size_t i = 0; i < spec_.size(); ++i) {
      if (spec_[i].kind == 't')
        x = x.tanh();
      else
        x = spec_[i].kind == 'r' ? x + inputs[0] : (*layers_[i])(x);
    }
    if (!calls_itself_ || is_within_) return x;
    is_within_ = true;
    const auto again = (*this)(x);
    is_within_ = false;
    return x + again;
  }

 private:
  static std::shared_ptr<nn::Module> make(const LayerSpec& layer, int64_t width, c10::ScalarType dtype) {
    switch (layer.kind) {
      case 'L':
      case 'l':
        return std::make_shared<nn::Linear>(width, layer.size, layer.kind == 'L', dtype);
      case 'n':
        return std::make_shared<nn::RMSNorm>(width, 1e-5, dtype);
      case 'N':
        return std::make_shared<nn::LayerNorm>(width, 1e-5, dtype);
      case 'd':
        return std::make_shared<nn::Dropout>(0.25);
      default:
        return nullptr;
    }
  }

  BlockSpec spec_;
  const bool calls_itself_;
  bool is_within_ = false;
  std::vector<std::shared_ptr<nn::Module>> layers_;  // null: a function without parameters
};

// Its blocks, one after the other.
class BlockChain : public nn::Module {
 public:
  explicit BlockChain(const Sharding& s) : has_sides_(s.sides != 0) {
    int64_t width = s.width;
    for (const auto& spec : s.blocks) {
      const auto name = std::to_string(blocks_.size());
      blocks_.push_back(add_child(name, std::make_shared<Block>(spec, width, s.dtype, s.calls == 2)));
      const auto came = std::exchange(width, width_after(spec, width));
      const bool is_unused = s.unused == std::ssize(blocks_);
      times_.push_back(is_unused ? 0 : s.calls == 1 && width == came ? 2 : 1);
    }
  }
  const Blocks& blocks() const { return blocks_; }

 protected:
  at::Tensor forward(const nn::Tensors& inputs) override {
    auto x = inputs.at(0);
    for (size_t i = 0; i < blocks_.size(); ++i)
      for (int k = 0; k < times_[i]; ++k)
        x = has_sides_ && i > 0 ? (*blocks_[i])(x, x.tanh()) : (*blocks_[i])(x);
    return x;
  }

 private:
  const bool has_sides_;
  Blocks blocks_;
  std::vector<int> times_;
};

}  // namespace

std::pair<std::shared_ptr<nn::Module>, Blocks> make_model(const Sharding& sharding) {
  auto chain = std::make_shared<BlockChain>(sharding);
  if (sharding.tied != 0) {
    const auto paths = *tied_paths(sharding);
    chain->set_parameter(paths.first, chain->parameter(paths.second));
  }
  auto blocks = chain->blocks();
  return {std::move(chain), std::move(blocks)};
}

}  // namespace lockstep::suites
