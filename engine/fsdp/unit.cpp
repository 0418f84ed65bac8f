// SPDX-License-Identifier: Apache-2.0
#include "engine/fsdp/unit.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <exception>

#include "engine/nn/boundary.h"
#include "engine/nn/checkpoint.h"
#include "engine/tensor/dtensor_impl.h"
#include "engine/values/error.h"

namespace lockstep::fsdp {
namespace {

void add(at::Tensor& sum, const at::Tensor& term) {
  if (sum.defined())
    sum.add_(term);
  else
    sum = term;
}

at::Tensor cast(const at::Tensor& tensor, std::optional<at::ScalarType> dtype) {
  return dtype && tensor.is_floating_point() ? tensor.to(*dtype) : tensor;
}

// Whether others have the tensor, or what it is a view of.
bool is_held(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.use_count() > 1 || (tensor.is_view() && tensor._base().use_count() > 1));
}

// What a call is given at its boundary is not to be written: the history of the caller's tensor would not
// know.
class Unwritten {
 public:
  explicit Unwritten(const nn::Tensors& inputs) : inputs_(inputs) {
    for (const auto& t : inputs_) versions_.push_back(version(t));
  }
  void check() const {
    for (size_t i = 0; i < inputs_.size(); ++i)
      LOCKSTEP_CHECK(version(inputs_[i]) == versions_[i],
                     "[fully_shard] a module has written in place to its input ", i,
                     ", of which a gradient passes; let it write to a copy");
  }

 private:
  static int64_t version(const at::Tensor& t) {
    const bool passes = at::GradMode::is_enabled() && t.defined() && t.requires_grad();
    return passes ? static_cast<int64_t>(t._version()) : 0;
  }
  const nn::Tensors inputs_;
  std::vector<int64_t> versions_;
};

}  // namespace

// ---- the lane ----

void Lane::enter_pass() {
  if (passes() > 0 && is_recomputing()) return;  // a part of that pass
  const auto id = torch::autograd::get_current_graph_task_id();
  if (!passes_.empty() && passes_.back().id == id) return;
  // As long as libtorch has the callback; then what a pass that failed has left is tidied.
  const auto runs = std::shared_ptr<void>(nullptr, [lane = weak_from_this()](void*) {
    if (const auto self = lane.lock()) self->tidy();
  });
  passes_.push_back({id, runs});
  torch::autograd::Engine::get_default_engine().queue_callback(
      [self = shared_from_this(), runs] { self->finish_pass(); });
}

void Lane::tidy() {
  try {
    passes();
  } catch (const std::exception&) {  // other ranks are lost, which whoever asks next is told
  }
}

size_t Lane::passes() {
  const auto before = passes_.size();
  while (!passes_.empty() && passes_.back().runs.expired()) passes_.pop_back();
  if (passes_.empty() && before > 0)
    for (auto* unit : units) unit->forget_pass();
  return passes_.size();
}

// A pass within another leaves it to that one.
void Lane::finish_pass() {
  passes();  // one within this one may have failed, and been caught
  passes_.pop_back();
  if (!passes_.empty()) return;
  try {
    for (auto* unit : units) unit->collect();
    if (reducing != nullptr) reducing->wait_for_reduction();
    for (auto* unit : units) unit->hand_over();
    for (auto* unit : units) unit->close();
  } catch (...) {
    for (auto* unit : units) unit->forget_pass();
    throw;
  }
}

// A unit's come while those within it run.
void Lane::note_gradients() const {
  for (const auto* unit : units) unit->note_gradients();
}

// ---- a unit ----

Unit::Unit(nn::Module& module, std::unique_ptr<DBuffer> buffer, std::vector<UnitParameter> parameters)
    : module_(&module), buffer_(std::move(buffer)), parameters_(std::move(parameters)) {
  lane->units = {this};
  show(&UnitParameter::sharded);
}

Unit::~Unit() {
  std::erase(lane->units, this);
  if (lane->reducing == this) lane->reducing = nullptr;
  try {
    if (gathering_) gathering_->wait();
    if (reducing_) reducing_->work.wait();
  } catch (const std::exception&) {  // other ranks are lost, which whoever asks next is told
  }
}

nn::Module& Unit::module() const {
  LOCKSTEP_CHECK(module_ != nullptr, "[fully_shard] the module of this handle has been destroyed");
  return *module_;
}

