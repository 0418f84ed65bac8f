// SPDX-License-Identifier: Apache-2.0
// What programs at the edge of their DTensors do (edge_cases.cpp), a function for each.
#pragma once
#include "generators/program/builder.h"

namespace lockstep::generators {

// A plain tensor, the same on every rank.
oracle::Ref fresh_outside(Builder& b, Want want);

// A mean of what is cut, where the Program forbids what it does not say: it pends, until it is redistributed.
void let_mean_pend(Builder& b);

// Ops on what two mesh dimensions cut in an order of its own, where nothing may move: they keep it.
void keep_order(Builder& b);

// How the result and gradients of what every rank has whole lie where `in` distributes: as terms.
oracle::Target pending_where_cut(const oracle::Target& in);

// An op on the local tensors of every rank: of lists of tensors, of the terms of a sum, or in place.
void join_locals(Builder& b);
void map_terms(Builder& b);
void write_locals(Builder& b);

}  // namespace lockstep::generators
