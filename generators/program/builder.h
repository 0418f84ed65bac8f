// SPDX-License-Identifier: Apache-2.0
// Builder: a Program under construction. Operands are existing values that fit, or fresh inputs made to fit,
// so that every op template can be filled without discards. Each call is tried on zeros as it is appended,
// with autograd when the case has a backward, and so shapes, dtypes and aliases are libtorch's own.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "generators/program/magnitude.h"
#include "generators/space/misplaced.h"
#include "generators/space/placements.h"
#include "generators/space/random.h"
#include "generators/space/shapes.h"
#include "oracle/program/program.h"

namespace lockstep::generators {

// Sets of dtypes.
enum Dtypes : uint32_t {
  kF64 = 1,
  kF32 = 2,
  kBF16 = 4,
  kF16 = 8,
  kI64 = 16,
  kBool = 32,
  kI32 = 64,  // these four stand in for kI64 now and then; the suite `random` asks for them
  kI16 = 128,
  kI8 = 256,
  kU8 = 512
};
constexpr uint32_t kFloats = kF64 | kF32 | kBF16 | kF16;
constexpr uint32_t kWide = kF64 | kF32;
constexpr uint32_t kNumbers = kFloats | kI64;
constexpr uint32_t kNarrow = kI32 | kI16 | kI8 | kU8;
constexpr uint32_t kAllDtypes = kNumbers | kBool;
uint32_t bit_of(c10::ScalarType dtype);  // 0 for the others

// What a case may contain. Drawn once for a case (swarm.h).
struct Settings {
  DeviceMesh mesh;
  uint32_t dtypes = kAllDtypes;  // of fresh inputs; at least one of kWide
  uint32_t placements = kAllPlacements;
  uint32_t families = ~0u;  // of ops (ops.h)
  bool integer_lane = false;
  bool backward = false;
  bool specials = false;
  bool strided = true;  // inputs in another memory order
  int64_t max_numel = 256;
  int64_t max_inputs = 8;
  // Not -1: a dimension that new inputs whose shape is free have; inputs are cut along it, or lie beside
  // others.
  int64_t cut = -1;
  // New inputs whose shape is free are of this shape, and whatever is lies so.
  std::optional<std::pair<Shape, oracle::Target>> alike = std::nullopt;
  int64_t terms = 0;   // above 0: the size of one dimension of each fresh input whose shape is free
  int64_t varied = 0;  // of calls, in percent: one argument other than its maker gave (vary.h)
  int64_t outs = 0;    // of calls, in percent: their out variant, where they have one
  int64_t refused =
      0;  // of in-place calls, in percent, and of views thrice that: must be refused (misplaced.h)
};

// What an op wants of an operand. A size of -1 is free.
struct Want {
  uint32_t dtypes = kFloats;
  std::optional<Shape> shape = std::nullopt;
  int64_t min_dims = 0, max_dims = 3;
  int64_t least = 0;                                       // of every size
  bool broadcasts = false;                                 // to `shape` rather than equal to it
  bool writable = false;                                   // for an in-place op
  bool fresh = false;                                      // always a new input
  bool plain_zeros = false;                                // in the integer lane: holds no -0.0
  bool dense = false;                                      // a fresh one is contiguous
  std::optional<oracle::Values> values = std::nullopt;     // of a fresh input; implies fresh
  std::optional<oracle::Target> placement = std::nullopt;  // of a fresh input
  bool grad = true;                                        // it may require grad
  std::vector<oracle::Ref> apart{};                        // must not share storage with these
};

struct Value {
  at::Tensor trial;                         // undefined for an unused gradient
  size_t group = 0;                         // values that share storage
  std::optional<oracle::Target> placement;  // where it is certain
  int64_t input = -1;                       // its number among the inputs
  bool writable = true;
  bool plain = false;  // a plain tensor on the engine too
};

// What the values that share one storage have in common.
struct Group {
  Magnitude magnitude;
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool saved = false;        // backward needs the bits: no in-place op
  bool frozen = false;       // nobody may write, not even an optimizer after backward
  bool leaf = false;         // a leaf that requires grad: no in-place op
  bool signed_zero = false;  // may hold -0.0, which a maximum does not tell from 0.0
};

// How a call changes magnitudes: the result's, and for each tensor operand the factor from the gradient of
// the result to its own, how often each element contributes included.
struct Growth {
  Magnitude result;
  std::vector<Magnitude> factors;  // empty: 1 for each operand
  bool signs_zero = false;         // the result may hold -0.0 though no operand does
};

class Builder {
 public:
  Builder(Random random, Settings settings);