void Unit::agree() {
  for (auto& [paths, sharded, whole, learns] : parameters_) {
    if (sharded.requires_grad() == learns && whole.requires_grad() == learns) continue;
    learns = !learns;
    sharded.set_requires_grad(learns);
    whole.set_requires_grad(learns);
  }
}

void Unit::show(at::Tensor UnitParameter::*which) {
  agree();
  shown_ = which;
  if (module_ == nullptr) return;
  for (const auto& parameter : parameters_)
    for (const auto& path : parameter.paths) module_->set_parameter(path, parameter.*which, true);
}

void Unit::show_whole() {
  if (shown_ != &UnitParameter::whole) show(&UnitParameter::whole);
}

// Unless somebody still needs them whole.
void Unit::show_sharded() {
  if (calls_ == 0 && open_ == 0 && !by_hand_) show(&UnitParameter::sharded);
}

// Nobody has put another tensor there, or other memory into this one (set_data).
void Unit::check_shown() const {
  if (module_ == nullptr) return;
  for (size_t i = 0; i < parameters_.size(); ++i)
    for (const auto& path : parameters_[i].paths)
      LOCKSTEP_CHECK(
          module_->parameter(path).is_same(parameters_[i].*shown_) &&
              buffer_->has(i, parameters_[i].sharded) && buffer_->holds(parameters_[i].whole),
          "[fully_shard] the parameter '", path,
          "' has been replaced by another tensor, or its data by another's, which the buffer does not hold; "
          "write its values with copy_");
}

bool Unit::is_written() const {
  return buffer_ != nullptr && buffer_->is_gathered() && versions(&UnitParameter::whole) != landed_;
}

// What was written is lost, and the unit is as usable as before.
void Unit::check_not_written() {
  if (shown_ != &UnitParameter::whole || !is_written()) return;
  const auto now = versions(&UnitParameter::whole);
  const auto i = std::mismatch(now.begin(), now.end(), landed_.begin()).first - now.begin();
  by_hand_ = false;
  show_sharded();
  if (shown_ == &UnitParameter::sharded) release();
  throw Error(
      concat("[fully_shard] the parameter '", parameters_[static_cast<size_t>(i)].paths.front(),
             "' was written while it was gathered, which its parts do not see, so that it is lost; write it "
             "while it is cut"));
}

// Gradients come through calls of the module, or they are there since a pass that did not sync. One that did
// not is dropped.
void Unit::check_gradients() {
  if (has_unsynced_ || lane->passes() > 0) return;
  std::string strays;
  for (const auto& parameter : parameters_)
    if (std::exchange(parameter.whole.mutable_grad(), at::Tensor()).defined())
      strays += concat(strays.empty() ? "'" : ", '", parameter.paths.front(), "'");
  LOCKSTEP_CHECK(strays.empty(), "[fully_shard] a gradient has come to the gathered parameter ", strays,
                 " outside of a call of its module, so that nobody reduced it, and is dropped; use ",
                 "parameters in the module's forward alone");
}

Unit::Versions Unit::versions(at::Tensor UnitParameter::*which) const {
  Versions versions;
  for (const auto& parameter : parameters_)
    versions.push_back((parameter.*which).is_inference()
                           ? 0  // of which there are none
                           : static_cast<int64_t>((parameter.*which)._version()));
  return versions;
}

void Unit::watch(std::shared_ptr<HeldMemory> memory) {
  if (buffer_ != nullptr) buffer_->watch(std::move(memory));
}

void Unit::note_gradients() const {
  if (buffer_ == nullptr || !buffer_->is_watched()) return;
  for (const auto& parameter : parameters_)
    for (const auto& gradient : {parameter.whole.grad(), parameter.sharded.grad()})
      if (gradient.defined()) buffer_->note(require_dtensor(gradient, "fully_shard").locals());
}

void Unit::begin_gather() {
  if (buffer_ == nullptr) return;
  check_not_written();
  if (versions(&UnitParameter::sharded) != gathered_ || is_written()) release();
  if (buffer_->is_gathered() || gathering_) return;
  gathered_ = versions(&UnitParameter::sharded);
  gathering_.emplace(buffer_->gather());
}

void Unit::land() {
  if (!gathering_) return;
  gathering_->wait();
  gathering_.reset();
  landed_ = versions(&UnitParameter::whole);
}

