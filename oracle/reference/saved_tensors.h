// SPDX-License-Identifier: Apache-2.0
// What the files of a checkpoint say, read by their published form alone: safetensors (a length, JSON, the
// elements) and an index of pieces.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace lockstep::oracle {

struct SavedTensors {
  std::map<std::string, at::Tensor> values;  // whole, put together from their pieces
  std::map<std::string, at::Tensor> times;   // of each element, how often files have it
  int64_t unlisted = 0;                      // tensors of files that the index does not name
};

// @pre an index and files that are whole. Throws Error for others
SavedTensors read_saved(const std::string& folder);

}  // namespace lockstep::oracle
