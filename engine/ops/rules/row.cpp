// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/rules/row.h"

#include <algorithm>

#include "engine/values/error.h"

namespace lockstep {

const c10::IValue* Arguments::find(std::string_view name) const {
  const auto& arguments = schema_->arguments();
  for (size_t i = 0; i < values_.size(); ++i)
    if (arguments[i].name() == name) return &values_[i];
  return nullptr;
}

size_t Arguments::position(std::string_view name) const {
  const auto* value = find(name);
  if (value == nullptr) throw Broken(concat("[", schema_->operator_name(), "] has no argument ", name));
  return static_cast<size_t>(value - values_.data());
}

at::Tensor Arguments::tensor(std::string_view name) const {
  const auto& value = (*this)[name];
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

std::vector<int64_t> Arguments::integers(std::string_view name) const {
  const auto& value = (*this)[name];
  if (value.isNone()) return {};
  if (value.isInt()) return {value.toInt()};
  return value.toIntVector();
}

int64_t wrap_dim(int64_t dim, int64_t ndim) {
  return dim < 0 ? dim + (ndim == 0 ? 1 : ndim) : dim;
}

Row replicate_row(const OpCall& call) {
  return {Placements(call.outputs.size(), Replicate{}), Placements(call.inputs.size(), Replicate{}), {}};
}

Row row_of(const OpCall& call, const Placement& in, const Placement& out) {
  auto row = replicate_row(call);
  row.inputs[0] = in;
  row.outputs.assign(call.outputs.size(), out);
  return row;
}

void add_partials(Rows& rows, const OpCall& call, std::initializer_list<ReduceOp> ops, size_t inputs) {
  for (const auto op : ops) {
    rows.push_back(row_of(call, Partial{op}, Partial{op}));
    std::fill_n(rows.back().inputs.begin(), inputs, Partial{op});
  }
}

}  // namespace lockstep
