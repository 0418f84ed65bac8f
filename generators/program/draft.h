// SPDX-License-Identifier: Apache-2.0
// Draft: a Case under construction that no trial runs: its author knows shapes, dtypes and what fits.
#pragma once
#include "generators/space/placements.h"
#include "oracle/program/program.h"

namespace lockstep::generators {

// A tensor, or where there is none yet the one to make, and how it lies on the mesh.
struct Operand {
  oracle::Ref ref;
  c10::ScalarType dtype = c10::ScalarType::Float;
  Shape shape;
  oracle::Target target;
};

class Draft {
 public:
  Draft(Random random, DeviceMesh mesh, DeviceModel device)
      : random_(random), mesh_(std::move(mesh)), device_(device) {}

  Random& random() { return random_; }
  const DeviceMesh& mesh() const { return mesh_; }
  const DeviceModel& device() const { return device_; }

  // Numbered so that inputs come first in the end.
  oracle::Ref input(oracle::Input input, oracle::Target target);
  // The arguments that are left out are the schema's defaults. Returns the first result.
  oracle::Ref call(const char* op, std::vector<oracle::Arg> args, int64_t results = 1);
  // A factory's call, its result placed as the target says: that stands where the schema has the device.
  oracle::Ref make(const char* op, std::vector<oracle::Arg> args, const oracle::Target& target);

  size_t calls() const { return program_.calls.size(); }
  oracle::Case finish(const char* suite, uint64_t seed) &&;

 private:
  static constexpr int64_t kResults = int64_t{1} << 32;
  Random random_;
  DeviceMesh mesh_;
  DeviceModel device_;
  oracle::Program program_;
  std::vector<oracle::Target> placements_;
  int64_t results_ = 0;
};

}  // namespace lockstep::generators
