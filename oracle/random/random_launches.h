// SPDX-License-Identifier: Apache-2.0
// How stock libtorch launches the kernels of its random operators: the blocks, the order in which a kernel
// numbers the elements, and the words that the generator is advanced by. Values are drawn elsewhere.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/stream/random_call.h"

namespace lockstep::oracle {

// One launch of a kernel over a box of the tensor.
struct Launch {
  struct Axis {
    int64_t size = 0;
    int64_t stride = 0;  // in elements of memory
    bool operator==(const Axis&) const = default;
  };
  std::vector<Axis> axes;  // fastest first
  int64_t first = 0;       // memory offset of the box, in elements
  uint64_t offset = 0;     // of the generator when the launch starts, relative to the call
  int64_t count() const;
  // Where the kernel's element `index` lies, in elements of memory.
  int64_t memory_of(int64_t index) const;
};

struct Launches {
  std::vector<Launch> launches;  // more than one where a tensor is too large for 32-bit indexing
  uint64_t advance = 0;          // of the generator by the whole call; 0 for a tensor without elements
};

int64_t numel(const RandomCall& call);
// Whether the call's elements fill a piece of memory, in any order.
bool is_dense(const RandomCall& call);
int64_t ceil_divide(int64_t a, int64_t b);

// Threads of a block, and blocks, of a distribution kernel over `count` elements.
constexpr int64_t kBlock = 256;
int64_t grid_of(int64_t count, const DeviceModel& device);
// Values that a thread of the call's kernel takes from one curand4: 4, or 2 where each needs two words.
int64_t unroll_of(const RandomCall& call);
// Words that a distribution kernel over `count` elements reserves for each thread.
uint64_t reserved(int64_t count, int64_t unroll, const DeviceModel& device);

// The launches of an ordinary distribution kernel (uniform, normal, random integers, …): by TensorIterator,
// in memory order, merged where memory is continuous, split where it is too large.
Launches plan_launches(const RandomCall& call, const DeviceModel& device);
// The one launch of a kernel that numbers elements as in a contiguous tensor.
Launch logical_launch(const RandomCall& call);
// The one launch of bernoulli_(Tensor): row-major, after its dimensions were exchanged towards falling
// strides. Stock exchanges two only where no operand (the tensor, the probabilities) objects; a call's stride
// is that of a dense tensor in the order that both agree on.
Launch rearranged_launch(const RandomCall& call);
// How many elements a thread of the dropout kernel takes at once: 8, 4, 2, or 1 for the scalar kernel.
int64_t dropout_vector(const RandomCall& call);

}  // namespace lockstep::oracle
