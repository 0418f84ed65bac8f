// SPDX-License-Identifier: Apache-2.0
// The leaf modules, with torch's parameter names, formulas and first values.
#pragma once
#include "engine/nn/module.h"

namespace lockstep::nn {

// weight [out, in], bias [out].
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, bool bias = true, at::ScalarType dtype = at::kFloat);
  void reset_own_parameters() override;

 protected:
  at::Tensor forward(const Tensors& inputs) override;

 private:
  bool bias_;
};

// weight [count, size]; the input holds indices.
class Embedding : public Module {
 public:
  Embedding(int64_t count, int64_t size, at::ScalarType dtype = at::kFloat);
  void reset_own_parameters() override;

 protected:
  at::Tensor forward(const Tensors& inputs) override;
};

// Over the last dimension.
class RMSNorm : public Module {
 public:
  explicit RMSNorm(int64_t size, double eps = 1e-5, at::ScalarType dtype = at::kFloat);
  void reset_own_parameters() override;

 protected:
  at::Tensor forward(const Tensors& inputs) override;

 private:
  int64_t size_;
  double eps_;
};

// Over the last dimension.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(int64_t size, double eps = 1e-5, at::ScalarType dtype = at::kFloat);
  void reset_own_parameters() override;

 protected:
  at::Tensor forward(const Tensors& inputs) override;

 private:
  int64_t size_;
  double eps_;
};

class Dropout : public Module {
 public:
  explicit Dropout(double p) : p_(p) {}

 protected:
  at::Tensor forward(const Tensors& inputs) override;

 private:
  double p_;
};

// Children "0", "1", …, each called on the output of the one before.
class Sequential : public Module {
 public:
  void push_back(std::shared_ptr<Module> module);

 protected:
  at::Tensor forward(const Tensors& inputs) override;

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};

// Mean over all targets of -log softmax(logits)[target]; logits [..., classes], targets [...] of integers.
// Written in maximum, exponential sum and selection, so that logits sharded over the classes stay sharded:
// only one number a token crosses ranks. The buffer `classes` ([classes], 0, 1, …) is sharded with them.
class CrossEntropy : public Module {
 public:
  explicit CrossEntropy(int64_t classes);

 protected:
  at::Tensor forward(const Tensors& inputs) override;
};

}  // namespace lockstep::nn
