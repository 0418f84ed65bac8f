// SPDX-License-Identifier: Apache-2.0
#include "oracle/plain/recording.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <cstring>

#include "engine/stream/random_source.h"
#include "engine/values/error.h"

namespace lockstep::oracle {
namespace {

// Ops that move no value and make no new one: the engine may or may not see them, and neither side counts
// them.
bool is_silent(const Operator& op) {
  return op.name == "aten::detach" || op.name == "aten::detach_" || op.name == "aten::alias" ||
         op.name == "aten::lift_fresh" || (!op.returns_tensors && !op.writes);
}

struct Frame {
  const Operator* op = nullptr;
  int backward = -1;  // of a node: of which backward pass
  bool counted = false, decomposes = false;
  bool is_in_place = false;  // see adds_zeros_in_place
  RecordedOp entry;
};

struct State {
  Recording* recording = nullptr;
  std::vector<Frame> frames;
  int64_t blocked = 0;         // frames of ops that do not decompose above autograd
  std::exception_ptr problem;  // the first
};

thread_local std::unique_ptr<State> tls_state;

// Names of schemas live in the schemas, so their addresses name the operators. Null for a node of the
// backward pass, which is no operator.
const Operator* operator_of(const at::RecordFunction& fn) {
  thread_local std::unordered_map<const char*, const Operator*> known;
  const auto found = known.find(fn.name());
  if (found != known.end()) return found->second;
  const auto name = fn.operator_name();
  const auto handle = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  return handle ? known.emplace(fn.name(), &find_operator(*handle)).first->second : nullptr;
}

bool below_autograd() {
  return c10::impl::tls_local_dispatch_key_set().excluded_.has(c10::DispatchKey::AutogradFunctionality);
}

// Some in-place ops save a copy of what they overwrite for their backward; the engine sees that copy as an
// op.
bool is_saved_copy(const State& state, const Operator& op) {
  return state.blocked == 1 && !state.frames.empty() && state.frames.back().counted &&
         state.frames.back().op->writes && op.name == "aten::clone" && !below_autograd();
}

void add_input(RecordedOp& entry, const Recording& recording, const at::Tensor& tensor, bool written) {
  if (written && tensor.defined()) entry.written.push_back(entry.inputs.size());
  entry.inputs.push_back(recording.window(tensor));
}

void add_argument(RecordedOp& entry, const Recording& recording, const c10::IValue& value,
                  const ArgInfo& info) {
  const size_t before = entry.inputs.size();
  if (info.kind == ArgKind::kTensor) {
    add_input(entry, recording, value.isTensor() ? value.toTensor() : at::Tensor(), info.written);
  } else if (info.kind == ArgKind::kTensorList && value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) add_input(entry, recording, t, info.written);
  } else if (info.kind == ArgKind::kTensorList && value.isList()) {
    for (const c10::IValue& v : value.toListRef())
      add_input(entry, recording, v.isTensor() ? v.toTensor() : at::Tensor(), info.written);
  } else {
    entry.args.push_back(value);
    entry.tensors_per_arg.push_back(info.kind == ArgKind::kTensorList ? 0 : -1);
    return;
  }
  entry.args.emplace_back();
  entry.tensors_per_arg.push_back(static_cast<int64_t>(entry.inputs.size() - before));
}

// Between the nodes of a backward pass: what libtorch itself does with gradients, and no formula does.
bool is_between_nodes(const State& state) {
  const int backward = torch::autograd::get_current_graph_task_id();
  const bool in_node = std::any_of(state.frames.begin(), state.frames.end(),
                                   [&](const Frame& frame) { return frame.backward == backward; });
  return backward != -1 && !in_node;
}

// libtorch adds a gradient up in place where nobody else holds it, and the recording does: then it makes a
// copy of what it adds zeros to that it knows, and keeps -0, which becomes 0 in place. Whether it is the only
// one that holds it: beside it the sum, these inputs and the reference here do.
bool adds_zeros_in_place(const State& state, const Operator& op, c10::ArrayRef<const c10::IValue> inputs) {
  if (op.name != "aten::add.Tensor" || !is_between_nodes(state) || at::GradMode::is_enabled()) return false;
  const at::Tensor old = inputs[0].toTensor();
  if (!inputs[1].toTensor()._is_zerotensor() || old._is_zerotensor()) return false;
  if (!old.is_non_overlapping_and_dense() || old.use_count() > 3) return false;
  return static_cast<int64_t>(old.storage().use_count()) - state.recording->holds(old.storage()) == 1;
}

void lose_signs_of_zeros(const at::Tensor& tensor) {
  const at::DisableRecordFunctionGuard unseen;
  const at::NoGradGuard no_grad;
  tensor.masked_fill_(at::eq(tensor, 0), 0);
}

RecordedOp begin_entry(const Operator& op, c10::ArrayRef<const c10::IValue> args, Recording& recording) {
  RecordedOp entry;
  entry.op = &op;
  entry.device = recording.device;
  size_t count = args.size();
  // A view that names its strides too. reshape takes one or the other by the strides of its input, which a
  // redistribution may change.
  if (op.name == kReshapeAlias) {
    entry.op = &find_operator(kView);
    count = entry.op->args.size();
  }
  entry.args.reserve(count);
  for (size_t i = 0; i < count; ++i) add_argument(entry, recording, args[i], op.args[i]);
  if (op.random) entry.stream = generator();
  for (size_t k = 0; k < entry.written.size(); ++k) {  // once, also where it writes to several parts
    const auto& storage = entry.inputs[entry.written[k]].storage;
    const auto is_it = [&](size_t i) { return entry.inputs[i].id() == storage.unsafeGetStorageImpl(); };
    if (std::none_of(entry.written.begin(), entry.written.begin() + static_cast<ptrdiff_t>(k), is_it))
      recording.freeze(storage);
  }
  return entry;
}

// The copy is made before the op around it writes, whose epoch has begun already.
void before_write(RecordedOp& copy, const RecordedOp& writer) {
  for (Window& read : copy.inputs)
    for (const size_t i : writer.written)
      if (read.id() == writer.inputs[i].id()) read.epoch = writer.inputs[i].epoch;
}

// Keeps what it throws, which libtorch would swallow, and would call on_end all the same.
template <class Record>
void attempt(State& state, Record record) {
  if (state.problem) return;
  try {
    record();
  } catch (...) {
    state.problem = std::current_exception();
  }
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  State& state = *tls_state;
  Frame frame{.op = operator_of(fn), .entry = {}};
  if (fn.scope() == at::RecordScope::BACKWARD_FUNCTION)
    frame.backward = torch::autograd::get_current_graph_task_id();
  if (frame.op != nullptr) {
    const Operator& op = *frame.op;
    frame.decomposes = op.decomposes(state.recording->device);
    frame.counted = !is_silent(op) && ((state.blocked == 0 && !frame.decomposes) || is_saved_copy(state, op));
    attempt(state, [&] {
      if (!frame.counted) return;
      frame.is_in_place = adds_zeros_in_place(state, op, fn.inputs());
      frame.entry = begin_entry(op, fn.inputs(), *state.recording);
    });
    frame.entry.in_backward = torch::autograd::get_current_node() != nullptr;
    frame.entry.inner = !state.frames.empty() || frame.entry.in_backward;
    if (frame.counted && state.blocked > 0) before_write(frame.entry, state.frames.back().entry);
    if (!frame.decomposes) ++state.blocked;
  }
  state.frames.push_back(std::move(frame));
  return nullptr;
}

void end_entry(const at::RecordFunction& fn, RecordedOp entry, Recording& recording) {
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : fn.outputs()) append_tensors(results, value);
  for (const at::Tensor& t : results) entry.results.push_back(recording.window(t));
  if (recording.done) recording.done(entry);
  recording.ops.push_back(std::move(entry));
}

