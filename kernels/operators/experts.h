// SPDX-License-Identifier: Apache-2.0
// The operators of a mixture of experts, of which each row of a matrix goes to one. Rows stand in `blocks`
// runs of their own order, and within a block expert by expert: counts[b * experts + e] of block b are of
// expert e.
#pragma once

namespace lockstep {

// experts::grouped_linear(Tensor rows, Tensor weight, int[] counts, int blocks) -> Tensor
//   rows [n, in], weight [experts, out, in]: each row times its expert's weight, transposed: [n, out].
// experts::grouped_linear_input(Tensor grad, Tensor weight, int[] counts, int blocks) -> Tensor
// experts::grouped_linear_weight(Tensor grad, Tensor rows, int[] counts, int blocks) -> Tensor
//   Its gradients, of the rows and of the weight, for grad [n, out]. That of the weight is the sum of what
//   each block gives, in their order; a block without rows of an expert gives zeros.
// experts::permute_rows(Tensor self, Tensor order, Tensor inverse, int[] leading) -> Tensor
//   Rows are all of `self` but its last dimension: row i of the result, [*leading, features], is row
//   order[i]. The gradient goes back by `inverse`, so that -0.0 is what it was. @pre order[inverse[i]] == i
//
// grouped_linear is differentiable, once, and permute_rows. Errors: a gradient of a gradient; a count below
// zero; counts that are not `blocks` times the experts, or do not add up to the rows; shapes and dtypes that
// do not meet.
void define_expert_operators();

}  // namespace lockstep
