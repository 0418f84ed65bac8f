// SPDX-License-Identifier: Apache-2.0
// The bytes of a text, and the batches that training reads from them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::suites {

// The token before the first byte of every example; bytes are 0 to 255.
inline constexpr int64_t kBeginToken = 256;

// An empty path: the text that Lockstep ships, from where it was built or where it is installed. Throws Error
// with the path and the reason if the file cannot be read or is shorter than `least` bytes.
std::string read_text(const std::string& path, size_t least);

// Where example `index` of step `step` starts: a function of (seed, step, index) and the sizes alone, so that
// any data-parallel size sees the same global batches.
// @post 0 <= result <= text_size - sequence
size_t example_start(uint64_t seed, int64_t step, int64_t index, size_t text_size, int64_t sequence);

// tokens[i][j] is what stands before targets[i][j]. Both [batch, sequence] of int64.
struct Batch {
  at::Tensor tokens, targets;
};
// @pre text has at least `sequence` bytes
Batch make_batch(std::string_view text, uint64_t seed, int64_t step, int64_t batch, int64_t sequence);

}  // namespace lockstep::suites
