// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/rule_question.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "oracle/judge/bound.h"
#include "oracle/judge/families.h"
#include "oracle/judge/rank_runs.h"
#include "oracle/judge/replay.h"
#include "oracle/ownership/reduce.h"
#include "oracle/ownership/share.h"

namespace lockstep::oracle {
namespace {

// Kernels have a vector body and a scalar tail, which need not round alike; a slice ends elsewhere than the
// whole. What is wrong with a rule is a term, a row or a factor, not the tenth decimal.
// Of integers kernels give single precision.
double other_path(const at::Tensor& value) {
  return value.scalar_type() == at::kDouble ? 0x1p-30 : 0x1p-20;
}

// Of what these give nothing can be said by other values.
struct NotAsked {
  std::string_view op, reason;
  bool on_cuda = false;  // there alone
};
constexpr auto kNotAsked = std::to_array<NotAsked>({
    {"aten::view.dtype", "it reads the bits of its values, which are others in float64"},
    {"aten::as_strided", "it reads the memory of a tensor, whose size is another in float64"},
    {"aten::aminmax", "without a dimension CUDA's keeps none, and the CPU's as many as there were", true},
    {"aten::as_strided_", "it reads the memory of a tensor, whose size is another in float64"},
});

uint64_t mixed(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Ops of which a result is a sum of elements, each times at most one element of another input: exact on small
// integers in whatever order, so that a term which is wrong by however little shows.
constexpr std::string_view kSumsOfProducts =
    "add addbmm addmm addmv addr alias baddbmm bmm cat clone constant_pad_nd convolution "
    "convolution_backward "
    "copy cumsum detach diagonal_backward dot embedding embedding_dense_backward expand "
    "experts::grouped_linear experts::grouped_linear_input experts::grouped_linear_weight "
    "experts::permute_rows flip gather "
    "index index_add index_fill index_put _index_put_impl index_select masked_fill mm mul mv neg permute "
    "roll "
    "rsub scatter scatter_add select_backward slice_backward split stack sub sum _to_copy tril triu unbind "
    "view where zero";
constexpr double kMostFactor = 64;  // that stands among its arguments

bool is_small_integer(const c10::IValue& number) {
  constexpr auto kMost = static_cast<int64_t>(kMostFactor);
  if (number.isInt()) return -kMost <= number.toInt() && number.toInt() <= kMost;  // the least int has no abs
  if (!number.isDouble()) return number.isNone() || number.isBool();
  const double x = number.toDouble();
  return std::abs(x) <= kMostFactor && x == std::trunc(x);
}

bool are_small_integers(const c10::IValue& numbers) {
  const auto list = numbers.toListRef();
  return std::all_of(list.begin(), list.end(), is_small_integer);
}

bool pends_by_product(const TensorRecord* record) {
  if (record == nullptr) return false;
  const Placements& placements = record->spec->placements();
  return std::find(placements.begin(), placements.end(), Placement(Partial{ReduceOp::kProduct})) !=
         placements.end();
}

// Whether the op must be equal on small integers: neither its arguments nor what pends make more of them than
// sums of products, and none becomes of a shorter dtype.
bool is_exact(const OpInQuestion& q) {
  static const auto names = split(kSumsOfProducts, ' ');
  if (std::find(names.begin(), names.end(), family_key(q.op.op->name)) == names.end()) return false;
  for (size_t a = 0; a < q.op.args.size(); ++a) {
    const ArgInfo& info = q.op.op->args[a];
    if (info.kind == ArgKind::kScalarList && !are_small_integers(q.op.args[a])) return false;
    if (info.kind == ArgKind::kScalar && !is_small_integer(q.op.args[a])) return false;
    if (info.name == "scale_grad_by_freq" && q.op.args[a].toBool()) return false;  // it divides
  }
  const auto is_float = [](const auto& window) { return c10::isFloatingType(window.dtype); };
  if (std::any_of(q.op.inputs.begin(), q.op.inputs.end(), is_float) &&
      !std::all_of(q.effects.begin(), q.effects.end(), [&](auto& e) { return is_float(e.window); }))
    return false;
  return std::none_of(q.inputs.begin(), q.inputs.end(), pends_by_product) &&
         std::none_of(q.outputs.begin(), q.outputs.end(), pends_by_product);
}

// What says where another tensor is read or written.
bool is_place(const ArgInfo& info, c10::ScalarType dtype) {
  constexpr auto kPlaces = std::to_array<std::string_view>({"index", "target", "order", "inverse"});
  if (info.name == "indices") return true;  // booleans among them choose how many
  return c10::isIntegralType(dtype, /*includeBool=*/false) &&
         std::find(kPlaces.begin(), kPlaces.end(), info.name) != kPlaces.end();
}

double ordinary_number(double x, uint64_t word) {
  const double part = std::ldexp(static_cast<double>(word >> 11), -53), size = std::abs(x);
  if (size >= 0x1p-10 && size <= 0x1p10) return x * (1 - part * 0x1p-6);
  return std::copysign(0.25 + 0.75 * part, std::isnan(x) ? 1.0 : x);
}

// Odd, of the sign of `x`, and `times` as much: an average of as many is whole, too.
double small_integer(double x, uint64_t word, int64_t times) {
  const auto odd = static_cast<int64_t>(word >> 53) * 2 + 1;
  return std::copysign(static_cast<double>(odd * times), std::isnan(x) ? 1.0 : x);
}

// Ops that multiply all elements: a product of many ordinary numbers would vanish, and say nothing.
constexpr std::array<std::string_view, 2> kProducts = {"cumprod", "prod"};

double near_one(double x, uint64_t word) {
  const double part = std::ldexp(static_cast<double>(word >> 11), -53);
  return std::copysign(std::exp2((part - 0.5) / 4), std::isnan(x) ? 1.0 : x);
}

template <class Change>
at::Tensor doubles_of(const at::Tensor& t, uint64_t seed, Change change) {
  const at::Tensor wide = t.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true).contiguous();
  auto* numbers = wide.mutable_data_ptr<double>();
  for (int64_t i = 0; i < wide.numel(); ++i)
    numbers[i] = change(numbers[i], mixed((seed << 40) + static_cast<uint64_t>(i)));
  return wide;
}

// An input of the op on both sides.
struct Asked {
  std::vector<Tensors> terms;
  std::vector<WideInput> whole;
  at::Tensor mask;
  bool exact = false;  // on integers, where it must be equal
};

int64_t ranks_of(const OpInQuestion& q) {
  const auto defined = std::find_if(q.outputs.begin(), q.outputs.end(), [](auto* r) { return r != nullptr; });
  return (*defined)->spec->mesh().size();
}

Asked asked_inputs(const OpInQuestion& q, const Recording& recording, const Shadow& shadow) {
  Asked asked;
  asked.exact = is_exact(q);
  const bool multiplies =
      std::find(kProducts.begin(), kProducts.end(), family_key(q.op.op->name)) != kProducts.end();
  const auto number = [&](const at::Tensor& t, uint64_t seed) {
    if (multiplies && t.is_floating_point()) return doubles_of(t, seed, near_one);
    if (!asked.exact || !t.is_floating_point()) return ordinary(t, seed);
    return doubles_of(t, seed,
                      [n = ranks_of(q)](double x, uint64_t word) { return small_integer(x, word, n); });
  };
  std::vector<const ArgInfo*> names;
  for (size_t a = 0; a < q.op.args.size(); ++a)
    for (int64_t k = 0; k < q.op.tensors_per_arg[a]; ++k) names.push_back(&q.op.op->args[a]);
  const auto is_one = [&](size_t i, size_t j) {  // what is one tensor stays one
    return q.op.inputs[i].defined() && q.op.inputs[i] == q.op.inputs[j] && q.renditions[i] == q.renditions[j];
  };
  // A mask may be what it picks from.
  const auto says_a_place = [&](size_t i, c10::ScalarType dtype) {
    for (size_t j = i; j < names.size(); ++j)
      if ((i == j || is_one(i, j)) && is_place(*names[j], dtype)) return true;
    return false;
  };
  for (size_t i = 0; i < q.op.inputs.size(); ++i) {
    const Window& window = q.op.inputs[i];
    size_t same = 0;
    while (same < i && !is_one(same, i)) ++same;
    Tensors terms;
    if (same < i) {
      asked.terms.push_back(asked.terms[same]);
      asked.whole.push_back(asked.whole[same]);
      continue;
    }
    if (window.defined()) {
      const Rendition& r = *q.renditions[i];
      for (const at::Tensor& t : shadow.terms(window, r))
        terms.push_back(says_a_place(i, t.scalar_type()) ? t : number(t, i * 64 + terms.size()));
      asked.whole.push_back(widen(terms, r.ops, r.sizes));
    } else {
      asked.whole.emplace_back();
    }
    asked.terms.push_back(std::move(terms));
  }
  if (q.op.op->random) {
    asked.mask = recording.read(q.op.results.at(1));
    asked.whole.push_back({asked.mask, asked.mask});
  }
  return asked;
}

// What the op on the whole comes to, and how far from it float64 may be.
struct Answer {
  at::Tensor value, tolerance;  // tolerance undefined: no difference
};

std::vector<Answer> answers(const OpInQuestion& q, const Asked& asked) {
  const OpFamily* family = find_family(q.op.op->name);
  std::vector<Answer> result;
  if (!asked.exact && family != nullptr && family->bound != Bound::kTwoPaths) {
    for (Reference& r : references(*family, q.op, q.effects, asked.whole, at::kDouble)) {
      Answer answer{r.value, {}};
      if (r.magnitude.defined()) answer.tolerance = at::mul(r.magnitude, r.factor);
      result.push_back(std::move(answer));
    }
    return result;
  }
  Tensors inputs;
  for (const WideInput& w : asked.whole) inputs.push_back(w.value);
  for (at::Tensor& value : apply_f64(q.op, q.effects, writable(q.op, std::move(inputs)))) {
    Answer answer{value, {}};
    if (!asked.exact && value.defined() && value.is_floating_point())
      answer.tolerance = at::mul(value.abs(), other_path(value));
    result.push_back(std::move(answer));
  }
  return result;
}

// The first element, row-major, that is neither the other nor within its tolerance; -1: there is none.
int64_t first_beyond(const at::Tensor& actual, const Answer& answer) {
  const auto dense = [&](const at::Tensor& t) {
    return t.to(at::kDouble).expand(actual.sizes()).contiguous();
  };
  const at::Tensor a = dense(actual), e = dense(answer.value);
  const at::Tensor room = answer.tolerance.defined() ? dense(answer.tolerance) : at::Tensor();
  const double *x = a.const_data_ptr<double>(), *y = e.const_data_ptr<double>();
  for (int64_t i = 0; i < actual.numel(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    const double most = room.defined() ? room.const_data_ptr<double>()[i] : 0;
    if (!(std::abs(x[i] - y[i]) <= most)) return i;
  }
  return -1;
}

[[noreturn]] void report_wrong(const OpInQuestion& q, size_t i, int64_t position, const at::Tensor& actual,
                               const Answer& answer, int64_t element) {
  const auto number = [&](const at::Tensor& t) {
    return t.defined() ? t.to(at::kDouble).expand(actual.sizes()).flatten()[element].item<double>() : 0.0;
  };
  throw Mismatched{
      {.condition = Condition::kRule,
       .text = concat("result ", i, ", placed as ", *q.outputs[i]->spec,
                      ", is wrong by its rule, not by rounding: on ordinary numbers the op on the "
                      "ranks' slices is not the op on the whole"),
       .position = position,
       .index = unravel(element, actual.sizes()),
       .actual = number(actual),
       .expected = number(answer.value),
       .bound = number(answer.tolerance)}};
}

// The slices that a rank must hold, where nothing pends: of the answer. Where something does: the same on all
// ranks that hold the same term.
void check_slice(const OpInQuestion& q, size_t i, const Slicing& plan, int64_t position,
                 const at::Tensor& mine, const std::vector<Tensors>& results, const Answer& answer) {
  if (mine.sizes() != at::IntArrayRef(plan.shapes[as_size(position)]))
    throw Mismatched{
        {.condition = Condition::kRule,
         .text = concat("result ", i, ", placed as ", *q.outputs[i]->spec, ", has a slice of shape ",
                        at::IntArrayRef(plan.shapes[as_size(position)]), " there, and the op makes one of ",
                        mine.sizes()),
         .position = position}};
  Answer part{{}, {}};
  if (plan.partial_dims.empty()) {
    part.value = cut(answer.value, plan, position);
    if (answer.tolerance.defined())
      part.tolerance = cut(answer.tolerance.expand(answer.value.sizes()), plan, position);
  } else {
    part.value = results[as_size(plan.first[as_size(position)])].at(i);
    if (answer.tolerance.defined()) part.tolerance = at::mul(part.value.abs(), other_path(part.value));
  }
  if (const int64_t e = first_beyond(mine, part); e >= 0) report_wrong(q, i, position, mine, part, e);
}

void check_fold(const OpInQuestion& q, size_t i, const Slicing& plan, const std::vector<Tensors>& results,
                const Answer& answer) {
  Tensors terms;
  for (int64_t t = 0; t < plan.terms; ++t) terms.push_back(at::empty_like(answer.value));
  for (size_t p = 0; p < results.size(); ++p)
    if (plan.first[p] == static_cast<int64_t>(p))
      paste(results[p].at(i), plan, static_cast<int64_t>(p), terms[as_size(plan.term[p])]);
  const at::Tensor folded = fold_terms(std::move(terms), plan.ops, plan.sizes);
  if (const int64_t e = first_beyond(folded, answer); e >= 0) report_wrong(q, i, -1, folded, answer, e);
}

// What a rank has nothing of is nothing.
Tensors nothing(const OpInQuestion& q, const RankRuns& runs, int64_t position,
                const std::vector<Answer>& whole) {
  Tensors results(q.effects.size());
  for (size_t i = 0; i < results.size(); ++i)
    if (q.outputs[i] != nullptr)
      results[i] = at::empty(runs.output(i).shapes[as_size(position)], whole[i].value.options());
  return results;
}

// Odd, so that no product of them vanishes, and positive, so that nothing is divided or raised to what it
// cannot be; booleans are true, but for the last of several and some between.
at::Tensor small_integers(const at::Tensor& t, uint64_t seed) {
  const at::Tensor words = at::empty(t.sizes(), at::kLong);
  auto* numbers = words.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < words.numel(); ++i) {
    const uint64_t word = mixed((seed << 40) + static_cast<uint64_t>(i));
    const bool truth = i == 0 || (i + 1 < words.numel() && word % 4 != 0);
    numbers[i] = t.scalar_type() == at::kBool ? truth : static_cast<int64_t>(word % 50) * 2 + 1;
  }
  return words.to(t.scalar_type());
}

}  // namespace

at::Tensor ordinary(const at::Tensor& t, uint64_t seed) {
  if (!t.is_floating_point()) return small_integers(t, seed);
  return doubles_of(t, seed, ordinary_number);
}

bool is_asked(const RecordedOp& recorded) {
  const Operator& op = *recorded.op;
  if (op.random && op.name != "aten::native_dropout") return false;  // its values are the stream's
  // The shape of its result is what its values say; an index keeps its places.
  if (op.handle.hasTag(at::Tag::dynamic_output_shape) && op.name != "aten::index.Tensor") return false;
  return std::none_of(kNotAsked.begin(), kNotAsked.end(), [&](const NotAsked& n) {
    return n.op == op.name && (!n.on_cuda || recorded.device.is_cuda());
  });
}

void ask_rule(const OpInQuestion& q, const Recording& recording, const Shadow& shadow) {
  const bool defines = std::any_of(q.outputs.begin(), q.outputs.end(), [](auto* r) { return r != nullptr; });
  if (!defines || !is_asked(q.op)) return;
  const Asked asked = asked_inputs(q, recording, shadow);
  const std::vector<Answer> whole = answers(q, asked);
  const auto runs = RankRuns::in_float64(q, asked.terms, asked.mask);
  std::vector<Tensors> results;
  for (int64_t p = 0; p < runs.positions(); ++p) {
    const int64_t twin = runs.twin(p);
    results.push_back(twin >= 0               ? results[as_size(twin)]
                      : runs.makes_nothing(p) ? nothing(q, runs, p, whole)
                                              : runs.run(p));
    for (size_t i = 0; i < q.effects.size(); ++i)
      if (q.outputs[i] != nullptr)
        check_slice(q, i, runs.output(i), p, results.back().at(i), results, whole[i]);
  }
  for (size_t i = 0; i < q.effects.size(); ++i)
    if (q.outputs[i] != nullptr && !runs.output(i).partial_dims.empty())
      check_fold(q, i, runs.output(i), results, whole[i]);
}

}  // namespace lockstep::oracle
