// SPDX-License-Identifier: Apache-2.0
// Replicas that ranks have computed, each for itself, share storage where they came out alike; so do terms of
// a sum, of which many are its identity where there are more ranks than rows.
#pragma once
#include <map>
#include <utility>

#include "engine/values/spec.h"
#include "engine/world/comm.h"

namespace lockstep {

// Of the results of one op, large tensors alone.
class Replicas {
 public:
  explicit Replicas(const Comm& comm) : comm_(comm) {}

  // A local that has the bits and strides of the first replica or term of its part, or of the last that had
  // others, becomes a copy that shares its storage, as long as nobody else holds either: nobody but
  // `holders`, counted by tensors. One that has bits of its own stays as it is.
  // @param i hosted rank, ascending for each output
  void settle(const Spec& spec, size_t output, size_t i, at::Tensor& local, size_t holders);

 private:
  const Comm& comm_;
  struct Kept {
    at::Tensor first, last;
  };
  std::map<std::pair<size_t, int64_t>, Kept> kept_;  // by output and position
};

}  // namespace lockstep