void Unit::gather() {
  begin_gather();
  land();
  agree();
}

void Unit::release(int64_t among) {
  land();
  if (buffer_ != nullptr) buffer_->release(among);
}

void Unit::release_unless_needed(bool cut) {
  if (cut && calls_ == 0 && open_ == 0 && !by_hand_) release();
}

void Unit::begin_unshard() {
  check_gradients();
  check_shown();
  check_not_written();
  begin_gather();
  by_hand_ = true;
}

void Unit::finish_unshard() {
  if (!by_hand_) return;
  gather();
  show_whole();
}

void Unit::reshard() {
  check_gradients();
  check_shown();
  check_not_written();
  by_hand_ = false;
  show_sharded();
  if (calls_ == 0 && open_ == 0) release();
}

at::Tensor Unit::call(nn::Tensors inputs, const nn::Module::Forward& forward) {
  const auto self = shared_from_this();
  check_gradients();
  check_shown();
  check_not_written();
  if (lane->calls == 0 && lane->passes() == 0) lane->returned.reset();
  gather();
  if (is_recomputing() && at::GradMode::is_enabled()) prefetch_backward(ran_before_);  // and comes back now
  struct Call {
    explicit Call(Unit& u) : unit(u) {
      ++unit.calls_;
      ++unit.lane->calls;
      unit.show_whole();
    }
    ~Call() {
      --unit.lane->calls;
      const bool throws = std::uncaught_exceptions() > before;
      if (throws && unit.lane->calls == 0)
        for (auto* other : unit.lane->units) other->let_go(false);
      if (--unit.calls_ > 0) return;
      if (unit.reshards_after_forward()) unit.by_hand_ = false;
      unit.show_sharded();
      if (throws) unit.let_go(unit.reshards_after_forward());
    }
    Unit& unit;
    const int before = std::uncaught_exceptions();
  };
  at::Tensor output;
  bool held = false;
  {
    const Call within(*this);
    if (!is_recomputing())  // on the way back the next one is behind
      for (const auto& next : settings.forward_prefetch)
        if (const auto unit = next.lock()) unit->begin_gather();
    if (settings.policy.cast_forward_inputs)
      for (auto& input : inputs) input = cast(input, settings.policy.param_dtype);
    inputs = nn::at_boundary(
        std::move(inputs), [self](nn::Tensors&) { self->after_backward(); }, false);
    const Unwritten given(inputs);
    output = forward(std::move(inputs));
    held = is_held(output);  // also where it is an input, which `given` holds
    given.check();
    check_shown();
    check_not_written();
  }
  const bool goes_back = is_recomputing() && at::GradMode::is_enabled() && output.requires_grad();
  const bool is_needed = calls_ > 0 || open_ > 0 || goes_back;
  if (reshards_after_forward() && !is_needed && buffer_ != nullptr) {
    LOCKSTEP_CHECK(!buffer_->holds(output),
                   "[fully_shard] a module returns a parameter of its own, or a view of ",
                   "one, which is cut again when it returns; let it return a copy");
    release(settings.reshard_among.value_or(0));
  }
  if (lane->calls == 0 && lane->passes() == 0)
    for (auto* unit : lane->units) unit->land();  // prefetched, and not needed: shards may be written now
  const auto before = lane->returned;
  const bool comes_back = is_first_run() || (at::GradMode::is_enabled() && output.requires_grad());
  if (buffer_ != nullptr && comes_back && !is_recomputing()) {
    ran_before_ = before;
    lane->returned = self;
  }
  const auto outer = nn::at_boundary(
      {output},
      [self, of_forward = gathered_, before](nn::Tensors&) { self->before_backward(of_forward, before); },
      held);
  return cast(outer[0], settings.policy.output_dtype);
}

void Unit::before_backward(const Versions& of_forward, const std::weak_ptr<Unit>& before) {
  LOCKSTEP_CHECK(
      !at::GradMode::is_enabled() || calls_ > 0,
      "[fully_shard] gradients with a history of their own "
      "(create_graph) would need the parameters after this pass, and they are cut by then; use modules ",
      "that are not sharded, or stay within a call of the outermost one");
  lane->enter_pass();
  lane->note_gradients();
  const auto now = versions(&UnitParameter::sharded);
  for (size_t i = 0; i < now.size(); ++i)
    LOCKSTEP_CHECK(now[i] == of_forward.at(i), "[fully_shard] the parameter '", parameters_[i].paths.front(),
                   "' was written between a forward and its backward pass; write it after both");
  gather();
  ++open_;
  show_whole();
  if (!is_recomputing()) prefetch_backward(before);  // else before it ran again
}

