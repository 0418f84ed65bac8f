// SPDX-License-Identifier: Apache-2.0
// Checkpoints: tensors by name, saved as ranks hold them, without a byte of theirs moving, and loaded into
// any other placement, mesh or number of ranks. A folder of safetensors files, one for each rank that has
// something, and an index beside them as Hugging Face's (model.safetensors.index.json), which adds where each
// piece belongs and its digest.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "engine/world/worlds.h"

namespace lockstep::dcp {

using Metadata = std::map<std::string, std::string>;

// Saves DTensors, of meshes in one World, and plain tensors, which every process has alike. Each element is
// written once, by the first rank that has it. All processes of the World call it, with the same names in the
// same order; the folder is one that all of them see, and is made. The index is put in place last, in one
// move: until then the folder's old checkpoint is there, and whole, after that the new one, whoever is killed
// when. Throws Error, in all processes if in one, for a tensor that pends (redistribute it first), a name
// that occurs twice, and for what write_file throws for; then the old checkpoint stands.
// @param world of plain tensors alone, where several processes save
// One save at a time: of a folder in which others save it is an Error.
void save(const std::string& folder, const std::vector<NamedTensor>& state, const Metadata& metadata = {},
          const WorldPtr& world = nullptr);

// Makes the folder, and throws Error where save() could not write in it: before hours of training.
void prepare(const std::string& folder, const WorldPtr& world = nullptr);

enum class Extra { kIgnored, kRefused };

// Writes what a checkpoint has of these names into the tensors, whatever their placements, each rank what it
// holds, as an op in place does. `path`: a folder that save() has written, one of Hugging Face's (an index,
// or one model.safetensors), or a file. Pieces of which no rank here needs anything are not read. Throws
// Error that names the tensor, in all processes if in one, and nothing has been written then: where one is
// missing, of another shape or dtype, or not what was saved; with kRefused, where the checkpoint has others.
// Also where processes find different checkpoints, or files gone, since others save meanwhile.
// @returns what was saved beside the tensors
Metadata load(const std::string& path, const std::vector<NamedTensor>& state, Extra extra = Extra::kRefused,
              const WorldPtr& world = nullptr);

// What a checkpoint has, without its elements.
struct SavedPiece {
  std::string file, key;  // in it
  std::vector<int64_t> start, shape;
};
struct SavedTensor {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  std::vector<SavedPiece> pieces;
};
struct Contents {
  std::vector<SavedTensor> tensors;  // by name
  Metadata metadata;
};
// Throws Error that says what is wrong with index or files.
Contents contents(const std::string& path);
// Reads all of its elements, and writes none. Throws Error that names the first piece that is not there, or
// not what was saved. @returns how many pieces have a digest: of the others nobody has said what was saved
int64_t verify(const std::string& path);

}  // namespace lockstep::dcp