  Random& random() { return random_; }
  const Settings& settings() const { return settings_; }

  // While outside, operands are plain tensors, found and made, and otherwise none are.
  void go_outside(bool outside) { outside_ = outside; }
  bool is_outside() const { return outside_; }
  // From now on so many of the new inputs of one element, in percent, are plain tensors.
  void meet_plain(int64_t percent) { plain_ = percent; }

  // Operands, numbered in order of appearance; finish() renumbers inputs first.
  oracle::Ref operand(const Want& want);
  oracle::Ref fresh(const Want& want);
  const Value& value(oracle::Ref ref) const { return values_[static_cast<size_t>(ref.id)]; }
  const at::Tensor& tensor(oracle::Ref ref) const { return value(ref).trial; }
  bool frozen(oracle::Ref ref) const { return groups_[value(ref).group].frozen; }
  Shape shape(oracle::Ref ref) const { return tensor(ref).sizes().vec(); }
  c10::ScalarType dtype(oracle::Ref ref) const { return tensor(ref).scalar_type(); }
  int64_t ndim(oracle::Ref ref) const { return tensor(ref).dim(); }
  Magnitude magnitude(oracle::Ref ref) const { return groups_[value(ref).group].magnitude; }
  bool is_plain(oracle::Ref ref) const { return value(ref).plain; }
  bool requires_grad(oracle::Ref ref) const { return tensor(ref).defined() && tensor(ref).requires_grad(); }
  size_t size() const { return values_.size(); }

  // Appends the call; missing trailing arguments take the schema's defaults. False, and nothing happened,
  // where libtorch refuses it or the integer lane's bound would not hold. `saves`: backward reads operands or
  // results.
  bool call(const char* op, std::vector<oracle::Arg> args, const Growth& growth = {}, bool saves = true);
  // Appends the call as it stands: no argument is varied, no result written to a tensor that is there.
  bool exactly(const char* op, std::vector<oracle::Arg> args, const Growth& growth = {});
  // Appends a call whose results are of a shape that values say, which the trial on zeros does not know:
  // nothing is computed with them.
  bool call_unsized(const char* op, std::vector<oracle::Arg> args);
  // The results of the last call.
  const std::vector<oracle::Ref>& results() const { return results_; }
  size_t calls() const { return program_.calls.size(); }
  // The last call as it was appended, with provisional numbers, and what was known of its operands before it.
  struct Made {
    oracle::Call call;
    Growth growth;
    std::vector<Magnitude> operands;
  };
  const Made& last() const { return last_; }
  // Appends an earlier call with other arguments, or with its own, which nothing varies. In the integer lane
  // its result is bounded by that of the earlier one, times what operands have grown since.
  // @pre its result is of at most the first degree in each operand, or no operand was written since
  bool again(const Made& first, std::vector<oracle::Arg> args);

  oracle::Ref redistribute(oracle::Ref ref, const oracle::Target& target);
  oracle::Ref redistribute(oracle::Ref ref);  // to placements drawn
  // The value, or a redistribution of it, surely without a RaggedShard, across which no view looks.
  oracle::Ref boxed(oracle::Ref ref);
  // The value, or a redistribution of it, surely not sharded along `dims` and, if asked, not Partial, as
  // in-place ops want it; a RaggedShard stays only for an in-place op that takes every dimension as it is.
  oracle::Ref unsharded(oracle::Ref ref, std::vector<int64_t> dims, bool no_partial = false);
  // An operand for in-place ops: its placement is certain and not Partial.
  oracle::Ref target(Want want);
  // Whether one of these two left an operand on purpose where its op has nowhere to go. The case ends with
  // that op: an engine that refuses it does no more.
  bool may_be_refused() const { return misplaced_; }
  // The next op's operand was left so by its maker.
  void let_be_refused() { misplaced_ = true; }

