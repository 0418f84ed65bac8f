// SPDX-License-Identifier: Apache-2.0
// Spec: mesh + placements + global shape, stride and dtype of one distributed tensor. An immutable value.
#pragma once
#include <c10/core/TensorOptions.h>

#include <memory>

#include "engine/values/device_mesh.h"
#include "engine/values/placement.h"

namespace lockstep {

class Spec {
 public:
  // Throws Error if a placement does not fit: their number is not mesh.ndim(), a dimension is out of range
  // (negative ones count from the end, as in torch, and are normalised), RaggedShard's units do not fit, or
  // two kinds of Partial other than sum and avg meet, or Pavg meets a dtype that is not floating. Units are
  // divided by their gcd. `order` is the order in which mesh dimensions are applied; empty: left to right.
  // Only the relative order of mesh dimensions that shard one tensor dimension matters; the rest is
  // normalised.
  Spec(DeviceMesh mesh, Placements placements, std::vector<int64_t> shape, std::vector<int64_t> stride,
       c10::ScalarType dtype, std::vector<int64_t> order = {});
  // Contiguous strides.
  Spec(DeviceMesh mesh, Placements placements, std::vector<int64_t> shape, c10::ScalarType dtype);

  const DeviceMesh& mesh() const { return *mesh_; }
  const Placements& placements() const { return placements_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<int64_t>& stride() const { return stride_; }
  c10::ScalarType dtype() const { return dtype_; }
  // A permutation of the mesh dimensions: the order in which they are applied.
  const std::vector<int64_t>& order() const { return order_; }
  bool default_order() const;
  int64_t ndim() const { return static_cast<int64_t>(shape_.size()); }
  int64_t numel() const;
  bool has_partial() const;
  bool all_replicate() const;
  size_t hash() const { return hash_; }

  Spec with_placements(Placements placements, std::vector<int64_t> order = {}) const;
  // Another tensor on the same mesh.
  Spec with(Placements placements, std::vector<int64_t> order, std::vector<int64_t> shape,
            std::vector<int64_t> stride, c10::ScalarType dtype) const;
  Spec with_tensor(std::vector<int64_t> shape, std::vector<int64_t> stride, c10::ScalarType dtype) const;

  bool operator==(const Spec& other) const;

 private:
  void finish();  // checks, normalises and hashes what the constructors and with_ functions set

  std::shared_ptr<const DeviceMesh> mesh_;
  Placements placements_;
  std::vector<int64_t> shape_, stride_;
  c10::ScalarType dtype_;
  std::vector<int64_t> order_;
  size_t hash_ = 0;
};

using SpecPtr = std::shared_ptr<const Spec>;

// The same of another dtype.
SpecPtr in_dtype(const SpecPtr& spec, c10::ScalarType dtype);

// Of a rank's part: on the mesh's device. The one place that says where local tensors are.
c10::TensorOptions local_options(const Spec& spec);

// Whether terms of this dtype can be reduced so: an average needs a floating dtype.
bool has_reduction(ReduceOp op, c10::ScalarType dtype);
// Whether terms of one tensor may pend by both: by the same, or by sum and avg.
bool commute(ReduceOp a, ReduceOp b);

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape);

// "f32[7x13]@[S0,R]" with "@1.0" appended for an order other than left to right.
std::string to_string(const Spec& spec);
std::ostream& operator<<(std::ostream& out, const Spec& spec);

// f64 f32 bf16 f16 i64 i32 i16 i8 u8 bool
std::string dtype_name(c10::ScalarType dtype);
c10::ScalarType parse_dtype(std::string_view text);
std::string shape_text(const std::vector<int64_t>& shape);  // "7x13"; "-" for no dimensions
std::vector<int64_t> parse_shape(std::string_view text);
// Placements with an optional "@1.0" order.
std::pair<Placements, std::vector<int64_t>> parse_placements_and_order(std::string_view text);

}  // namespace lockstep
