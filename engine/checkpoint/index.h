// SPDX-License-Identifier: Apache-2.0
// The index of a checkpoint: which file has which piece of which tensor, and their digests.
#pragma once
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"

namespace lockstep::dcp {

inline constexpr const char* kIndexName = "model.safetensors.index.json";

struct IndexPiece {
  SavedPiece piece;
  std::string digest;  // of the piece, in hex; empty: nobody has said
};
struct IndexTensor {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  std::vector<IndexPiece> pieces;
};
struct Index {
  int64_t generation = 0;  // of the files that belong to it
  std::string digest;      // of all that it says; empty: there is but one file
  Metadata metadata;
  std::vector<IndexTensor> tensors;  // by name
};

// In place of the folder's old one, in one move. Throws Error.
void write_index(const std::string& folder, const Index& index);
// Of a folder, one of Hugging Face's, or a file. Throws Error that says what is wrong.
Index read_index(const std::string& path);
// The name of the file that a rank writes, of so many.
std::string file_of(int64_t generation, int64_t rank, int64_t ranks);
// The greatest of the files in the folder, those of a save that did not end included; 0: there are none.
int64_t last_generation(const std::string& folder);
// Removes the files of all others.
void keep_generation(const std::string& folder, int64_t generation);

std::string digest_of(const at::Tensor& piece);
// In a file's metadata, before a tensor's name: its digest.
inline constexpr const char* kDigestOf = "digest of ";
// Null: there is none.
const IndexTensor* find_tensor(const Index& index, const std::string& name);
// Throws Error where it is none and cannot be made.
void make_folder(const std::string& folder);

}  // namespace lockstep::dcp
