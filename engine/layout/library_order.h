// SPDX-License-Identifier: Apache-2.0
// In which order libtorch's Gloo reduces: around a ring, each chunk of the buffer from another rank on.
#pragma once
#include "engine/layout/route.h"

namespace lockstep {

// Whether a library's collective reduces what pends in a tensor of its dtype: Gloo has no bool and no 16-bit
// integers.
bool reduced_by_library(const Spec& spec);

// How many elements of a buffer of so many make a chunk: they start at one rank. The last chunks may be
// short, or missing.
int64_t ring_chunk(int64_t elements, int64_t element_size, int64_t ranks);

// What a reduce-scatter cuts each local into: `ranks` pieces along `dim`, each as long as the longest, one
// after another in the buffer.
std::vector<int64_t> padded_piece(std::vector<int64_t> local_shape, int64_t dim, int64_t ranks);

// Element by element what the steps of the route do, where the library reduces each of them.
// @pre reduced_by_library(*route.from)
ReductionOrder order_by_library(const Route& route);

}  // namespace lockstep
