// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/matching.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "engine/values/error.h"
#include "oracle/judge/judge_op.h"
#include "oracle/ownership/compare.h"

namespace lockstep::oracle {
namespace {

// Arguments that say where a tensor lives, how it lies in memory or who draws, not what its values are.
bool is_placement_argument(const ArgInfo& info) {
  return info.name == "generator" || info.name == "layout" || info.name == "device" ||
         info.name == "pin_memory" || info.name == "non_blocking" || info.name == "memory_format";
}

bool same_value(const c10::IValue& a, const c10::IValue& b) {
  if (a.isDouble() && b.isDouble())
    return std::bit_cast<uint64_t>(a.toDouble()) == std::bit_cast<uint64_t>(b.toDouble());
  if (a.isDoubleList() && b.isDoubleList()) {
    const auto x = a.toDoubleVector(), y = b.toDoubleVector();
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](double p, double q) {
      return std::bit_cast<uint64_t>(p) == std::bit_cast<uint64_t>(q);
    });
  }
  return a.tagKind() == b.tagKind() && a == b;
}

// The inputs that argument `a` took, as [begin, end).
std::pair<size_t, size_t> range_of(const RecordedOp& op, size_t a) {
  size_t begin = 0;
  for (size_t i = 0; i < a; ++i) begin += static_cast<size_t>(std::max<int64_t>(op.tensors_per_arg[i], 0));
  return {begin, begin + static_cast<size_t>(std::max<int64_t>(op.tensors_per_arg[a], 0))};
}

// Which inputs of an argument the `count` listed ones are: all that are defined, but for those that the
// engine may hold as plain tensors.
std::optional<std::vector<size_t>> listed_inputs(const RecordedOp& op, std::pair<size_t, size_t> range,
                                                 size_t count, const IsPlain& is_plain) {
  const std::array<std::function<bool(const Window&)>, 5> omitted = {
      [](const Window&) { return false; }, [&](const Window& w) { return w.numel() == 1 && is_plain(w); },
      [&](const Window& w) { return is_plain(w); }, [](const Window& w) { return w.numel() == 1; },
      [&](const Window& w) { return w.numel() == 1 || is_plain(w); }};
  for (const auto& omits : omitted) {
    std::vector<size_t> listed;
    for (size_t i = range.first; i < range.second; ++i)
      if (op.inputs[i].defined() && !omits(op.inputs[i])) listed.push_back(i);
    if (listed.size() == count) return listed;
  }
  return std::nullopt;
}

// An op on one tensor and constants, with a result of its own.
RecordedOp made_of(const char* name, const Window& input, std::vector<c10::IValue> constants,
                   const Recording& recording) {
  RecordedOp op;
  op.op = &find_operator(name);
  op.device = recording.device;
  op.inputs = {input};
  op.args = std::move(constants);
  op.args.insert(op.args.begin(), c10::IValue());
  op.tensors_per_arg.assign(op.args.size(), -1);
  op.tensors_per_arg[0] = 1;
  const at::Tensor value = apply(op, {Effect{.window = input, .result = 0}}, {recording.read(input)})[0];
  op.results = {recording.window(value)};
  return op;
}

}  // namespace

std::string match_inputs(const RecordedOp& op, const TimelineEntry& entry, const IsPlain& is_plain,
                         std::vector<const TensorRecord*>& records) {
  records.assign(op.inputs.size(), nullptr);
  if (entry.tensors_per_arg.size() != op.args.size())
    return concat("it has ", entry.tensors_per_arg.size(), " arguments, where the plain run has ",
                  op.args.size());
  size_t next = 0;
  for (size_t a = 0; a < op.args.size(); ++a) {
    const auto count = static_cast<size_t>(std::max<int64_t>(entry.tensors_per_arg[a], 0));
    if (next + count > entry.inputs.size()) return "its arguments name more tensors than it lists";
    const auto listed = listed_inputs(op, range_of(op, a), count, is_plain);
    if (!listed)
      return concat("argument ", a, " (", op.op->args[a].name, ") has ", count,
                    " tensors, unlike the plain run's");
    for (const size_t i : *listed) records[i] = &entry.inputs[next++];
  }
  return next == entry.inputs.size() ? "" : "it lists more tensors than its arguments name";
}