// Unless told whose parameters: those of the call that returned before this one, to which the pass comes next
// (FSDP2, _backward_prefetch).
void Unit::prefetch_backward(const std::weak_ptr<Unit>& before) const {
  for (const auto& next : settings.backward_prefetch)
    if (const auto unit = next.lock()) unit->begin_gather();
  if (!settings.backward_prefetch.empty()) return;
  if (const auto unit = before.lock()) unit->begin_gather();
}

void Unit::after_backward() {
  lane->enter_pass();
  if (open_ > 0) --open_;
  show_sharded();
  if (lane->passes() > 1 || open_ > 0) return;
  collect();
  release_unless_needed(settings.reshard_after_backward);
}

// What has come to a parameter, with what waits since passes before, in the dtype in which it is reduced.
at::Tensor& Unit::gradient(size_t i) {
  auto& came = parameters_[i].whole.mutable_grad();
  const auto dtype = settings.policy.reduce_dtype.value_or(parameters_[i].whole.scalar_type());
  if (dtype == parameters_[i].whole.scalar_type()) return came;
  unsynced_.resize(parameters_.size());
  if (!came.defined()) return unsynced_[i];
  const auto terms = cast_terms(came, dtype);
  buffer_->note(require_dtensor(terms, "fully_shard").locals());
  came = at::Tensor();
  add(unsynced_[i], terms);
  return unsynced_[i];
}

void Unit::collect() {
  if (buffer_ == nullptr) return;
  lane->note_gradients();
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  bool any = false;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    auto& came = gradient(i);
    any |= came.defined();
    gradients.push_back(settings.requires_gradient_sync ? std::exchange(came, at::Tensor()) : at::Tensor());
  }
  has_unsynced_ = any && !settings.requires_gradient_sync;
  if (!any || has_unsynced_) return;
  if (lane->reducing != nullptr) lane->reducing->wait_for_reduction();
  reducing_.emplace(reduce(*buffer_, gradients));
  lane->reducing = this;
}

void Unit::wait_for_reduction() {
  lane->reducing = nullptr;
  auto reducing = std::move(*reducing_);
  reducing_.reset();
  reducing.work.wait();
  const at::NoGradGuard no_grad;
  reduced_.resize(parameters_.size());
  for (size_t i = 0; i < reduced_.size(); ++i)
    if (const auto& gradient = (*reducing.gradients)[i]; gradient.defined()) add(reduced_[i], gradient);
}

void Unit::hand_over() {
  if (reduced_.empty()) return;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& gradient : reduced_)
    if (gradient.defined()) gradients.push_back(gradient);
  if (settings.gradient_divide_factor != 1 && !gradients.empty())
    at::_foreach_div_(gradients, settings.gradient_divide_factor);
  const auto dtype = buffer_->layout().dtype();
  if (settings.policy.reduce_dtype.value_or(buffer_->layout().gathered_dtype()) != dtype)
    reduced_ = cast_reduced(*buffer_, reduced_, dtype);
  for (size_t i = 0; i < reduced_.size(); ++i)
    if (reduced_[i].defined()) add(parameters_[i].sharded.mutable_grad(), reduced_[i]);
  note_gradients();
  reduced_.clear();
}

void Unit::close() {
  open_ = 0;
  show_sharded();
  land();  // prefetched, and not needed
  release_unless_needed(settings.reshard_after_backward);
}

// After what threw.
void Unit::let_go(bool cut) {
  try {
    land();
    release_unless_needed(cut);
  } catch (const std::exception&) {  // other ranks are lost, which whoever asks next is told
  }
}

void Unit::forget_pass() {
  if (reducing_) wait_for_reduction();
  reduced_.clear();
  unsynced_.clear();
  open_ = 0;
  show_sharded();
  has_unsynced_ = false;
  for (const auto& parameter : parameters_) parameter.whole.mutable_grad() = at::Tensor();
  let_go(settings.reshard_after_backward);
}

}  // namespace lockstep::fsdp
