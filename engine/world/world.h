// SPDX-License-Identifier: Apache-2.0
// World: the ranks of a job, and which of them this process hosts. It does one thing, an exchange, and moves
// bits: whoever reduces does so locally, in rank order, so that every World gives the same bits. What
// collectives are made of it is in collectives.h.
#pragma once
#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/values/per_rank.h"
#include "engine/world/slab.h"
#include "engine/world/worlds.h"

namespace lockstep {

// Elements that one rank sends to, or receives from, one of its group; itself included, if it likes.
struct Parcel {
  int64_t place = 0;  // of the other one, in the group
  // Sent: the elements. Received: where they go, or, if `arrived` takes them, any of their form.
  Slab slab;
  at::Tensor tensor() const { return slab.tensor(); }
};

// What one hosted rank asks for. Law: what a lists as sent to b and what b lists as received from a are as
// many parcels, in one order, of the same dtypes and sizes; both know them from the Layout.
struct Part {
  const Group* group = nullptr;  // outlives the exchange; a rank that nothing is sent to takes part too
  std::vector<Parcel> sent, received;
};

// One collective, for all hosted ranks that take part.
struct Exchange {
  const char* op;  // "all_gather", …: a literal. All ranks of a group name the same
  PerRank<Part> parts;
  // If set, nothing is written: each parcel is handed over instead, those of one part in the order in which
  // it lists them. Read it during the call only: it may be the sender's own.
  std::function<void(size_t part, size_t parcel, const at::Tensor& arrived)> arrived;
};

// An exchange that has begun. Until wait() returns, what it sends must not be written, and what it receives
// neither written nor read.
class [[nodiscard]] Work {
 public:
  // `finish` blocks until all has arrived and all that is sent may be written again.
  Work(const char* op, std::function<void()> finish) : op_(op), finish_(std::move(finish)) {}
  Work(Work&& other) noexcept : op_(other.op_), finish_(std::exchange(other.finish_, nullptr)) {}
  Work& operator=(Work&&) = delete;
  // Throws Error if nobody waited, unless an exception is on its way already.
  ~Work() noexcept(false);

  // Throws Error if it has been waited for before.
  void wait();
  // The same, with `next` at the end of its wait, when it holds nothing any more of what it sent.
  Work then(std::function<void()> next) &&;
  // The same, with `run` for its wait, which is given what waits, to be called once.
  Work around(std::function<void(const std::function<void()>& finish)> run) &&;

 private:
  const char* op_;
  std::function<void()> finish_;
};

class Library;

class World {
 public:
  World(std::string name, int64_t size, std::vector<int64_t> hosted, c10::Device device = c10::kCPU)
      : name_(std::move(name)), size_(size), hosted_(std::move(hosted)), device_(device) {}
  virtual ~World() = default;

  // Hosts this process's ranks of the World that torchrun, mpirun or srun started: `ranks_each` in each of
  // its processes, which meet at MASTER_ADDR and MASTER_PORT and check all collectives first. A process that
  // is not heard for `patience` is lost. Throws Error that says what the environment lacks, or which process
  // does not come. All processes make as many Worlds, in the same order.
  static WorldPtr from_environment(int64_t ranks_each = 1,
                                   std::chrono::milliseconds patience = std::chrono::minutes(10));

  const std::string& name() const { return name_; }  // "local", "thread", later "gloo", "nccl"
  int64_t size() const { return size_; }
  // The ranks this process hosts, ascending.
  const std::vector<int64_t>& hosted() const { return hosted_; }
  // Where the tensors are that it moves.
  c10::Device device() const { return device_; }

  // Begins an exchange. Ranks of one group begin theirs in the same order; they may wait in any. Throws
  // Error, here or from wait(), that names op and ranks if they ask for different exchanges, or one does not
  // come.
  // @post after wait(), every parcel received has the bits of the one sent. A group has met then, even where
  // none is sent: an exchange of nothing is a barrier.
  virtual Work exchange(Exchange asked) = 0;
  // Reduces across ranks instead, in an order of its own, what it can; null: everything is folded.
  virtual Library* library() { return nullptr; }

 private:
  std::string name_;
  int64_t size_;
  std::vector<int64_t> hosted_;
  c10::Device device_;
};

// "f32[2, 3]"
std::string form(const at::Tensor& tensor);

// Whether Worlds look for a reader or writer of what is in flight, which costs a pass over it: LocalWorld
// then fills what is to be received with bits that nobody sends, and finds what was written too early when it
// is waited for. On if the environment has LOCKSTEP_CHECK_WORLDS, as in tests, or as set here.
inline std::atomic<bool> checks_in_flight = std::getenv("LOCKSTEP_CHECK_WORLDS") != nullptr;

}  // namespace lockstep