  // Gradients of one or two values that require grad, by lockstep::backward or lockstep::accumulate; false if
  // there are none, or the bound would not hold. `again`: after another one, and no op between that writes.
  struct Backward {
    const char* op = "lockstep::backward";
    bool graph = false;  // the gradients have a history of their own
    bool again = false;
    std::vector<oracle::Ref> outputs{};  // empty: drawn
    // Where they lie, if they have the dimensions: one for each output, or for all. Empty: drawn.
    std::vector<oracle::Target> seeds{};
  };
  bool backward(const Backward& how);
  bool backward() { return backward(Backward()); }
  // Inputs that require grad, with their gradients where they have one. Empty before backward().
  std::vector<std::pair<oracle::Ref, oracle::Ref>> gradients() const;

  // What libtorch or the bound refused, one line a call.
  const std::vector<std::string>& refusals() const { return refusals_; }
  // The Case: values that nothing uses are dropped from the inputs, and inputs numbered first.
  oracle::Case finish(std::string suite, uint64_t seed, DeviceModel device) const;

 private:
  struct Flow {  // of one call, between groups, for gradient magnitudes
    std::vector<size_t> results;
    std::vector<std::pair<size_t, Magnitude>> operands;
    bool in_place;
  };
  bool fits(const Value& value, const Want& want) const;
  Shape free_shape(const Want& want);
  Shape broadcastable_shape(const Shape& shape);
  Shape fresh_shape(const Want& want);
  c10::ScalarType fresh_dtype(const Want& want);
  oracle::Target fresh_target(const oracle::Input& input, uint32_t kinds);
  oracle::Ref add_input(oracle::Input input, const Want& want);
  oracle::Values draw_values(c10::ScalarType dtype, const oracle::Target& target);
  size_t group_of(const at::Tensor& tensor);
  void add_value(const at::Tensor& tensor, Magnitude magnitude, std::optional<oracle::Target> placement,
                 bool writable);
  bool makes_plain(const oracle::Call& call) const;
  void record(const oracle::Call& call, const std::vector<at::Tensor>& tensors, const Growth& growth,
              bool saves);
  // `may_vary`: the call may be made with another argument, or with outs.
  bool append(oracle::Call made, const Growth& growth, bool saves, bool may_vary);
  // What the call yields, with another argument where libtorch takes it. Throws what libtorch throws.
  std::vector<at::Tensor> tried(oracle::Call& call, bool may_vary);
  std::optional<std::vector<at::Tensor>> tried_varied(oracle::Call& call);
  // Now and then the call writes its results, as they were tried, to tensors that are there already.
  void write_to_outs(oracle::Call& call, std::vector<at::Tensor>& results, const Growth& growth);
  oracle::Ref draw_out(const at::Tensor& result, std::vector<oracle::Ref> apart);
  bool has_seen_ragged() const;
  // The value where it lacks what is needed, `refused` times of 100; and from then on whatever it is.
  std::optional<oracle::Ref> misplaced(oracle::Ref ref, const Needs& needs);
  bool bounded(const std::vector<at::Tensor>& tensors, const Growth& growth) const;
  bool small(const std::vector<at::Tensor>& tensors) const;
  bool is_of_numbers(const oracle::Call& made) const;
  bool bound_gradients(const std::vector<oracle::Ref>& outputs, Magnitude seed, bool accumulates,
                       Growth& growth);
  std::vector<oracle::Ref> drawn_outputs(const std::vector<oracle::Ref>& candidates);
  std::vector<Magnitude> gradient_magnitudes(const std::vector<oracle::Ref>& outputs, Magnitude seed) const;

  Random random_;
  Settings settings_;
  int64_t plain_ = 0;
  bool outside_ = false, grad_enabled_ = true, misplaced_ = false;
  Magnitude accumulated_{0, 0};  // by lockstep::accumulate, so far
  oracle::Program program_;      // inputs and calls with provisional numbers
  std::vector<oracle::Target> placements_;
  std::vector<Value> values_;
  std::vector<Group> groups_;
  std::vector<const void*> storages_;
  std::vector<Flow> flows_;
  std::vector<oracle::Ref> results_, gradients_;
  std::vector<at::Tensor> leaves_;
  std::vector<std::string> refusals_;
  Made last_;
};

}  // namespace lockstep::generators
