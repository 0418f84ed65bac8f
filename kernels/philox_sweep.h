// SPDX-License-Identifier: Apache-2.0
// Which Philox blocks a local tensor needs: element -> (thread, block, lane) in closed form, gathered into
// batches of blocks and the places that their lanes go to. No values are computed here.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/philox_words.h"
#include "kernels/stream_image.h"

namespace lockstep {

// One kernel launch: it serves the elements [first, first + count) of the stream. Thread t's blocks are
// philox(seed, subsequence + t, counter), then counter + 1, …
struct PhiloxLaunch {
  int64_t first, count, threads;
  uint64_t counter;          // generator offset / 4
  uint64_t subsequence = 0;  // of thread 0
};

// What fills a tensor: launches in the order of their elements. A thread takes `width` consecutive elements
// at a time, and for them one block (two where the width is 8; words 2 and 3 of it unused where it is 2).
// Width 1 is the grid-stride loop of TensorIterator: element j of a launch is lane (j / threads) % lanes of
// block j / threads / lanes of thread j % threads.
struct PhiloxSweep {
  uint64_t seed;
  std::vector<PhiloxLaunch> launches;
  int64_t width;
  BlockFunction forged = nullptr;  // in place of philox; not on a GPU
};

// Blocks of a batch, and where their lanes go. Grid stride: `rows` times `width` consecutive blocks; lane l
// of block i of row r goes to offset[l] + i * stride + r * row_stride.
struct LaneSegment {
  int32_t block, width, rows;
  uint32_t lanes;  // a bit for each lane that is wanted
  int64_t row_stride;
  int64_t offset[4];  // of the lanes wanted
};
// Vectors: word number `word` + i, counted over blocks, goes to offset + i * stride.
struct VectorSegment {
  int64_t word, count, offset;
};

struct PhiloxBatch {
  PhiloxWords words;  // counters and subsequences
  int64_t count = 0;
  int64_t stride = 1;   // in local memory, along a run
  int64_t block_words;  // vectors: the elements of a block
  // One of the two is empty.
  std::vector<LaneSegment> segments;
  std::vector<VectorSegment> vectors;
};

// Law: the batches name each element of the image once, with the block and lane that the plan gives it. Where
// blocks serve two or more of the image's elements (on average), each block occurs once; else some occur for
// each of their elements. Time and memory are proportional to the image, not to the stream.
// @pre lanes is 4 or 2; every element of the image lies in a launch
void sweep(const PhiloxSweep& plan, const StreamImage& image, int lanes,
           const std::function<void(PhiloxBatch&)>& flush);

// The number of different blocks that the image needs: what sharding costs, beside the outputs themselves.
int64_t distinct_blocks(const PhiloxSweep& plan, const StreamImage& image, int lanes);

}  // namespace lockstep