void on_end(const at::RecordFunction& fn, at::ObserverContext*) {
  State& state = *tls_state;
  Frame frame = std::move(state.frames.back());
  state.frames.pop_back();
  if (frame.op == nullptr) return;
  if (!frame.decomposes) --state.blocked;
  if (frame.is_in_place) attempt(state, [&] { lose_signs_of_zeros(fn.outputs().at(0).toTensor()); });
  if (frame.counted) attempt(state, [&] { end_entry(fn, std::move(frame.entry), *state.recording); });
}

}  // namespace

bool Window::operator==(const Window& other) const {
  return id() == other.id() && epoch == other.epoch && offset == other.offset && dtype == other.dtype &&
         shape == other.shape && stride == other.stride;
}

at::Tensor tensor_in(const c10::Storage& storage, const Window& window) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage),
                                                         c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         c10::scalarTypeToTypeMeta(window.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(window.shape, window.stride, window.offset);
  if (window.number) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

Window window_of(const at::Tensor& tensor) {
  Window w;
  if (!tensor.defined()) return w;
  LOCKSTEP_CHECK(tensor.has_storage(), "[record] a tensor of layout ", tensor.layout(), " and shape ",
                 tensor.sizes(), " has no elements in memory that could be compared; keep it dense");
  w.storage = tensor.storage();
  w.offset = tensor.storage_offset();
  w.shape = at::DimVector(tensor.sizes());
  w.stride = at::DimVector(tensor.strides());
  w.dtype = tensor.scalar_type();
  w.number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  return w;
}

Window Recording::window(const at::Tensor& tensor) const {
  Window w = window_of(tensor);
  const auto epoch = epochs_.find(w.id());
  if (epoch != epochs_.end()) w.epoch = epoch->second;
  return w;
}

// The bytes of a storage, in new memory of the host.
static c10::Storage copied(const c10::Storage& storage) {
  const auto bytes = static_cast<int64_t>(storage.nbytes());
  const at::Tensor copy = at::detail::empty_cpu({bytes}, c10::ScalarType::Byte);
  if (bytes == 0) return copy.storage();
  if (storage.device().is_cpu()) {
    std::memcpy(copy.mutable_data_ptr(), storage.data(), storage.nbytes());
    return copy.storage();
  }
  const at::DisableRecordFunctionGuard unseen;
  const auto there = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA), caffe2::TypeMeta::Make<uint8_t>());
  there.unsafeGetTensorImpl()->set_sizes_contiguous({bytes});
  copy.copy_(there);
  return copy.storage();
}