// A kernel may give a gradient that its caller does not ask for: oneDNN's of a convolution gives the weight's
// with the bias's.
bool is_asked_for(const RecordedOp& op, size_t result) {
  for (size_t a = 0; a < op.args.size(); ++a)
    if (op.op->args[a].name == "output_mask" && op.args[a].isBoolList())
      return result >= op.args[a].toBoolList().size() || op.args[a].toBoolList().get(result);
  return true;
}

std::string match_offset(const RecordedOp& op, const TimelineEntry& entry) {
  const auto wanted = op.stream ? std::optional(op.stream->state.offset) : std::nullopt;
  if (wanted == entry.random_offset) return {};
  return concat("it draws at offset ", entry.random_offset.value_or(0),
                " of the stream, where the single device is at ", wanted.value_or(0));
}

std::string match_outputs(const RecordedOp& op, const std::vector<Effect>& effects,
                          const TimelineEntry& entry, std::vector<const TensorRecord*>& records) {
  records.assign(effects.size(), nullptr);
  const size_t n = entry.outputs.size();
  if (n != effects.size() && n != op.results.size())
    return concat("it has ", n, " results, where the plain run has ", effects.size());
  for (size_t i = 0; i < n; ++i) {
    const bool defined = entry.outputs[i].spec != nullptr && !entry.outputs[i].digests.empty();
    if (defined != effects[i].window.defined() && (defined || is_asked_for(op, i)))
      return concat("result ", i, " is ", defined ? "defined" : "undefined", ", unlike the plain run's");
    if (!defined) continue;
    records[i] = &entry.outputs[i];
    const auto dtype = records[i]->spec->dtype(), wanted = effects[i].window.dtype;
    if (dtype != wanted)
      return concat("result ", i, " is said to be ", dtype_name(dtype), ", and is ", dtype_name(wanted));
  }
  return "";
}

namespace {

// Strides behind the sizes that they are of: of a dimension of one element there are none.
bool same_strides(const RecordedOp& op, const TimelineEntry& entry, size_t a) {
  const auto& args = op.op->args;
  if (a == 0 || args[a].name != "stride" || args[a - 1].name != "size") return false;
  if (!op.args[a - 1].isIntList() || !op.args[a].isIntList() || !entry.args.at(a).isIntList()) return false;
  const auto sizes = op.args[a - 1].toIntVector(), plain = op.args[a].toIntVector(),
             engine = entry.args[a].toIntVector();
  if (sizes.size() != plain.size() || sizes.size() != engine.size()) return false;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1 && plain[d] != engine[d]) return false;
  return true;
}

}  // namespace

std::optional<RecordedOp> as_read(const RecordedOp& op, std::span<const TimelineEntry> timeline,
                                  Shadow& shadow) {
  const TimelineEntry& entry = timeline.back();
  const auto counts = std::ranges::find(op.op->args, "counts", &ArgInfo::name);
  const auto a = static_cast<size_t>(counts - op.op->args.begin());
  if (a >= std::min(op.args.size(), entry.args.size()) || !op.args[a].isIntList() ||
      !entry.args[a].isIntList() || op.args[a] == entry.args[a])
    return std::nullopt;
  const auto plain = op.args[a].toIntVector(), own = entry.args[a].toIntVector();
  for (const TimelineEntry& read : timeline) {
    if (!read.outputs.empty() || read.inputs.size() != 1 || !shadow.has_numbers(read.inputs[0], plain, own))
      continue;
    RecordedOp result = op;
    result.args[a] = entry.args[a];
    return result;
  }
  return std::nullopt;
}

std::string match_arguments(const RecordedOp& op, const TimelineEntry& entry) {
  if (entry.args.size() != op.args.size()) return "it has another number of arguments than the plain run's";
  for (size_t a = 0; a < op.args.size(); ++a) {
    if (op.tensors_per_arg[a] >= 0 || entry.tensors_per_arg[a] > 0 || is_placement_argument(op.op->args[a]))
      continue;
    if (op.op->args[a].kind == ArgKind::kTensor || same_value(op.args[a], entry.args.at(a)) ||
        same_strides(op, entry, a))
      continue;
    return concat("argument ", a, " (", op.op->args[a].name, ") is ", entry.args[a],
                  ", where the plain run has ", op.args[a]);
  }
  return "";
}

