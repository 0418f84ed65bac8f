// SPDX-License-Identifier: Apache-2.0
// Recording: what a plain run did, op by op, in the terms of the engine's Timeline: the ops that reach a
// kernel below autograd, forward and backward, with the memory that each read and wrote. Values stay readable
// as they were.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>
#include <c10/util/accumulate.h>

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/values/spec.h"
#include "oracle/program/program.h"
#include "oracle/program/schema.h"

namespace lockstep::oracle {

// A tensor as memory at one time: it names a value even after the tensor object is gone. The epoch counts the
// in-place writes to the storage. Two windows are equal exactly if they read the same elements at the same
// time.
struct Window {
  c10::Storage storage;  // none: an undefined tensor
  int64_t offset = 0;
  at::DimVector shape, stride;
  c10::ScalarType dtype = c10::ScalarType::Float;
  int64_t epoch = 0;
  bool number = false;  // a number that libtorch wrapped, which promotes dtypes as numbers do

  bool defined() const { return static_cast<bool>(storage); }
  const c10::StorageImpl* id() const { return storage.unsafeGetStorageImpl(); }
  int64_t numel() const { return c10::multiply_integers(shape); }
  // Whether it is of a ZeroTensor, which has no memory.
  bool zeros() const { return defined() && storage.data() == nullptr && numel() > 0; }
  bool operator==(const Window& other) const;
};
// A storage between two writes: what a window reads from.
struct Moment {
  const c10::StorageImpl* storage;
  int64_t epoch;
  bool operator==(const Moment&) const = default;
};
struct MomentHash {
  size_t operator()(const Moment& moment) const {
    return std::hash<const void*>()(moment.storage) * 31 + static_cast<size_t>(moment.epoch);
  }
};

// At epoch 0.
Window window_of(const at::Tensor& tensor);
// The elements of another storage that a window names.
at::Tensor tensor_in(const c10::Storage& storage, const Window& window);

// Two names of one view: _reshape_alias is recorded as view.
inline constexpr const char* kView = "aten::view";
inline constexpr const char* kReshapeAlias = "aten::_reshape_alias";

struct RecordedOp {
  const Operator* op = nullptr;
  std::vector<c10::IValue> args;         // tensors are None
  std::vector<int64_t> tensors_per_arg;  // -1: not a tensor argument; else how many `inputs` it took
  std::vector<Window> inputs;            // as they were before the op, undefined ones included
  std::vector<Window> results;           // returned tensors, flattened
  std::vector<size_t> written;           // inputs that the op writes to
  std::optional<Generator> stream;       // before a random op
  bool inner = false;        // of a composite op or a backward pass, whose tensors nobody else may hold
  bool in_backward = false;  // of a backward pass, whose results the engine moves to where gradients belong
  // Its result is the recorded one of another op, whose loops over so many terms may round otherwise: the
  // copy of an out variant, the root of a norm.
  std::optional<double> terms_of_loop;
  c10::Device device = c10::kCPU;  // whose kernel it was
  SpecPtr placed = nullptr;        // of a factory that does not draw: where the Program says that it lies
  std::optional<Target> target;    // of a redistribution that the Program asks for: to the plain run a copy
  // Of gradients of passes, added up from the left, which an engine adds up in an order of its own.
  bool sums_passes = false;
};

// Values that left the tensors on a mesh, and are plain from there on; or plain ones that became such a
// tensor.
struct Crossing {
  std::string op;           // by which the engine says what left; "" of what came back
  SpecPtr back;             // how what came back is placed
  SpecPtr pends = nullptr;  // how what left lies, if it is the terms of a value that left
  size_t before = 0;        // of which op of the recording
  std::vector<Window> from{}, to{};
  // What left, or the terms of what came back, of other values, or terms, than those of the recording.
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& from)> values{};
};

class Recording {
 public:
  c10::Device device =
      c10::kCPU;  // where the plain run has its tensors; what is read of them is in the host's memory
  std::vector<RecordedOp> ops;
  std::vector<Crossing> crossings;
  std::function<void(const RecordedOp&)> done;  // called after each op, before it stands in `ops`

  // The window of a tensor as it is now; of a tensor that was written to, at the last epoch.
  Window window(const at::Tensor& tensor) const;
  // The value as it was at the window's epoch. Does not own history.
  at::Tensor read(const Window& window) const;
  // Of which storage a write is about to happen: keeps the values readable, and begins the next epoch.
  void freeze(const c10::Storage& storage);
  // How many windows of what has ended hold the storage.
  int64_t holds(const c10::Storage& storage) const;
  void add_redistribution(const at::Tensor& from, const at::Tensor& to, const Target& target);
  // The sum of what passes of accumulation have left, of each its own tensor: one op, whatever it is made of.
  // @pre at least one
  at::Tensor add_up(const std::vector<at::Tensor>& passes);
  // At this time, between these tensors.
  void add_crossing(Crossing crossing, const std::vector<at::Tensor>& from,
                    const std::vector<at::Tensor>& to);

 private:
  std::unordered_map<const c10::StorageImpl*, int64_t> epochs_;
  std::unordered_map<Moment, c10::Storage, MomentHash> frozen_;
  mutable std::unordered_map<Moment, c10::Storage, MomentHash> brought_;  // from a device, what has been read
};

// While alive, the plain ops of this thread are recorded, nested ones only within ops that decompose above
// autograd.
class RecordingScope {
 public:
  explicit RecordingScope(Recording& recording);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
  // After what is recorded, which goes on where it cannot be: throws why, an Error where a tensor is not
  // dense.
  void check() const;

 private:
  uint64_t handle_;
};

}  // namespace lockstep::oracle
