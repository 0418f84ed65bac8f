// SPDX-License-Identifier: Apache-2.0
// The rule families: functions from a call to its rows, one file each.
#pragma once
#include "engine/ops/rules/row.h"

namespace lockstep::rules {

// A constant that keeps the sign of zero: the only factor that pending terms may be scaled by.
bool positive(const c10::IValue& value);

// pointwise.cpp. Broadcasting; shards align with the output's dimensions.
Rows pointwise(const OpCall& call);       // no Partial passes
Rows additive(const OpCall& call);        // add: all inputs Partial of one kind
Rows multiplicative(const OpCall& call);  // mul: a Partial passes if scaled by a positive constant
Rows divisive(const OpCall& call);        // div: likewise, without rounding modes
Rows copying(const OpCall& call);         // clone, copy_, _to_copy: every Partial passes if the dtype stays
Rows monotone(const OpCall& call);        // relu, exp, …: max and min pass
// For ops that look at each element alone: a row for each RaggedShard among the inputs, whose flat locals
// meet element by element. None if a tensor broadcasts, unless it is one element that a flat local may meet;
// none for a result without dimensions.
void add_ragged_rows(Rows& rows, const OpCall& call);

// matmul.cpp
Rows mm(const OpCall& call);
Rows bmm(const OpCall& call);
Rows addmm(const OpCall& call);
Rows baddbmm(const OpCall& call);
Rows mv(const OpCall& call);
Rows dot(const OpCall& call);

// reduce.cpp. Argument 1 (or 2 for norms and var) holds the dims, argument after it keepdim.
Rows sum(const OpCall& call);
Rows mean(const OpCall& call);
Rows prod(const OpCall& call);
Rows amax(const OpCall& call);
Rows amin(const OpCall& call);
Rows any(const OpCall& call);
Rows all(const OpCall& call);
Rows replicate_reduced_dims(const OpCall& call);  // logsumexp(1), argmax(1), max.dim(1): dims at argument 1
Rows replicate_reduced_dims_at_2(const OpCall& call);  // linalg_vector_norm
Rows replicate_along_dim(const OpCall& call);  // softmax, cumsum, sort…: shape kept, dim must be whole
Rows full_reduction(const OpCall& call);       // max(), min(): everything reduced

// view.cpp. These alias, so inputs never move.
Rows reshape_view(const OpCall& call);  // view, _unsafe_view, _reshape_alias: target shape is output 0's
Rows transpose(const OpCall& call);
Rows permute(const OpCall& call);
Rows matrix_transpose(const OpCall& call);  // t
Rows expand(const OpCall& call);
Rows squeeze(const OpCall& call);
Rows unsqueeze(const OpCall& call);
Rows identity_view(const OpCall& call);  // alias, detach, as_strided to itself
Rows select(const OpCall& call);
Rows slice(const OpCall& call);
Rows split(const OpCall& call);  // split, split_with_sizes
Rows unbind(const OpCall& call);
Rows diagonal(const OpCall& call);

// index.cpp
Rows index_select(const OpCall& call);
Rows gather(const OpCall& call);
Rows scatter(const OpCall& call);
Rows cat(const OpCall& call);
Rows stack(const OpCall& call);
Rows triangle(const OpCall& call);        // tril, triu
Rows dim_whole_at_1(const OpCall& call);  // cumsum, sort, topk and kin: dim at argument `1`
Rows sort(const OpCall& call);
Rows topk(const OpCall& call);
Rows select_backward(const OpCall& call);
Rows slice_backward(const OpCall& call);
Rows embedding(const OpCall& call);
Rows embedding_dense_backward(const OpCall& call);
Rows index(const OpCall& call);

// norm.cpp
Rows softmax_backward(const OpCall& call);
Rows layer_norm(const OpCall& call);
Rows layer_norm_backward(const OpCall& call);
Rows rms_norm(const OpCall& call);
Rows rms_norm_backward(const OpCall& call);
Rows nll_loss(const OpCall& call);
Rows nll_loss_backward(const OpCall& call);
Rows convolution(const OpCall& call);
Rows convolution_backward(const OpCall& call);
Rows pool(const OpCall& call);  // batch and channel dims of NCHW stay sharded

// factory.cpp
Rows like(const OpCall& call);        // zeros_like, …: follows the input's shards
Rows new_tensor(const OpCall& call);  // new_zeros(sizes): follows if the shape is the input's
Rows dropout(const OpCall& call);     // native_dropout: Partial keeps, one mask
Rows bernoulli(const OpCall& call);   // probabilities in a tensor are read, like any pointwise input
Rows normal(const OpCall& call);      // means and standard deviations likewise

Rows none(const OpCall& call);  // only the all-Replicate row

}  // namespace lockstep::rules
