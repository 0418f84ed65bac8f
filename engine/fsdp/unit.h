// SPDX-License-Identifier: Apache-2.0
// Unit: the parameters that one call of fully_shard has put into a DBuffer, and when they are gathered, cut,
// and their gradients reduced. Lane: the units of one model, and what they do together.
#pragma once
#include <optional>

#include "engine/fsdp/mixed_precision.h"
#include "engine/fsdp/reduce.h"
#include "engine/nn/module.h"

namespace lockstep::fsdp {

// Of which of the unit's modules, and the path from there.
struct ParameterPath {
  size_t module = 0;
  std::string path;
};

struct UnitParameter {
  std::vector<ParameterPath> paths;  // several for one that is shared
  at::Tensor sharded, whole;         // leaves
  bool learns = false;               // when both were last said to
};

class Unit;

class Lane : public std::enable_shared_from_this<Lane> {
 public:
  std::vector<Unit*> units;  // outermost first, then from the one that runs last to the one that runs first
  // Reductions of units on their way to shards, and over replicas: one of each at a time.
  std::shared_ptr<Reducing> scattering, adding_up;
  int64_t calls = 0;  // of their modules, that have not returned
  // Whose call returned last since the outermost one began, of those that have parameters and to which a
  // backward pass may come.
  std::weak_ptr<Unit> returned;

  // The current backward pass reaches the model: at its end, every unit hands over what it has.
  void enter_pass();
  // What adds up over replicas ends, and what scatters goes on to that: then the next one may scatter. Over
  // other mesh dimensions than the first that is left, sums begin and end there.
  void make_way();
  // Tells who watches the memory of units what gradients have come.
  void note_gradients() const;
  // How many passes run, one within another.
  size_t passes();

 private:
  void finish_pass();
  void tidy();

  struct Pass {
    int64_t id;
    std::weak_ptr<void> runs;  // expired: it has ended, and failed
  };
  std::vector<Pass> passes_;
};

struct UnitSettings {
  MixedPrecisionPolicy policy;
  std::optional<bool> reshard_after_forward;  // as fully_shard is told; none: but for the outermost
  std::optional<int64_t> reshard_among;  // ranks that keep all of it together after forward; none: each alone
  bool reshard_after_backward = true;
  bool requires_gradient_sync = true;
  bool requires_all_reduce = true;
  double gradient_divide_factor = 1;
  std::vector<std::weak_ptr<Unit>> forward_prefetch, backward_prefetch;
};

class Unit : public std::enable_shared_from_this<Unit> {
 public:
  // @param modules at least one, none of which is within another. @param buffer null: they have no parameters
  // of their own. These are those of the buffer, in its order.
  Unit(std::vector<nn::Module*> modules, std::unique_ptr<DBuffer> buffer,
       std::vector<UnitParameter> parameters);
  // Waits for what has begun and nobody waited for.
  ~Unit();
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  // From now on `memory` is told what is allocated for the parameters and their gradients.
  void watch(std::shared_ptr<HeldMemory> memory);
  // Tells it of the gradients that are there.
  void note_gradients() const;

  // Those that have not been destroyed. Throws Error if all have.
  std::vector<nn::Module*> modules() const;
  void module_is_gone(size_t module) { modules_.at(module) = nullptr; }
  const DBuffer* buffer() const { return buffer_.get(); }
  bool is_gathering() const { return gathering_.has_value(); }
  bool reshards_after_forward() const {
    return settings.reshard_after_forward.value_or(lane->units.front() != this);
  }

  // By hand: the module's parameters are whole from here to there, and have the values of the shards, also
  // where these have been written since. Throws Error if they were written while they were whole.
  void begin_unshard();
  void finish_unshard();
  void reshard();
  // Around each call of one of the modules, in which they are whole.
  at::Tensor call(size_t module, nn::Tensors inputs, const nn::Module::Forward& forward);
  // The outermost call has returned: who has not run in this round will not.
  void end_round();

  // Begins to gather, and waits for it. Throws Error as unshard() does.
  void begin_gather();
  void land();
  // Begins to reduce the gradients that have come, where this pass does; gives those that have been reduced
  // to the parameters.
  void collect();
  void hand_over();
  // Its last gradients are on the way to its shards, or over replicas.
  bool is_scattering() const { return is_last(lane->scattering); }
  bool is_adding_up() const { return is_last(lane->adding_up); }
  // Of passes that are no more, `passes` of which are left.
  void forget_deeper(size_t passes);
  // After a pass: cut, if it is to be. After one that failed: nothing of it is left.
  void close();
  void forget_pass();

