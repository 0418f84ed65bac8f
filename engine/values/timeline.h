// SPDX-License-Identifier: Apache-2.0
// Timeline: what the engine did, op by op, as data: forward, backward and redistributions alike. The engine
// declares only placements, layouts in memory, arguments and the order of its reductions; digests let another
// party recognise the values.
#pragma once
#include <ATen/core/ivalue.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/values/reduction_order.h"
#include "engine/values/spec.h"

namespace lockstep {

// 128-bit digest of one local tensor: dtype, shape and the element bytes in logical row-major order.
struct Digest {
  uint64_t lo, hi;
  bool operator==(const Digest&) const = default;
  auto operator<=>(const Digest&) const = default;
};

// One distributed tensor as it was when an op read or wrote it: a digest for each position of the mesh.
struct TensorRecord {
  SpecPtr spec;
  std::vector<Digest> digests;  // empty: an undefined tensor
  // Of each local tensor, where one has gaps or overlaps, as a view may: stock kernels choose the order in
  // which they round by them. Empty, or empty for a position: dense.
  std::vector<std::vector<int64_t>> strides;
};

struct TimelineEntry {
  std::string op;  // "aten::mm", "aten::sum.dim_IntList", "lockstep::redistribute"
  // What nobody asked dispatch for: a redistribution that the engine inserted, a cast of the terms of a
  // gradient before they are added up.
  bool implicit = false;
  // The op's arguments on global tensors, in schema order; each tensor is replaced by None, each tensor list
  // by an empty list of as many Nones; tensors are listed, flattened in the same order, in `inputs`. A plain
  // tensor of one element (a wrapped number) is a constant: it stays in `args` and is not listed.
  std::vector<c10::IValue> args;
  // How many tensors each argument took: -1 for a non-tensor argument, 0 or 1 for Tensor and Tensor?, n for
  // lists.
  std::vector<int64_t> tensors_per_arg;
  std::vector<TensorRecord> inputs;   // placed as the local op saw them, before it ran
  std::vector<TensorRecord> outputs;  // after it ran, flattened; none: the host read its inputs
  // For each output, the flattened input that it is (in-place and out variants); -1: a new tensor.
  std::vector<int64_t> aliases;
  ReductionOrder order;                   // of redistributions that reduce
  std::optional<uint64_t> random_offset;  // of the stream, for a random op
};

using Timeline = std::vector<TimelineEntry>;

}  // namespace lockstep
