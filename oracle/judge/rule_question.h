// SPDX-License-Identifier: Apache-2.0
// The first of the two questions that are asked of every op: is the rule right by which it was placed? Free
// of rounding, and of the values of the case.
#pragma once
#include "oracle/judge/judge_op.h"

namespace lockstep::oracle {

// Ordinary numbers: of floating ones, in float64, those of `t` that are, a little less than they are, so that
// no two are equal, and for the others (zeros, infinities, NaN, huge and tiny ones) some of the same sign; of
// integers small ones, of booleans mostly true ones, in their dtype.
at::Tensor ordinary(const at::Tensor& t, uint64_t seed);

// False of ops that draw their values, or of which other values say nothing.
bool is_asked(const RecordedOp& op);

// The op on every rank's slices of ordinary inputs, in float64, its results put together as they are placed,
// is the op on the whole, up to float64 roundings; of one whose results are sums of products, asked on small
// integers, in every bit but the signs of zeros. Throws Mismatched, Condition::kRule.
void ask_rule(const OpInQuestion& q, const Recording& recording, const Shadow& shadow);

}  // namespace lockstep::oracle
