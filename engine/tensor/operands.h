// SPDX-License-Identifier: Apache-2.0
// The tensors among the arguments of a boxed call: finding them, replacing them, keying the decision cache.
#pragma once
#include <ATen/core/stack.h>
#include <c10/util/FunctionRef.h>

#include "engine/ops/decide.h"
#include "engine/tensor/dtensor_impl.h"

namespace lockstep {

struct ParsedCall {
  PerOperand<at::Tensor> tensors;  // flattened in schema order; undefined ones included
  Operands operands;               // shapes, strides and offsets of the metas: only after describe()
  PerOperand<at::Tensor> zeros;    // where autograd's zeros stood, the plain tensor; undefined elsewhere
  CommPtr comm;                    // null: no DTensor among them
};

// The Specs of its DTensors, for errors.
std::string specs_of(const ParsedCall& call);

// Throws Refused if DTensors of several meshes meet, or a DTensor and a plain tensor of more than one
// element.
ParsedCall parse(const c10::OperatorHandle& op, const Resolved& resolved, at::ArrayRef<c10::IValue> args);
// Fills in what only a new decision needs.
void describe(ParsedCall& call);

// A copy of the arguments with tensor i replaced by replace(i); undefined ones stay.
void push_with_tensors(torch::jit::Stack& stack, const Resolved& resolved, at::ArrayRef<c10::IValue> args,
                       c10::function_ref<at::Tensor(size_t)> replace);
torch::jit::Stack with_tensors(const Resolved& resolved, at::ArrayRef<c10::IValue> args,
                               c10::function_ref<at::Tensor(size_t)> replace);
// A copy with DTensors replaced by None (lists by lists of Nones); plain tensors of one element, and
// autograd's zeros, stay.
std::vector<c10::IValue> constants(const Resolved& resolved, at::ArrayRef<c10::IValue> args,
                                   const ParsedCall& call);
// The arguments with DTensors replaced by meta tensors.
torch::jit::Stack on_meta(const Resolved& resolved, at::ArrayRef<c10::IValue> args, const ParsedCall& call);

// Specs say what they are equal in without the names of the mesh's dimensions, which results have, too.
bool equal_and_named_alike(const Spec& a, const Spec& b);

// Everything that a decision depends on, as values: op, Specs, and every constant but floating-point ones, of
// which rules read the sign alone. Equality decides; a hash only picks the bucket.
struct CacheKey {
  c10::SmallVector<int64_t, 24> words;
  PerOperand<SpecPtr> specs;
  size_t hash = 0;
  bool operator==(const CacheKey& other) const;
};
struct CacheKeyHash {
  // For tests, before the first op: all keys meet in one bucket, and nothing but equality tells them apart.
  static inline bool one_bucket = false;
  size_t operator()(const CacheKey& key) const { return one_bucket ? 0 : key.hash; }
};
CacheKey cache_key(const c10::OperatorHandle& op, const Resolved& resolved, at::ArrayRef<c10::IValue> args,
                   const ParsedCall& call, MayMove may_move);

}  // namespace lockstep