std::vector<RecordedOp> as_functional(const RecordedOp& op, const Recording& recording) {
  const size_t outs = op.written.size();
  const bool writes_results = outs > 0 && op.results.size() == outs && op.op->args.back().written;
  const Operator* functional = writes_results ? functional_of(*op.op) : nullptr;
  if (functional == nullptr) return {};
  RecordedOp run = op;
  run.op = functional;
  run.args.resize(op.args.size() - outs);
  run.tensors_per_arg.resize(op.args.size() - outs);
  run.inputs.resize(op.inputs.size() - outs);
  run.written.clear();
  // Where the dtype of a sum may be chosen, it is that of the tensor which it is written to.
  for (size_t a = 0; a < run.args.size(); ++a)
    if (functional->args[a].name == "dtype" && run.args[a].isNone()) run.args[a] = op.results[0].dtype;
  std::vector<Effect> made;
  for (const Window& w : op.results) made.push_back({.window = w, .result = std::ssize(made)});
  Tensors inputs;
  for (const Window& w : run.inputs) inputs.push_back(recording.read(w));
  const auto computed = functional->random ? draw_again : apply;
  const Tensors values = computed(run, made, inputs);
  // Both must be one computation. How an out lies in memory, or its dtype, may choose another loop of a
  // kernel.
  for (size_t k = 0; k < outs; ++k) inputs.push_back(at::empty_like(values[k], op.results[k].dtype));
  const Tensors written = computed(op, made, std::move(inputs));
  for (size_t k = 0; k < outs; ++k) {
    const at::Tensor value = values[k].to(op.results[k].dtype);
    const bool converts = value.scalar_type() != values[k].scalar_type();
    if (converts ? !are_near(written[k], value, values[k].scalar_type())
                 : !compare(written[k], value).equal())
      return {};
  }
  std::vector<RecordedOp> parts{run};
  for (size_t k = 0; k < outs; ++k) {
    const Window& out = op.inputs[run.inputs.size() + k];
    if (out.shape != op.results[k].shape) continue;  // an empty one takes the result over
    parts[0].results[k] = recording.window(values[k]);
    RecordedOp copy;
    copy.op = &find_operator("aten::copy_");
    copy.device = recording.device;
    copy.args = {c10::IValue(), c10::IValue(), false};
    copy.tensors_per_arg = {1, 1, -1};
    copy.inputs = {out, parts[0].results[k]};
    copy.results = {op.results[k]};
    copy.written = {0};
    copy.terms_of_loop = 0;
    parts.push_back(std::move(copy));
  }
  return parts;
}

static std::vector<RecordedOp> as_divided_sum(const RecordedOp& op, const Recording& recording) {
  const Window &self = op.inputs.at(0), &result = op.results.at(0);
  const bool is_short = at::isReducedFloatingType(result.dtype);
  const bool named = op.args.size() > 2;  // self, dim, keepdim, dtype; or self, dtype
  std::vector<c10::IValue> over(op.args.begin() + 1, op.args.end() - 1);
  if (named && over[0].isNone()) over[0] = std::vector<int64_t>();  // over all, as the engine says it
  over.emplace_back(is_short ? at::kFloat : result.dtype);
  int64_t count = 1;
  std::vector<bool> reduced(self.shape.size(),
                            !named || op.args[1].isNone() || op.args[1].toIntVector().empty());
  if (named && !op.args[1].isNone())
    for (const int64_t d : op.args[1].toIntVector())
      if (!reduced.empty()) reduced[static_cast<size_t>(d < 0 ? d + std::ssize(reduced) : d)] = true;
  for (size_t d = 0; d < reduced.size(); ++d) count *= reduced[d] ? self.shape[d] : 1;
  std::vector<RecordedOp> parts;
  const auto add = [&](const char* name, const Window& of, std::vector<c10::IValue> constants) {
    parts.push_back(made_of(name, of, std::move(constants), recording));
    return parts.back().results[0];
  };
  const std::vector<c10::IValue> to_short{result.dtype, {}, {}, {}, false, {}};
  // A CUDA kernel rounds what it reads to the dtype that it is asked for.
  const bool rounds = is_short && self.dtype != result.dtype && recording.device.is_cuda();
  const Window read = rounds ? add("aten::_to_copy", self, to_short) : self;
  const Window sum = add(named ? "aten::sum.dim_IntList" : "aten::sum", read, std::move(over));
  const Window mean = add("aten::div.Scalar", sum, {count});
  if (is_short) add("aten::_to_copy", mean, to_short);
  parts.back().results = op.results;
  return parts;
}