  UnitSettings settings;
  std::shared_ptr<Lane> lane = std::make_shared<Lane>();

 private:
  using Versions = std::vector<int64_t>;

  // Calls of the modules, at most one of each: what they need is gathered from the first to the last, and on
  // the way back from the last to the first.
  struct Round {
    std::vector<bool> ran;       // by module: its call has begun
    std::weak_ptr<Unit> before;  // whose call had returned when that of the first did
    int64_t to_return = 0;       // calls to whose output a backward pass may come
  };
  using RoundPtr = std::shared_ptr<Round>;
  // One to whose outputs a pass has come, and not to the inputs of all its calls. A pass within another
  // comes to them anew.
  struct Open {
    RoundPtr round;
    size_t passes;                    // which of those that run, one within another
    std::vector<bool> reached, back;  // by module: its output, its inputs
  };

  struct Reduced {
    std::shared_ptr<Reducing> reducing;
    bool scatters_only;  // and leaves terms of replicas
  };

  bool is_last(const std::shared_ptr<Reducing>& reducing) const {
    return reducing != nullptr && !reductions_.empty() && reductions_.back().reducing == reducing;
  }
  RoundPtr enter_round(size_t module);
  // Some of the modules have run, and others are to.
  bool is_between() const;
  bool is_shown_whole() const { return calls_ > 0 || !open_.empty() || by_hand_; }
  // The last one of this round and pass whose call of the module has, or has not, been reached and not left;
  // null: none.
  Open* find_open(const RoundPtr& round, size_t module, bool reached);
  std::string name_of(const ParameterPath& path) const;
  std::string name_of(size_t parameter) const { return name_of(parameters_[parameter].paths.front()); }

  void gather();
  void release(int64_t among = 0);
  // Where it is to be cut, and no call, no open backward pass and no hand needs it whole.
  void release_unless_needed(bool cut, int64_t among = 0);
  // Waits for what has begun; then the same. Throws nothing.
  void let_go(bool cut, int64_t among = 0);
  at::Tensor& gradient(size_t i);
  // Waits for what has begun, and nobody is to have. Throws nothing.
  void drop_reductions();
  // Whether gradients stay terms of replicas, or such wait.
  bool scatters_only() const;
  void cut_after_forward(const at::Tensor& output, bool comes_back);
  std::weak_ptr<Unit> note_return(size_t module, Round& round, bool comes_back);
  // @param before whose call had returned when this one did
  void before_backward(size_t module, const Versions& of_forward, const RoundPtr& round,
                       const std::weak_ptr<Unit>& before);
  void prefetch_backward(const std::weak_ptr<Unit>& before, bool opens) const;
  void after_backward(size_t module, const RoundPtr& round);
  // Of each parameter: where either tensor was frozen since, or is no more, the other is so, too.
  void agree();
  void show(at::Tensor UnitParameter::*which);
  void show_whole();
  void show_sharded();
  void check_shown() const;
  // Whether what is gathered has been written since.
  bool is_written() const;
  void check_not_written();
  void check_gradients();
  Versions versions(at::Tensor UnitParameter::*which) const;

  std::vector<nn::Module*> modules_;  // null: destroyed
  const std::unique_ptr<DBuffer> buffer_;
  std::vector<UnitParameter> parameters_;
  at::Tensor UnitParameter::*shown_ = &UnitParameter::sharded;
  Versions gathered_;                            // of the shards when they were gathered
  Versions landed_;                              // of what was gathered, when it had arrived
  std::vector<std::weak_ptr<Unit>> ran_before_;  // by module: when it first ran, where it runs again
  std::optional<Work> gathering_;                // begun
  std::vector<Reduced> reductions_;              // of this backward pass, each of which holds a shard
  std::vector<at::Tensor> scattered_;  // since passes that did not add up over replicas: their terms
  std::vector<at::Tensor> unsynced_;   // by parameter: what waits for a pass that syncs, in another dtype
  int64_t calls_ = 0;                  // that have not returned
  bool by_hand_ = false;               // whole until reshard
  RoundPtr round_;                     // the last that has begun, but on the way back
  std::vector<Open> open_;
  bool has_unsynced_ = false;  // whole gradients of passes that did not sync
};

}  // namespace lockstep::fsdp
