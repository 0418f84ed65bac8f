// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/licence.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "oracle/judge/families.h"

namespace lockstep::oracle {
namespace {

constexpr std::string_view kEvery = "sum avg max min product", kLinear = "sum avg", kOrder = "max min",
                           kElementwise = "sum avg max min";

// Not constexpr: mutants stand in it (ci/mutants/hand/judge.txt).
const auto kLicences = std::to_array<Licence>({
    {Operands::kNone, "sum", Provided::kNothing,
     "sum mm bmm addmm baddbmm mv dot embedding embedding_dense_backward convolution_backward "
     "native_layer_norm_backward _fused_rms_norm_backward experts::grouped_linear "
     "experts::grouped_linear_input experts::grouped_linear_weight",
     "it adds up what is cut, or one rank alone has the row and the others -0.0"},
    {Operands::kNone, "avg", Provided::kNothing, "mean", "the mean of the means of as many elements"},
    {Operands::kNone, "product", Provided::kNothing, "prod", "it multiplies what is cut"},
    {Operands::kNone, "max", Provided::kNothing, "amax max any", "the greatest of the greatest"},
    {Operands::kNone, "min", Provided::kNothing, "amin min all", "the least of the least"},

    {Operands::kAll, kEvery, Provided::kSameDtype,
     "alias as_strided clone copy detach diagonal expand flip lift_fresh lift_fresh_copy permute positive "
     "_reshape_alias "
     "roll select slice split split_with_sizes squeeze t _to_copy transpose unbind unsqueeze _unsafe_view "
     "view",
     "each element of the result is one of the input"},
    {Operands::kAll, kLinear, Provided::kCastOfTerms, "_to_copy",
     "a sum of casts is the cast of the sum, but for rounding: its dtype is the caller's to say"},
    {Operands::kAll, kElementwise, Provided::kSameDtype, "cat stack",
     "each element of the result is one of an input, and all pend alike"},
    {Operands::kFirst, kElementwise, Provided::kSameDtype, "index_select gather experts::permute_rows",
     "each element of the result is one of the input, at a place that does not pend"},
    {Operands::kAll, kLinear, Provided::kSameDtype, "tril triu", "and zeros, which sum up to zero"},
    {Operands::kAll, kLinear, Provided::kSameDtype, "sum mean", "sums may be exchanged"},
    {Operands::kAll, "max", Provided::kSameDtype, "amax max any", "maxima may be exchanged"},
    {Operands::kAll, "min", Provided::kSameDtype, "amin min all", "minima may be exchanged"},
    {Operands::kFirst, "sum", Provided::kNothing, "embedding_dense_backward", "it adds up rows"},
    {Operands::kAll, kLinear, Provided::kPositiveFactors, "add", "sums may be exchanged"},
    {Operands::kFirst, "sum", Provided::kPositiveFactors, "addmm baddbmm",
     "a term that pends is added once, to products that pend with it"},
    {Operands::kFirst, kLinear, Provided::kPositiveNumber, "mul div",
     "a multiple of a sum is the sum of the multiples; a positive one keeps the signs of zeros"},
    {Operands::kAll, kOrder, Provided::kSameDtype, "erf exp expm1 sigmoid tanh",
     "total and increasing: the image of the greatest is the greatest of the images"},

    {Operands::kAny, kEvery, Provided::kNothing,
     "empty_like full_like new_empty new_empty_strided new_full new_ones new_zeros ones_like zeros_like",
     "it reads no value"},
    {Operands::kAny, kEvery, Provided::kNothing,
     "bernoulli.p cauchy exponential geometric log_normal normal_functional rand_like randint_like "
     "randn_like "
     "random uniform",
     "it draws as many values as there are, and reads none"},
});

// One row of the op: what its tensors are on one mesh dimension. Lists of a foreach op are as many rows.
struct Row {
  std::vector<std::pair<size_t, ReduceOp>> takes, leaves;  // inputs and effects, and as what they pend
  std::vector<size_t> operands;                            // inputs that are tensors of the row
};

std::optional<ReduceOp> pends(const TensorRecord* record, int64_t dim) {
  if (record == nullptr) return std::nullopt;
  const auto* partial = std::get_if<Partial>(&record->spec->placements()[as_size(dim)]);
  return partial != nullptr ? std::optional(partial->op) : std::nullopt;
}

// Of a foreach op the place in its lists of each input, or -1: a tensor that all share.
std::vector<int64_t> places(const RecordedOp& op) {
  std::vector<int64_t> result;
  for (const int64_t n : op.tensors_per_arg)
    for (int64_t k = 0; k < n; ++k) result.push_back(n > 1 ? k : -1);
  return result;
}

std::vector<Row> rows_of(const OpInQuestion& q, int64_t dim) {
  const bool lists = q.op.op->name.starts_with("aten::_foreach_");
  const auto place = places(q.op);
  std::vector<Row> rows(lists ? std::max<size_t>(q.effects.size(), 1) : 1);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < q.inputs.size(); ++i) {
      if (!q.op.inputs[i].defined()) continue;
      if (lists && rows.size() > 1 && place[i] >= 0 && as_size(place[i]) != r) continue;
      rows[r].operands.push_back(i);
      if (const auto op = pends(q.inputs[i], dim)) rows[r].takes.emplace_back(i, *op);
    }
    for (size_t k = 0; k < q.outputs.size(); ++k)
      if (const auto op = pends(q.outputs[k], dim); op && (!lists || k == r))
        rows[r].leaves.emplace_back(k, *op);
  }
  return rows;
}

