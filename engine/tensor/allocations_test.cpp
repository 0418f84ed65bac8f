// SPDX-License-Identifier: Apache-2.0
// What a cached op allocates: its result and what ranks hold of it, as if they were made by hand.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "engine/tensor/dtensor_impl.h"
#include "engine/tensor/plain_guard.h"
#include "engine/tensor/testing.h"

namespace {

thread_local int64_t allocations = 0;

void* counted(std::size_t bytes, std::size_t alignment = 0) {
  ++allocations;
  bytes = std::max<std::size_t>(bytes, 1);
  auto* memory = alignment == 0
                     ? std::malloc(bytes)
                     : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Those of every library of this program.
void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace lockstep {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Op {
  const char* name;
  std::vector<Placement> placements;
  at::Tensor (*run)(const Tensors& x);
};
const Op kOps[] = {
    {"mm", {Shard{0}, Replicate{}}, [](const Tensors& x) { return at::mm(x[0], x[1]); }},
    {"add", {Shard{0}, Shard{0}}, [](const Tensors& x) { return at::add(x[0], x[1], 2); }},
    {"relu", {Shard{0}}, [](const Tensors& x) { return at::relu(x[0]); }},
};

// The second time, when all is known that is kept.
template <class F>
int64_t allocated(F&& f) {
  f();
  const auto before = allocations;
  f();
  return allocations - before;
}

struct Operands {
  Tensors distributed;
  std::vector<Tensors> locals;  // [rank]
};

Operands operands(const Op& op, int64_t ranks) {
  const auto mesh = init_device_mesh({ranks});
  Operands made;
  made.locals.resize(static_cast<size_t>(ranks));
  for (const auto& p : op.placements) {
    made.distributed.push_back(distribute_tensor(ramp({8, 8}), mesh, {p}));
    for (size_t r = 0; r < made.locals.size(); ++r)
      made.locals[r].push_back(local_tensors(made.distributed.back())[r]);
  }
  return made;
}

// The results of what ranks hold, put together; and the stack by which libtorch calls what is boxed.
at::Tensor by_hand(const Op& op, const Operands& on, const at::Tensor& like) {
  torch::jit::Stack boxed;
  boxed.reserve(4);
  boxed.emplace_back(like);
  PerRank<at::Tensor> locals;
  locals.reserve(on.locals.size());
  const PlainGuard guard;
  for (const auto& mine : on.locals) locals.push_back(op.run(mine));
  return make_dtensor(dtensor_impl(like)->spec(), dtensor_impl(like)->comm(), std::move(locals));
}

// Catches: a name that is put together, a key that is looked up by text, a list that is made for each call or
// for each rank.
TEST(Allocations, ACachedOpAllocatesWhatItGives) {
  for (const auto& op : kOps)
    for (const int64_t ranks : {1, 2, 4}) {
      const auto on = operands(op, ranks);
      const auto result = op.run(on.distributed);
      const auto hand = allocated([&] { by_hand(op, on, result); });
      EXPECT_LE(allocated([&] { op.run(on.distributed); }), hand) << op.name << " on " << ranks << " ranks";
      EXPECT_GT(hand, ranks) << "nothing is counted";
    }
}

}  // namespace
}  // namespace lockstep