at::Tensor Recording::read(const Window& window) const {
  if (!window.defined()) return {};
  if (window.zeros())
    return at::empty_strided(window.shape, window.stride, at::TensorOptions(window.dtype)).zero_();
  const Moment then{window.id(), window.epoch};
  const auto frozen = frozen_.empty() ? frozen_.end() : frozen_.find(then);
  if (frozen != frozen_.end()) return tensor_in(frozen->second, window);
  if (window.storage.device().is_cpu()) return tensor_in(window.storage, window);
  const auto found = brought_.find(then);
  return tensor_in(
      found != brought_.end() ? found->second : brought_.emplace(then, copied(window.storage)).first->second,
      window);
}

int64_t Recording::holds(const c10::Storage& storage) const {
  const auto in = [&](const auto& windows) {
    return std::count_if(windows.begin(), windows.end(), [&](const Window& w) {
      return w.defined() && w.id() == storage.unsafeGetStorageImpl();
    });
  };
  int64_t count = 0;
  for (const RecordedOp& op : ops) count += in(op.inputs) + in(op.results);
  for (const Crossing& c : crossings) count += in(c.from) + in(c.to);
  return count;
}

void Recording::freeze(const c10::Storage& storage) {
  int64_t& epoch = epochs_[storage.unsafeGetStorageImpl()];
  frozen_.emplace(Moment{storage.unsafeGetStorageImpl(), epoch}, copied(storage));
  ++epoch;
}

void Recording::add_redistribution(const at::Tensor& from, const at::Tensor& to, const Target& target) {
  RecordedOp op;
  op.op = &find_operator("aten::clone");
  op.args = {c10::IValue(), c10::IValue()};
  op.tensors_per_arg = {1, -1};
  op.inputs = {window(from)};
  op.results = {window(to)};
  op.target = target;
  op.device = device;
  ops.push_back(std::move(op));
}

at::Tensor Recording::add_up(const std::vector<at::Tensor>& passes) {
  const at::DisableRecordFunctionGuard unseen;
  const at::NoGradGuard no_grad;
  auto sum = passes.at(0).clone();
  for (size_t i = 1; i < passes.size(); ++i) sum = sum + passes[i];
  RecordedOp op;
  op.op = &find_operator("aten::stack");  // libtorch's own have no sum of a list
  op.args = {c10::IValue()};
  op.tensors_per_arg = {std::ssize(passes)};
  for (const at::Tensor& pass : passes) op.inputs.push_back(window(pass));
  op.results = {window(sum)};
  op.sums_passes = true;
  op.device = device;
  ops.push_back(std::move(op));
  return sum;
}

void Recording::add_crossing(Crossing crossing, const std::vector<at::Tensor>& from,
                             const std::vector<at::Tensor>& to) {
  crossing.before = ops.size();
  for (const at::Tensor& t : from) crossing.from.push_back(window(t));
  for (const at::Tensor& t : to) crossing.to.push_back(window(t));
  crossings.push_back(std::move(crossing));
}

RecordingScope::RecordingScope(Recording& recording) {
  if (tls_state != nullptr) throw Broken("[record] a RecordingScope within a RecordingScope");
  tls_state = std::make_unique<State>();
  tls_state->recording = &recording;
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(on_start, on_end)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

void RecordingScope::check() const {
  if (tls_state->problem) std::rethrow_exception(tls_state->problem);
}

RecordingScope::~RecordingScope() {
  at::removeCallback(handle_);
  tls_state.reset();
}

}  // namespace lockstep::oracle
