// SPDX-License-Identifier: Apache-2.0
// Law: eight random operators draw the single device's stream on the whole grid of 1 to 5 dimensions, four
// sizes, every dimension cut and every pair of them, evenly and not. Twice: whole tensors under a device so
// small that each thread draws many times, and samples of tensors of 262 KB to 16 GB under a real one.
// (veScale, table 4, and uneven cuts.)
#include <ATen/ATen.h>

#include <array>
#include <bit>

#include "engine/stream/random_source.h"
#include "engine/values/error.h"
#include "oracle/plain/crossings.h"
#include "oracle/plain/evaluate.h"
#include "oracle/program/values.h"
#include "oracle/random/literal_source.h"
#include "suites/core/facts.h"
#include "suites/core/judge.h"
#include "suites/laws/laws.h"
#include "suites/laws/sampled_draw.h"

namespace lockstep::suites {
namespace {

using oracle::Case;
using oracle::None;
using oracle::Ref;
using oracle::ValueKind;

struct GridOp {
  const char* op;
  std::vector<oracle::Arg> args;  // after the tensor
  ValueKind values;               // of the tensor
  int64_t results = 1;
};

const GridOp kOps[] = {
    {"aten::uniform_", {-0.5, 0.5, None{}}, ValueKind::kZeros},
    {"aten::normal_", {0.0, 0.02, None{}}, ValueKind::kZeros},
    {"aten::rand_like", {None{}, None{}, None{}, None{}, None{}}, ValueKind::kZeros},
    {"aten::randn_like", {None{}, None{}, None{}, None{}, None{}}, ValueKind::kZeros},
    {"aten::randint_like", {int64_t{1000}, None{}, None{}, None{}, None{}, None{}}, ValueKind::kZeros},
    {"aten::bernoulli_.float", {0.3, None{}}, ValueKind::kZeros},
    {"aten::bernoulli", {None{}}, ValueKind::kUniform},
    {"aten::native_dropout", {0.1, true}, ValueKind::kNormal, 2},
};

// Of a tensor of `ndim` dimensions, one that is cut or two.
struct Cut {
  int64_t ndim, first, second;  // second: -1 for one
};

const std::vector<Cut>& cuts() {
  static const auto all = [] {
    std::vector<Cut> list;
    for (int64_t ndim = 1; ndim <= 5; ++ndim)
      for (int64_t first = 0; first < ndim; ++first)
        for (int64_t second = first; second < ndim; ++second)
          list.push_back({ndim, first, second == first ? -1 : second});
    return list;
  }();
  return all;
}

constexpr int64_t kSizes = 4;
constexpr std::array<int64_t, kSizes> kWhole = {8, 11, 13, 15};     // log2 of the elements; held whole
constexpr std::array<int64_t, kSizes> kSampled = {16, 24, 28, 32};  // 262 KB, 64 MB, 1 GB, 16 GB of float32
constexpr int64_t kLargestWhole = int64_t{1} << 15;

// As near a cube as powers of two allow; uneven: each dimension one shorter, so that no even number divides
// it.
std::vector<int64_t> shape_of(int64_t ndim, int64_t log2_elements, bool even) {
  std::vector<int64_t> shape;
  for (int64_t d = 0; d < ndim; ++d) {
    const auto power = int64_t{1} << ((log2_elements + d) / ndim);
    shape.push_back(even || power < 4 ? power : power - 1);
  }
  return shape;
}

// Sizes of mesh dimensions, another for each size of tensor.
DeviceMesh mesh_of(const Cut& cut, int64_t size) {
  constexpr std::array<int64_t, kSizes> kOne = {2, 4, 8, 16}, kOther = {2, 2, 4, 8};
  if (cut.second < 0) return DeviceMesh({kOne[static_cast<size_t>(size)]});
  return DeviceMesh({kOther[static_cast<size_t>(size)], 2});
}

// What an operator asks of its source.
struct Noting : oracle::LiteralSource {
  std::vector<RandomCall> calls;
  void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel&, RandomState&) override {
    calls.push_back(call);
    out.zero_();  // it is read: a mask of anything else than booleans is no mask
  }
};

// The call of the case, learnt from one element: of these operators only shape and strides depend on the
// size.
RandomCall call_of(const Case& c) {
  Noting noting;
  const RandomScope scope(noting);
  const auto& input = c.program.inputs.at(0);
  const std::vector<int64_t> one(input.shape.size(), 1);
  oracle::run(c.program, {at::zeros(one, at::TensorOptions(input.dtype))}, oracle::on_one_device(c.mesh));
  LOCKSTEP_CHECK(noting.calls.size() == 1, "[grid] ", c.program.calls.at(0).op, " draws ",
                 noting.calls.size(), " times, not once");
  auto call = noting.calls[0];
  call.shape = input.shape;
  call.stride = contiguous_strides(input.shape);
  return call;
}

}  // namespace

int64_t grid_cases() {
  return std::ssize(kOps) * std::ssize(cuts()) * 2 * kSizes * 2;
}

// Cells stand in an order in which neighbours differ in everything, so that a prefix is a sample.
Case grid_case(uint64_t run_seed, int64_t index) {
  constexpr int64_t kStride = 1009;  // a prime that divides no count above
  int64_t cell = index * kStride % grid_cases();
  const auto next = [&cell](size_t of) {
    const auto digit = static_cast<size_t>(cell) % of;
    cell /= static_cast<int64_t>(of);
    return digit;
  };
  const auto& op = kOps[next(std::size(kOps))];
  const auto& cut = cuts()[next(cuts().size())];
  const bool even = next(2) == 0;
  const auto size = static_cast<int64_t>(next(kSizes));
  const bool sampled = next(2) == 1;
  Case c;
  c.suite = "grid";
  c.mesh = mesh_of(cut, size);
  c.device = sampled ? DeviceModel{} : DeviceModel{1 + index % 2, 256};
  const auto shape = shape_of(cut.ndim, (sampled ? kSampled : kWhole)[static_cast<size_t>(size)], even);
  c.program.seed = run_seed * 1'000'003 + static_cast<uint64_t>(index);
  c.program.inputs = {{c10::ScalarType::Float, shape, {}, {op.values, 0, 0, 0, {}}, false}};
  oracle::Call call{op.op, {Ref{0}}, op.results};
  call.args.insert(call.args.end(), op.args.begin(), op.args.end());
  c.program.calls = {call};
  oracle::Target target{{Shard{cut.first}}, {}};
  if (cut.second >= 0) target.placements.push_back(Shard{cut.second});
  c.placements = {target};
  return c;
}

Outcome judge_grid(const Case& c, EngineUnderTest& engine) {
  const auto spec = oracle::spec_of(c, 0);
  if (spec.numel() <= kLargestWhole) return judge_against_oracle(c, engine, Allowed::kEqual);
  // No engine holds such a tensor here: its closed form and its Layout are asked for single elements.
  if (!engine.profile().has(Flag::kClosedForm)) return left_out(name(Flag::kClosedForm));
  const auto wrong = first_wrong_sample(call_of(c), spec, {c.program.seed, 0}, c.device, c.program.seed);
  if (!wrong) return Passed{};
  return failed("grid", "value", c.program.calls.at(0).op, placement_pattern(c), dtype_name(spec.dtype()),
                *wrong);
}

}  // namespace lockstep::suites
