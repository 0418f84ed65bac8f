// SPDX-License-Identifier: Apache-2.0
// The families of ops, one file each: their rules, what their results look like where libtorch does not say
// it, and at the end the records of their ops. Here is what a family lends to others.
#pragma once
#include <initializer_list>

#include "engine/ops/rules/record.h"

namespace lockstep::rules {

// Names without "aten::"; in another namespace, with it.
using Records = std::vector<OpEntry>;
Records pointwise_ops();
Records matmul_ops();
Records reduction_ops();
Records view_ops();
Records index_ops();
Records norm_ops();
Records factory_ops();
Records random_ops();
Records optim_ops();
Records expert_ops();

inline constexpr std::initializer_list<ReduceOp> kEveryReduction = {
    ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};

// A record for each name, all else as in `like`.
void add_alike(Records& records, const OpEntry& like, std::initializer_list<const char*> names);

// pointwise.cpp. Broadcasting; shards align with the output's dimensions; no Partial passes.
Rows pointwise(const OpCall& call);
// A constant that keeps the sign of zero: the only factor that pending terms may be scaled by.
bool positive(const c10::IValue& value, c10::ScalarType dtype);
// For ops that look at each element alone: a row for each RaggedShard among the inputs, whose flat locals
// meet element by element. None if a tensor broadcasts, unless it is one element that a flat local may meet;
// none for a result without dimensions.
void add_ragged_rows(Rows& rows, const OpCall& call);

// index.cpp. Shards stay in every dimension but `dim`, or but the last two, in all tensors that have as many
// dimensions as the result.
Rows dim_whole(const OpCall& call);
Rows last_two_whole(const OpCall& call);

// view.cpp. The dimensions that squeeze takes away.
std::vector<int64_t> squeezed_dims(const OpCall& call);

// factory.cpp. Follows the first input's shards; its values are not read, so a Partial need not be reduced.
Rows like(const OpCall& call);
Rows follow(const OpCall& call);  // likewise, but Partials are reduced

// Of results. A dense tensor of the dtype of `of`; one for each input of that name.
at::Tensor sized(const at::Tensor& of, at::IntArrayRef shape);
Metas dense_self(const Arguments& args);    // contiguous, of the shape of `self`
Metas laid_as_self(const Arguments& args);  // and of its layout

}  // namespace lockstep::rules
