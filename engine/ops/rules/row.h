// SPDX-License-Identifier: Apache-2.0
// Row: one legal combination of placements of an op along one mesh dimension. OpCall: what a rule may look
// at.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/values/spec.h"

namespace lockstep {

// (index of an input tensor, its dimension).
struct InputDim {
  size_t input;
  int64_t dim;
  bool operator==(const InputDim&) const = default;
};

struct Row {
  Placements outputs;
  Placements inputs;
  // Dimensions of inputs, and of output 0, that the mesh dimensions which shard them must divide without
  // rest.
  std::vector<InputDim> even = {};
  std::vector<int64_t> even_outputs = {};
  bool operator==(const Row&) const = default;
};

// A tensor argument or result of an op, as the op on global tensors sees it. Tensors of an op are numbered in
// schema order, lists flattened, undefined ones included (`defined` is false; their placement is ignored).
struct TensorMeta {
  bool defined = false;
  bool plain = false;     // a plain tensor of one element; counts as Replicate
  bool constant = false;  // must be Replicate: zeros that autograd made, or what elements of a list share
  std::vector<int64_t> shape, stride;
  c10::ScalarType dtype = c10::ScalarType::Float;
  int64_t offset = 0;  // in memory, in elements; of a view's result, from its input's
  int64_t ndim() const { return static_cast<int64_t>(shape.size()); }
};

// The arguments of a call, by their names in the schema. A name costs a scan of the schema, so rules, which
// run once for each decision, read by name.
class Arguments {
 public:
  Arguments() = default;
  Arguments(const c10::FunctionSchema& schema, std::span<const c10::IValue> values,
            c10::DeviceType device = c10::kCPU)
      : schema_(&schema), values_(values), device_(device) {}

  // Whose kernel runs, which may give results of other dtypes than the CPU's.
  c10::DeviceType device() const { return device_; }

  // Null: this overload has no such argument.
  const c10::IValue* find(std::string_view name) const;
  // Where it stands. Throws Broken if the overload has no such argument.
  size_t position(std::string_view name) const;
  const c10::IValue& operator[](std::string_view name) const { return values_[position(name)]; }
  int64_t integer(std::string_view name) const { return (*this)[name].toInt(); }
  std::vector<int64_t> integers(std::string_view name) const;  // empty for None
  at::Tensor tensor(std::string_view name) const;              // undefined for None

 private:
  const c10::FunctionSchema* schema_ = nullptr;
  std::span<const c10::IValue> values_;
  c10::DeviceType device_ = c10::kCPU;
};

struct OpCall {
  std::string name;  // "aten::add", without overload
  std::string overload;
  Arguments args;  // tensors among them are not to be touched by rules
  std::vector<TensorMeta> inputs, outputs;
  // The placements of the inputs along the mesh dimension in question (Replicate for plain and undefined
  // ones).
  Placements current;
  int64_t mesh_size = 1;
  // Extents of the inputs and of output 0 after the mesh dimensions that apply before this one (exact if they
  // divide).
  std::vector<std::vector<int64_t>> input_extents;
  std::vector<int64_t> output_extents;

  int64_t integer(std::string_view arg) const { return args.integer(arg); }
  std::vector<int64_t> integers(std::string_view arg) const { return args.integers(arg); }
};

// The rows of an op along one mesh dimension. The engine adds the all-Replicate row, and for each row with
// Shards the same row with each other kind of shard that occurs among the inputs.
using Rows = std::vector<Row>;
using RowsOf = std::function<Rows(const OpCall&)>;

// Negative dimensions count from the end; a 0-d tensor has dimension 0.
int64_t wrap_dim(int64_t dim, int64_t ndim);
// A row of Replicates for the call.
Row replicate_row(const OpCall& call);
// The same, but for input 0 and all outputs.
Row row_of(const OpCall& call, const Placement& in, const Placement& out);
// For each op: the first `inputs` inputs pend alike, and so do all outputs.
void add_partials(Rows& rows, const OpCall& call, std::initializer_list<ReduceOp> ops, size_t inputs = 1);

}  // namespace lockstep