static std::vector<RecordedOp> as_list_of_norms(const RecordedOp& op, const Recording& recording) {
  std::vector<RecordedOp> norms;
  for (size_t k = 0; k < op.results.size(); ++k) {
    norms.push_back(made_of("aten::linalg_vector_norm", op.inputs[k],
                            {op.args.at(1), {}, false, op.args.at(2)}, recording));
    norms.back().results = {op.results[k]};
  }
  return norms;
}

static std::vector<RecordedOp> as_root_of_sum(const RecordedOp& op, const Recording& recording) {
  const Window &self = op.inputs.at(0), &result = op.results.at(0);
  const double order = op.args.at(1).isNone() ? 2 : op.args[1].toScalar().toDouble();
  std::vector<int64_t> over;
  bool keeps = false;
  for (size_t a = 2; a < op.args.size(); ++a) {
    if (op.op->args[a].name == "dim" && !op.args[a].isNone()) over = op.args[a].toIntVector();
    if (op.op->args[a].name == "keepdim") keeps = op.args[a].toBool();
  }
  const auto dtype = at::isReducedFloatingType(result.dtype) ? at::kFloat : result.dtype;
  std::vector<RecordedOp> parts;
  const auto add = [&](const char* name, std::vector<c10::IValue> constants) {
    const Window& last = parts.empty() ? self : parts.back().results[0];
    parts.push_back(made_of(name, last, std::move(constants), recording));
  };
  const auto add_power = [&](double exponent) {
    if (exponent == -2) add("aten::reciprocal", {});
    add("aten::pow.Tensor_Scalar", {exponent == -2 ? 2 : exponent});
  };
  if (self.dtype != dtype) add("aten::_to_copy", {dtype, {}, {}, {}, false, {}});
  const bool is_root = order != 0 && order != 1 && !std::isinf(order);
  if (order == 0) add("aten::ne.Scalar", {0});
  if (order != 0 && order != 2) add("aten::abs", {});
  if (is_root) add_power(order);
  if (!std::isinf(order))
    add("aten::sum.dim_IntList", {over, keeps, dtype});
  else
    add(order > 0 ? "aten::amax" : "aten::amin", {over, keeps});
  if (order == 2) add("aten::sqrt", {});
  if (is_root && order != 2) add_power(1 / order);
  if (result.dtype != dtype) add("aten::_to_copy", {result.dtype, {}, {}, {}, false, {}});
  parts.back().results = op.results;
  // Of how many terms of one sign each result is, which the stock kernel adds in another order; a root of a
  // small order spreads what they round.
  const auto terms =
      static_cast<double>(self.numel()) / static_cast<double>(std::max<int64_t>(1, result.numel()));
  const double spread = is_root && std::abs(order) < 1 ? std::min(64.0, 1 / std::abs(order)) : 1;
  parts.back().terms_of_loop = order == 0 || std::isinf(order) ? 0 : terms * spread;
  return parts;
}

std::vector<RecordedOp> as_parts(const RecordedOp& op, const Recording& recording) {
  if (stem(op.op->name) == "aten::mean") return as_divided_sum(op, recording);
  return op.op->name == "aten::_foreach_norm.Scalar" ? as_list_of_norms(op, recording)
                                                     : as_root_of_sum(op, recording);
}

}  // namespace lockstep::oracle