bool has(std::string_view words, std::string_view word) {
  const auto list = split(words, ' ');
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Of the operands' dtype, in which 1e39 may be infinite and 1e-50 nothing.
bool positive(const c10::IValue& value, c10::ScalarType dtype) {
  if (value.isInt() && c10::isIntegralType(dtype, true)) return value.toInt() > 0;
  if (!value.isInt() && !value.isDouble()) return false;
  const auto factor =
      at::scalar_tensor(value.toScalar(), at::kDouble).to(dtype).to(at::kDouble).item<double>();
  return factor > 0 && std::isfinite(factor);
}

bool same_dtype(const OpInQuestion& q, const Row& row) {
  return std::all_of(row.leaves.begin(), row.leaves.end(), [&](const auto& leaves) {
    return std::all_of(row.takes.begin(), row.takes.end(), [&](const auto& takes) {
      return q.op.inputs[takes.first].dtype == q.effects[leaves.first].window.dtype;
    });
  });
}

bool floating_dtypes(const OpInQuestion& q, const Row& row) {
  return std::all_of(row.takes.begin(), row.takes.end(),
                     [&](const auto& t) { return c10::isFloatingType(q.op.inputs[t.first].dtype); }) &&
         std::all_of(row.leaves.begin(), row.leaves.end(), [&](const auto& leaves) {
           return c10::isFloatingType(q.effects[leaves.first].window.dtype);
         });
}

// alpha and beta, and the lists or scalars that stand for them.
bool positive_factors(const RecordedOp& op, c10::ScalarType dtype) {
  for (size_t a = 0; a < op.args.size(); ++a)
    if ((op.op->args[a].name == "alpha" || op.op->args[a].name == "beta") && !positive(op.args[a], dtype))
      return false;
  return true;
}

// The operand that is no tensor of the mesh: a number among the arguments, or a plain tensor of one.
bool positive_number(const OpInQuestion& q, const Row& row, const Recording& recording) {
  const auto dtype = q.op.inputs[row.operands[0]].dtype;
  for (size_t a = 0; a < q.op.args.size(); ++a) {
    const auto& name = q.op.op->args[a].name;
    if (name == "rounding_mode" && !q.op.args[a].isNone()) return false;
    if (name == "scalar" && q.op.tensors_per_arg[a] < 0) return positive(q.op.args[a], dtype);
    if (name == "other" && q.op.tensors_per_arg[a] < 0) return positive(q.op.args[a], dtype);
  }
  if (row.operands.size() != 2) return false;
  const size_t other = row.operands[1];
  if (q.inputs[other] != nullptr || q.op.inputs[other].numel() != 1) return false;
  return positive(recording.read(q.op.inputs[other]).to(at::kDouble).item<double>(), dtype);
}

bool is_provided(const Licence& l, const OpInQuestion& q, const Row& row, const Recording& recording) {
  switch (l.provided) {
    case Provided::kNothing:
      return true;
    case Provided::kSameDtype:
      return same_dtype(q, row);
    case Provided::kCastOfTerms:
      return q.entry.implicit && floating_dtypes(q, row);
    case Provided::kPositiveFactors:
      return same_dtype(q, row) && positive_factors(q.op, q.op.inputs[row.operands[0]].dtype);
    case Provided::kPositiveNumber:
      return same_dtype(q, row) && positive_number(q, row, recording);
  }
  return false;
}

bool operands_fit(const Licence& l, const Row& row) {
  switch (l.operands) {
    case Operands::kNone:
      return row.takes.empty() && !row.leaves.empty();
    case Operands::kAll:
      return row.takes.size() == row.operands.size() && !row.leaves.empty();
    case Operands::kFirst:
      return row.takes.size() == 1 && row.takes[0].first == row.operands[0] && !row.leaves.empty();
    case Operands::kAny:
      return row.leaves.empty();
  }
  return false;
}

bool reductions_fit(const Licence& l, const Row& row) {
  const auto& first = (row.takes.empty() ? row.leaves : row.takes).front().second;
  const auto fits = [&](const auto& pending) {
    return has(l.reductions, name(pending.second)) && pending.second == first;
  };
  return std::all_of(row.takes.begin(), row.takes.end(), fits) &&
         std::all_of(row.leaves.begin(), row.leaves.end(), fits);
}

bool allows(const Licence& l, const OpInQuestion& q, const Row& row, const Recording& recording) {
  const auto& name = q.op.op->name;
  return (has(l.ops, family_key(name)) || has(l.ops, std::string_view(name).substr(6))) &&
         operands_fit(l, row) && (l.operands == Operands::kAny || reductions_fit(l, row)) &&
         is_provided(l, q, row, recording);
}

}  // namespace

std::span<const Licence> licences() {
  return kLicences;
}

std::string unlicensed(const OpInQuestion& q, const Recording& recording) {
  int64_t dims = 0;
  for (const auto& records : {q.inputs, q.outputs})
    for (const TensorRecord* r : records)
      if (r != nullptr) dims = r->spec->mesh().ndim();
  for (int64_t d = 0; d < dims; ++d)
    for (const Row& row : rows_of(q, d)) {
      if (row.takes.empty() && row.leaves.empty()) continue;
      if (std::any_of(kLicences.begin(), kLicences.end(),
                      [&](const Licence& l) { return allows(l, q, row, recording); }))
        continue;
      return concat("no licence allows it to ",
                    row.takes.empty() ? "leave a reduction that pends"
                    : row.leaves.empty()
                        ? "read terms of a reduction that pends as values"
                        : "pass a reduction that pends, on these operands with these factors,",
                    " over mesh dimension ", d);
    }
  return "";
}

}  // namespace lockstep::oracle
