// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/matching.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "engine/values/error.h"

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

// The overload of the same op with the same arguments but for the outs.
const Operator* functional_of(const Operator& op) {
  thread_local std::unordered_map<const Operator*, const Operator*> known;
  const auto found = known.find(&op);
  if (found != known.end()) return found->second;
  const auto base = stem(op.name);
  const auto outs = std::count_if(op.args.begin(), op.args.end(), [](const ArgInfo& a) { return a.written; });
  const size_t n = op.args.size() - static_cast<size_t>(outs);
  const Operator* result = nullptr;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name != base) continue;
    const Operator& other = find_operator(c10::toString(name));
    const auto same = [](const ArgInfo& a, const ArgInfo& b) { return a.name == b.name && a.kind == b.kind; };
    if (!other.writes && other.args.size() == n &&
        std::equal(other.args.begin(), other.args.end(), op.args.begin(), same))
      result = &other;
  }
  return known[&op] = result;
}

// An op on one tensor and constants, with a result of its own.
RecordedOp made_of(const char* name, const Window& input, std::vector<c10::IValue> constants,
                   const Recording& recording) {
  RecordedOp op;
  op.op = &find_operator(name);
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

std::string match_outputs(const RecordedOp& op, const std::vector<Effect>& effects,
                          const TimelineEntry& entry, std::vector<const TensorRecord*>& records) {
  records.assign(effects.size(), nullptr);
  const size_t n = entry.outputs.size();
  if (n != effects.size() && n != op.results.size())
    return concat("it has ", n, " results, where the plain run has ", effects.size());
  for (size_t i = 0; i < n; ++i) {
    const bool defined = entry.outputs[i].spec != nullptr && !entry.outputs[i].digests.empty();
    if (defined != effects[i].window.defined())
      return concat("result ", i, " is ", defined ? "defined" : "undefined", ", unlike the plain run's");
    if (defined) records[i] = &entry.outputs[i];
  }
  return "";
}

std::string match_arguments(const RecordedOp& op, const TimelineEntry& entry) {
  if (entry.args.size() != op.args.size()) return "it has another number of arguments than the plain run's";
  for (size_t a = 0; a < op.args.size(); ++a) {
    if (op.tensors_per_arg[a] >= 0 || entry.tensors_per_arg[a] > 0 || is_placement_argument(op.op->args[a]))
      continue;
    if (op.op->args[a].kind == ArgKind::kTensor || same_value(op.args[a], entry.args.at(a))) continue;
    return concat("argument ", a, " (", op.op->args[a].name, ") is ", entry.args[a],
                  ", where the plain run has ", op.args[a]);
  }
  return "";
}

std::vector<RecordedOp> as_functional(const RecordedOp& op, const Recording& recording) {
  if (op.written.size() != 1 || op.results.size() != 1 || !op.op->args.back().written) return {};
  const Operator* functional = functional_of(*op.op);
  if (functional == nullptr) return {};
  RecordedOp run = op;
  run.op = functional;
  run.args.pop_back();
  run.tensors_per_arg.pop_back();
  run.inputs.pop_back();
  run.written.clear();
  // An empty `out` takes the result over.
  if (op.inputs.back().shape != op.results[0].shape) {
    run.results = op.results;
    return {std::move(run)};
  }
  Tensors inputs;
  for (const Window& w : run.inputs) inputs.push_back(recording.read(w));
  const at::Tensor value = apply(run, {Effect{.window = op.results[0], .result = 0}}, std::move(inputs))[0];
  run.results = {recording.window(value)};
  RecordedOp copy;
  copy.op = &find_operator("aten::copy_");
  copy.args = {c10::IValue(), c10::IValue(), false};
  copy.tensors_per_arg = {1, 1, -1};
  copy.inputs = {op.inputs.back(), run.results[0]};
  copy.results = op.results;
  copy.written = {0};
  return {std::move(run), std::move(copy)};
}

std::vector<RecordedOp> as_divided_sum(const RecordedOp& op, const Recording& recording) {
  const Window &self = op.inputs.at(0), &result = op.results.at(0);
  const bool is_short = at::isReducedFloatingType(result.dtype);
  const bool named = op.args.size() > 2;  // self, dim, keepdim, dtype; or self, dtype
  std::vector<c10::IValue> over(op.args.begin() + 1, op.args.end() - 1);
  over.emplace_back(is_short ? at::kFloat : result.dtype);
  int64_t count = 1;
  std::vector<bool> reduced(self.shape.size(),
                            !named || op.args[1].isNone() || op.args[1].toIntVector().empty());
  if (named && !op.args[1].isNone())
    for (const int64_t d : op.args[1].toIntVector())
      if (!reduced.empty()) reduced[static_cast<size_t>(d < 0 ? d + std::ssize(reduced) : d)] = true;
  for (size_t d = 0; d < reduced.size(); ++d) count *= reduced[d] ? self.shape[d] : 1;
  std::vector<RecordedOp> parts{
      made_of(named ? "aten::sum.dim_IntList" : "aten::sum", self, std::move(over), recording)};
  parts.push_back(made_of("aten::div.Scalar", parts[0].results[0], {count}, recording));
  if (is_short)
    parts.push_back(
        made_of("aten::_to_copy", parts[1].results[0], {result.dtype, {}, {}, {}, false, {}}, recording));
  parts.back().results = op.results;
  return parts;
}

}  // namespace lockstep::oracle
