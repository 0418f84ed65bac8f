// SPDX-License-Identifier: Apache-2.0
// Files of tensors: Hugging Face's safetensors. A length, a header of JSON, and the elements, nothing between
// them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::dcp {

struct FileTensor {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // bytes of the file
};

struct FileHeader {
  std::vector<FileTensor> tensors;  // as they follow each other in the file
  std::map<std::string, std::string> metadata;
};

// What the file says it has: tensors that follow each other without a gap or an overlap and fill it, each of
// as many bytes as its dtype and shape need. Throws Error that names the file and the tensor for everything
// else; it reserves no memory by a stranger's word.
FileHeader read_header(const std::string& path);

// The elements of one of them, dense. Throws Error that names file and tensor if they cannot be read.
at::Tensor read_tensor(const std::string& path, const FileTensor& tensor);

struct NamedTensor {
  std::string name;
  at::Tensor value;  // plain, on the CPU
};

enum class Existing { kReplaced, kRefused };  // a file of this name; the former in one move

// Writes the file and waits until the disk has it; tensors lie in this order, those of wide elements first.
// Throws Error that names
// the file, and the tensor whose dtype safetensors has no name for, or whose name occurs twice; what it has
// begun to write is gone then.
void write_file(const std::string& path, const std::vector<NamedTensor>& tensors,
                const std::map<std::string, std::string>& metadata = {},
                Existing existing = Existing::kReplaced);

// Whether safetensors has a name for it.
bool has_name(at::ScalarType dtype);

// All of a file of text. Throws Error for one that is longer.
std::string read_text(const std::string& path, int64_t most);

}  // namespace lockstep::dcp
