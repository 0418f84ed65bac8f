// SPDX-License-Identifier: Apache-2.0
// The op templates: one explicit table of ATen overloads, each with the function that fills in its arguments.
// To add an op: a line in table (ops.cpp), and a maker in ops/ if none of the present ones fits.
#pragma once
#include <map>
#include <span>

#include "generators/program/builder.h"

namespace lockstep::generators {

// Swarm testing leaves out whole families.
enum Family : uint32_t {
  kUnary = 1,
  kBinary = 2,
  kScalars = 4,
  kCompare = 8,
  kTernary = 16,
  kInPlace = 32,
  kLists = 64,
  kReductions = 128,
  kMatmul = 256,
  kViews = 512,
  kIndexing = 1024,
  kNeural = 2048,
  kRandomOps = 4096,
  kFactories = 8192,
  kCopies = 16384,
};
constexpr uint32_t kAllFamilies = 32767;

// How the magnitude of the result follows from those of the operands; kInexact bars the integer lane.
enum class Grow { kInexact, kSame, kSum, kProduct, kOne, kCount, kMean, kPower };

enum Traits : uint32_t {
  kPlain = 0,
  kDiff = 1,           // differentiable
  kLinear = 2,         // its backward reads no values, so in-place ops may follow
  kExactBackward = 4,  // integer gradients of integers are exact
  kSignsZero = 8,      // makes -0.0 of other numbers
  kOrdersZeros = 16,   // whether -0.0 or 0.0 is the larger depends on who is asked first
  kNoHistory = 32,  // libtorch has no derivative of it, or one that no rule knows: no operand requires grad
  kSeldom = 64,     // another overload of an op, drawn less often (overloads.cpp)
  kMoves = kDiff | kLinear | kExactBackward,
};

struct OpTemplate {
  const char* op;
  Family family;
  // Draws operands and arguments and appends the call, with redistributions where a view needs them.
  // False: libtorch or the integer lane's bound refused; the Program is as it was, or has a redistribution
  // more.
  bool (*make)(Builder&, const OpTemplate&);
  uint32_t dtypes = kFloats;
  Grow grow = Grow::kInexact;
  uint32_t traits = kPlain;

  bool in_place() const { return oracle::is_in_place(op); }
  bool is_seldom() const { return (traits & kSeldom) != 0; }
  bool orders_zeros() const { return (traits & kOrdersZeros) != 0; }
  bool allowed(const Settings& settings, bool before_backward) const;
};

// In a fixed order, which cases are numbered by.
std::span<const OpTemplate> op_templates();
// Of ops without a sharding rule, for Cases that let them run whole, in no integer lane; and a call of one.
std::span<const OpTemplate> unruled_templates();
void call_unruled(Builder& b);

// What an optimizer keeps of each parameter from step to step, by name.
class OptimizerState {
 public:
  // Like the leaves, and placed as they are: as it was left, or new: zeros, or if `high` is 1 in [0, 1).
  std::vector<oracle::Ref> like(Builder& b, const std::vector<oracle::Ref>& leaves, const char* name,
                                int64_t high);
  // The numbers of the step to come; a new one is 1, 2 or 3.
  std::vector<oracle::Ref> steps(Builder& b, const std::vector<oracle::Ref>& leaves);
  bool has(const std::vector<oracle::Ref>& leaves, const char* name) const;

 private:
  std::map<std::pair<std::string, int64_t>, oracle::Ref> kept_;
};

// Optimizer steps, for after backward: several calls each, on detached parameters.
bool adam_step(Builder& b, OptimizerState& state);  // of Adam or AdamW, fused
bool fused_sgd_step(Builder& b, OptimizerState& state);
bool sgd_step(Builder& b, OptimizerState& state);
// Gradients' total norm, and the gradients scaled to it (torch's clip_grad_norm_, out of place).
bool clip_gradients(Builder& b);

}  // namespace lockstep::generators
