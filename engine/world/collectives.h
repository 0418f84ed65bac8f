// SPDX-License-Identifier: Apache-2.0
// Collectives, each a plan of one exchange. For each hosted rank that takes part there is one entry in
// `groups` (from Comm), in `sent` and in `into`; entries by place stand in the order of the group. What
// `into` holds is written by wait(); `groups` and `into` outlive it.
#pragma once
#include <functional>

#include "engine/values/placement.h"
#include "engine/world/world.h"

namespace lockstep {

using Groups = std::vector<Group>;
// By place, at least one; where there are fewer than places, those after the last are as it is, empty.
using Buffers = std::vector<Slab>;

// @post into[i][k] has the bits of what place k sent.
Work all_gather(World& world, const Groups& groups, const PerRank<at::Tensor>& sent,
                const PerRank<Buffers>& into);
// The same where all of a group send tensors of one form, without a place to put them: `arrived(i, tensor)`
// sees them in the order of the group, and reads them at once.
using Arrived = std::function<void(size_t hosted, const at::Tensor& tensor)>;
Work all_gather(World& world, const Groups& groups, const PerRank<at::Tensor>& sent, Arrived arrived);
// The same for pieces of several forms, those of (*forms[i])[place]: `arrived(i, k, tensor)` sees the k-th of
// those that have elements, in the order of the group.
using ArrivedPiece = std::function<void(size_t hosted, size_t k, const at::Tensor& tensor)>;
Work all_gather(World& world, const Groups& groups, const PerRank<at::Tensor>& sent,
                const PerRank<const Buffers*>& forms, ArrivedPiece arrived);

// @post into[i][k] has the bits of what place k sent to the place of i.
Work all_to_all(World& world, const Groups& groups, PerRank<Buffers> sent, PerRank<Buffers> into);

// @post into[i] has the bits that the place `root` of its group sent; the root's own is left alone.
Work broadcast(World& world, const Groups& groups, int64_t root, const PerRank<at::Tensor>& sent,
               const PerRank<at::Tensor>& into);

// Terms are folded as they come, in the order of the group, and none is kept. into[i] is written to, or,
// where it is undefined, becomes the fold.
// @post into[i] is the fold of what its group sent: of whole tensors.
Work all_reduce(World& world, const Groups& groups, ReduceOp op, const PerRank<at::Tensor>& terms,
                PerRank<at::Tensor>& into);
// @post into[i] is the fold of what its group sent to the place of i.
Work reduce_scatter(World& world, const Groups& groups, ReduceOp op, const PerRank<Buffers>& terms,
                    PerRank<at::Tensor>& into);

// Returns when all of each group have come.
void barrier(World& world, const Groups& groups);

}  // namespace lockstep
