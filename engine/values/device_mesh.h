// SPDX-License-Identifier: Apache-2.0
// DeviceMesh: an N-D grid of ranks with named dimensions, all on one type of device. A value; communicates
// nothing.
//   text: 2x4, or dp:2,tp:4; 2x4@cuda on another device than the CPU
#pragma once
#include <c10/core/DeviceType.h>

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class DeviceMesh {
 public:
  DeviceMesh() = default;  // no ranks; assign before use
  // Ranks 0 .. product(shape)-1 in row-major order; 1 to 4 dimensions. Names may be empty ("dim0", "dim1",
  // …).
  explicit DeviceMesh(std::vector<int64_t> shape, std::vector<std::string> names = {});
  DeviceMesh(std::vector<int64_t> shape, std::vector<std::string> names, std::vector<int64_t> ranks);

  int64_t ndim() const { return static_cast<int64_t>(shape_.size()); }
  int64_t size() const { return static_cast<int64_t>(ranks().size()); }
  int64_t size(int64_t dim) const;
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<std::string>& names() const { return names_; }
  bool has_names() const { return named_; }
  // The rank at each row-major position of the grid.
  const std::vector<int64_t>& ranks() const { return *ranks_; }
  // Of local tensors: cpu, cuda, or meta for a program that is only tried out. Where a process sees several
  // devices of the type, its current one (as in torch).
  c10::DeviceType device_type() const { return device_type_; }
  // The same mesh there. Throws Error for other types.
  DeviceMesh on(c10::DeviceType type) const;

  // Row-major position -> coordinate, and back. These and size(dim) throw Error naming the range that exists.
  std::vector<int64_t> coordinate(int64_t position) const;
  int64_t position(const std::vector<int64_t>& coordinate) const;
  // Positions that differ from `position` only along `dim`, in order of that coordinate.
  std::vector<int64_t> line(int64_t position, int64_t dim) const;

  int64_t dim_index(std::string_view name) const;  // throws Error naming the dimensions that exist
  // The mesh of the named dimensions that contains `rank` (torch: mesh["tp"]).
  DeviceMesh sub_mesh(const std::vector<std::string>& dims, int64_t rank = 0) const;
  // The same ranks as one dimension (torch: mesh._flatten).
  DeviceMesh flatten(std::string name = "") const;

  bool operator==(const DeviceMesh& other) const {
    return shape_ == other.shape_ && device_type_ == other.device_type_ &&
           (ranks_ == other.ranks_ || ranks() == other.ranks());
  }

 private:
  using Ranks = std::shared_ptr<const std::vector<int64_t>>;
  static const Ranks& no_ranks();

  std::vector<int64_t> shape_;
  std::vector<std::string> names_;
  Ranks ranks_ = no_ranks();  // of all copies
  bool named_ = false;
  c10::DeviceType device_type_ = c10::DeviceType::CPU;
};

std::string to_string(const DeviceMesh& mesh);  // "2x4" or "dp:2,tp:4", "2x4@cuda"
std::ostream& operator<<(std::ostream& out, const DeviceMesh& mesh);
DeviceMesh parse_mesh(std::string_view text);
c10::DeviceType parse_device_type(std::string_view text);  // "cpu", "cuda" or "meta"

}  // namespace lockstep
