// SPDX-License-Identifier: Apache-2.0
#include "engine/fsdp/unit.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <functional>

#include "engine/nn/boundary.h"
#include "engine/nn/checkpoint.h"
#include "engine/tensor/dtensor_impl.h"
#include "engine/values/error.h"

namespace lockstep::fsdp {
namespace {

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

Unit::Unit(std::vector<nn::Module*> modules, std::unique_ptr<DBuffer> buffer,
           std::vector<UnitParameter> parameters)
    : modules_(std::move(modules)),
      buffer_(std::move(buffer)),
      parameters_(std::move(parameters)),
      ran_before_(modules_.size()) {
  lane->units = {this};
  show(&UnitParameter::sharded);
}

Unit::~Unit() {
  std::erase(lane->units, this);
  drop_reductions();
  try {
    if (gathering_) gathering_->wait();
  } catch (const std::exception&) {  // other ranks are lost, which whoever asks next is told
  }
}

std::vector<nn::Module*> Unit::modules() const {
  auto alive = modules_;
  std::erase(alive, nullptr);
  LOCKSTEP_CHECK(!alive.empty(), "[fully_shard] the module of this handle has been destroyed");
  return alive;
}

std::string Unit::name_of(const ParameterPath& path) const {
  return modules_.size() == 1 ? path.path : concat(path.module, ".", path.path);
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
  for (const auto& parameter : parameters_)
    for (const auto& [module, path] : parameter.paths)
      if (modules_[module] != nullptr) modules_[module]->set_parameter(path, parameter.*which, true);
}

void Unit::show_whole() {
  if (shown_ != &UnitParameter::whole) show(&UnitParameter::whole);
}

// Unless somebody still needs them whole.
void Unit::show_sharded() {
  if (!is_shown_whole()) show(&UnitParameter::sharded);
}

// Nobody has put another tensor there, or other memory into this one (set_data).
void Unit::check_shown() const {
  for (size_t i = 0; i < parameters_.size(); ++i)
    for (const auto& path : parameters_[i].paths)
      LOCKSTEP_CHECK(
          modules_[path.module] == nullptr ||
              (modules_[path.module]->parameter(path.path).is_same(parameters_[i].*shown_) &&
               buffer_->has(i, parameters_[i].sharded) && buffer_->holds(parameters_[i].whole)),
          "[fully_shard] the parameter '", name_of(path),
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
  round_.reset();
  show_sharded();
  if (shown_ == &UnitParameter::sharded) release();
  throw Error(
      concat("[fully_shard] the parameter '", name_of(static_cast<size_t>(i)),
             "' was written while it was gathered, which its parts do not see, so that it is lost; write it "
             "while it is cut"));
}

// Gradients come through calls of the module, or they are there since a pass that did not sync. One that did
// not is dropped.
void Unit::check_gradients() {
  if (has_unsynced_ || lane->passes() > 0) return;
  std::string strays;
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (std::exchange(parameters_[i].whole.mutable_grad(), at::Tensor()).defined())
      strays += concat(strays.empty() ? "'" : ", '", name_of(i), "'");
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

void Unit::release_unless_needed(bool cut, int64_t among) {
  if (cut && !is_shown_whole() && !is_between()) release(among);
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
  release_unless_needed(true);
}

// A second run is of the round of its first; what runs for the first time within one is of a round of its
// own.
Unit::RoundPtr Unit::enter_round(size_t module) {
  const void* key = &modules_[module];
  if (is_recomputing() && !is_first_run())
    if (const auto first = take_from_first_run(key)) return std::static_pointer_cast<Round>(first);
  auto round = round_;
  if (round == nullptr || round->ran[module] || is_recomputing()) {
    round = std::make_shared<Round>();
    round->ran.resize(modules_.size());
  }
  if (!is_recomputing()) round_ = round;
  if (is_first_run()) leave_for_second_run(key, round);
  return round;
}

bool Unit::is_between() const {
  if (round_ == nullptr) return false;
  const auto& ran = round_->ran;
  return std::adjacent_find(ran.begin(), ran.end(), std::not_equal_to<>()) != ran.end();
}

void Unit::end_round() {
  if (!is_between()) return;
  round_.reset();
  if (reshards_after_forward()) by_hand_ = false;
  show_sharded();
  let_go(reshards_after_forward(), settings.reshard_among.value_or(0));
}

at::Tensor Unit::call(size_t module, nn::Tensors inputs, const nn::Module::Forward& forward) {
  const auto self = shared_from_this();
  check_gradients();
  check_shown();
  check_not_written();
  if (lane->calls == 0 && lane->passes() == 0) lane->returned.reset();
  gather();
  const auto round = enter_round(module);
  if (is_recomputing() && at::GradMode::is_enabled())  // and comes back now
    prefetch_backward(ran_before_[module], find_open(round, module, false) == nullptr);
  struct Call {
    explicit Call(Unit& u) : unit(u) {
      ++unit.calls_;
      ++unit.lane->calls;
      unit.show_whole();
    }
    ~Call() {
      --unit.lane->calls;
      const bool throws = std::uncaught_exceptions() > before;
      if (throws) unit.round_.reset();
      if (throws && unit.lane->calls == 0)
        for (auto* other : unit.lane->units) {
          other->end_round();
          other->let_go(false);
        }
      if (--unit.calls_ > 0) return;
      if (unit.reshards_after_forward() && !unit.is_between()) unit.by_hand_ = false;
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
    const bool begins = !is_between();
    round->ran[module] = true;
    if (begins && !is_recomputing())  // on the way back the next one is behind
      for (const auto& next : settings.forward_prefetch)
        if (const auto unit = next.lock()) unit->begin_gather();
    if (settings.policy.cast_forward_inputs)
      for (auto& input : inputs) input = cast(input, settings.policy.param_dtype);
    inputs = nn::at_boundary(
        std::move(inputs), [self, module, round](nn::Tensors&) { self->after_backward(module, round); },
        false);
    const Unwritten given(inputs);
    output = forward(std::move(inputs));
    held = is_held(output);  // also where it is an input, which `given` holds
    given.check();
    check_shown();
    check_not_written();
  }
  const bool comes_back = at::GradMode::is_enabled() && output.requires_grad();
  cut_after_forward(output, comes_back);
  const auto before = note_return(module, *round, comes_back);
  const auto outer = nn::at_boundary(
      {output},
      [self, module, of_forward = gathered_, round, before](nn::Tensors&) {
        self->before_backward(module, of_forward, round, before);
      },
      held);
  return cast(outer[0], settings.policy.output_dtype);
}

// Where no other call needs it, nor the rest of the round, nor the way back from here.
void Unit::cut_after_forward(const at::Tensor& output, bool comes_back) {
  const bool cuts = reshards_after_forward() && calls_ == 0 && open_.empty() &&
                    !(is_recomputing() && comes_back) && buffer_ != nullptr;
  const bool gives_own = cuts && buffer_->holds(output);
  if (cuts && !gives_own && !is_between()) release(settings.reshard_among.value_or(0));
  if (lane->calls == 0 && lane->passes() == 0)
    for (auto* unit : lane->units) {
      unit->end_round();
      unit->land();  // prefetched, and not needed: shards may be written now
    }
  if (gives_own) {
    round_.reset();
    let_go(true);
  }
  LOCKSTEP_CHECK(!gives_own, "[fully_shard] a module returns a parameter of its own, or a view of ",
                 "one, which is cut again when it returns; let it return a copy");
}

// Which other unit's call had returned when this one, or the first of its round, did.
std::weak_ptr<Unit> Unit::note_return(size_t module, Round& round, bool comes_back) {
  if (is_recomputing() ? comes_back && round.to_return == 0 : comes_back || is_first_run()) ++round.to_return;
  const bool is_first = std::count(round.ran.begin(), round.ran.end(), true) == 1;
  if (is_first) round.before = lane->returned;
  const auto self = weak_from_this();
  const auto before = lane->returned.lock() == self.lock() ? round.before : lane->returned;
  if (buffer_ != nullptr && (is_first_run() || comes_back) && !is_recomputing()) {
    ran_before_[module] = before;
    lane->returned = self;
  }
  return before;
}

void Unit::before_backward(size_t module, const Versions& of_forward, const RoundPtr& round,
                           const std::weak_ptr<Unit>& before) {
  LOCKSTEP_CHECK(
      !at::GradMode::is_enabled() || calls_ > 0,
      "[fully_shard] gradients with a history of their own "
      "(create_graph) would need the parameters after this pass, and they are cut by then; use modules ",
      "that are not sharded, or stay within a call of the outermost one");
  lane->enter_pass();
  lane->note_gradients();
  const auto now = versions(&UnitParameter::sharded);
  for (size_t i = 0; i < now.size(); ++i)
    LOCKSTEP_CHECK(now[i] == of_forward.at(i), "[fully_shard] the parameter '", name_of(i),
                   "' was written between a forward and its backward pass; write it after both");
  gather();
  auto* open = find_open(round, module, false);
  const bool opens = open == nullptr;
  if (opens) {
    const std::vector<bool> none(modules_.size());
    open = &open_.emplace_back(round, lane->passes(), none, none);
  }
  open->reached[module] = true;
  show_whole();
  if (!is_recomputing()) prefetch_backward(before, opens);  // else before it ran again
}

Unit::Open* Unit::find_open(const RoundPtr& round, size_t module, bool reached) {
  const auto passes = lane->passes();
  const auto found = std::find_if(open_.rbegin(), open_.rend(), [&](const Open& open) {
    return open.round == round && open.passes == passes && open.reached[module] == reached &&
           !open.back[module];
  });
  return found == open_.rend() ? nullptr : &*found;
}

void Unit::forget_deeper(size_t passes) {
  std::erase_if(open_, [&](const Open& open) { return open.passes > passes; });
}

// Unless told whose parameters: those of the call that returned before this one, to which the pass comes next
// (FSDP2, _backward_prefetch).
void Unit::prefetch_backward(const std::weak_ptr<Unit>& before, bool opens) const {
  if (opens)
    for (const auto& next : settings.backward_prefetch)
      if (const auto unit = next.lock()) unit->begin_gather();
  if (!settings.backward_prefetch.empty()) return;
  if (const auto unit = before.lock()) unit->begin_gather();
}

void Unit::after_backward(size_t module, const RoundPtr& round) {
  lane->enter_pass();
  if (auto* open = find_open(round, module, true); open != nullptr) {
    open->back[module] = true;
    if (std::count(open->back.begin(), open->back.end(), true) >= round->to_return)
      open_.erase(open_.begin() + (open - open_.data()));
  }
  show_sharded();
  if (lane->passes() > 1 || !open_.empty()) return;
  collect();
  release_unless_needed(settings.reshard_after_backward);
}

void Unit::close() {
  open_.clear();
  if (lane->calls == 0) round_.reset();
  show_sharded();
  land();  // prefetched, and not needed
  release_unless_needed(settings.reshard_after_backward);
}

// After what threw.
void Unit::let_go(bool cut, int64_t among) {
  try {
    land();
    release_unless_needed(cut, among);
  } catch (const std::exception&) {  // other ranks are lost, which whoever asks next is told
  }
}

void Unit::forget_pass() {
  drop_reductions();
  scattered_.clear();
  unsynced_.clear();
  open_.clear();
  if (lane->calls == 0) round_.reset();
  show_sharded();
  has_unsynced_ = false;
  for (const auto& parameter : parameters_) parameter.whole.mutable_grad() = at::Tensor();
  let_go(settings.reshard_after_backward);
}

}  // namespace lockstep::fsdp
