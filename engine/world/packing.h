// SPDX-License-Identifier: Apache-2.0
// Posts of ranks as bytes, for processes that share no memory but run the same program.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "engine/world/board.h"

namespace lockstep {

// Changes with each bit of the text.
uint64_t checksum(std::string_view text);

class Packer {
 public:
  void number(int64_t value);
  void text(std::string_view value);
  void tensor(const at::Tensor& value);  // dtype, sizes and elements in row-major order
  // For a process that hosts these ranks, ascending: what they are asked, and what is sent to them.
  void posted(const Posted& value, const std::vector<int64_t>& ranks);

  std::string take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Takes what was packed, in the same order. Throws Broken where the bytes end.
class Unpacker {
 public:
  explicit Unpacker(at::Tensor bytes) : bytes_(std::move(bytes)) {}
  bool done() const { return at_ == bytes_.numel(); }

  int64_t number();
  std::string text();
  at::Tensor tensor();  // a part of the bytes, which live as long as it does
  Posted posted();

 private:
  const char* take(int64_t bytes);

  at::Tensor bytes_;
  int64_t at_ = 0;
};

}  // namespace lockstep
