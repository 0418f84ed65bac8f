// SPDX-License-Identifier: Apache-2.0
// The cells that golden/record records.
#include "engine/values/spec.h"
#include "engine/values/text.h"
#include "suites/golden/compare_golden.h"

namespace lockstep::suites {
namespace {

struct Row {
  const char* op;
  Arguments arguments;
  const char* dtypes;     // all at the small sizes; the first one beyond one element a thread
  bool long_too = false;  // the first dtype also beyond one Philox block a thread
};

constexpr const char* kReal = "f32 f64 bf16 f16";
constexpr const char* kAny = "f32 f64 bf16 f16 i64 i32 i16 i8 u8";
constexpr const char* kAnyAndBool = "f32 f64 bf16 f16 i64 i32 i16 i8 u8 bool";

const Row kRows[] = {
    {"rand", {}, kReal, true},
    {"rand", {}, "f64", true},
    {"randn", {}, kReal, true},
    {"randn", {}, "f64", true},
    {"uniform_", {{"from", "-0.5"}, {"to", "0.5"}}, kReal},
    {"normal_", {{"mean", "0.25"}, {"std", "1.5"}}, kReal},
    {"log_normal_", {{"mean", "0.25"}, {"std", "1.5"}}, kReal},
    {"exponential_", {{"lambd", "1.5"}}, kReal},
    {"cauchy_", {{"median", "0.5"}, {"sigma", "2"}}, kReal},
    {"geometric_", {{"p", "0.3"}}, kAny},
    {"random_", {}, "i64 f32 f64 bf16 f16 i32 i16 i8 u8 bool"},
    {"random_", {{"from", "-9223372036854775808"}}, "i64 f32 f64 bf16"},
    {"random_", {{"from", "-7"}, {"to", "100"}}, "i32 i64 i16 i8 f32"},
    {"randint", {{"high", "1000"}}, "i64 i32 i16 f32 f64", true},
    {"randint", {{"high", "1099511627776"}}, "i64 f64", true},
    {"bernoulli_", {{"p", "0.3"}}, kAnyAndBool},
    {"bernoulli", {{"p", "0.3"}}, "f32 f64 bf16 bool"},
    {"native_dropout", {{"p", "0.1"}}, kReal, true},
    {"native_dropout", {{"p", "0.1"}}, "bf16", true},
    {"rrelu", {}, kReal},
};

RandomCell cell(const DeviceModel& device, const Row& row, std::string_view dtype,
                std::vector<int64_t> shape) {
  RandomCell c;
  c.op = row.op;
  c.arguments = row.arguments;
  c.form.dtype = parse_dtype(dtype);
  c.form.stride = contiguous_strides(shape);
  c.form.shape = std::move(shape);
  c.device = device;
  c.state = {1234, 8};
  return c;
}

void add(std::vector<RandomCell>& cells, RandomCell c) {
  if (std::find(cells.begin(), cells.end(), c) == cells.end()) cells.push_back(std::move(c));
}

// Sizes of one dimension: one block and its neighbours, a thousand, and where threads begin to take a second
// element (of another lane) and a second block.
void add_sizes(std::vector<RandomCell>& cells, const DeviceModel& device) {
  const int64_t threads = device.sm_count * (device.threads_per_sm / 256) * 256;
  for (const auto& row : kRows) {
    const auto dtypes = split(row.dtypes, ' ');
    for (const auto dtype : dtypes)
      for (const int64_t n : {1, 257, 1000}) add(cells, cell(device, row, dtype, {n}));
    add(cells, cell(device, row, dtypes[0], {threads}));
    add(cells, cell(device, row, dtypes[0], {threads + 1}));
    if (row.long_too) add(cells, cell(device, row, dtypes[0], {4 * threads + 1}));
  }
}

// Several dimensions, and memory orders: transposed, channels last, a slice of columns, every second element.
void add_orders(std::vector<RandomCell>& cells, const DeviceModel& device) {
  const TensorForm forms[] = {
      {{40, 50}, {50, 1}, {}}, {{40, 50}, {1, 40}, {}}, {{4, 6, 5, 7}, {210, 1, 42, 6}, {}},
      {{100, 4}, {8, 1}, {}},  {{500}, {2}, {}},        {{2, 3, 4, 5, 6}, {360, 120, 30, 6, 1}, {}}};
  for (const auto& row : kRows)
    for (const auto& form : forms) {
      auto c = cell(device, row, split(row.dtypes, ' ')[0], form.shape);
      c.form.stride = form.stride;
      add(cells, c);
    }
}

// Seeds and offsets of all 64 bits.
void add_states(std::vector<RandomCell>& cells, const DeviceModel& device) {
  const RandomState states[] = {
      {0, 0}, {0x8000000000000001, 4}, {~uint64_t{0}, 0x400000004}, {42, 0x3fffffffc}};
  for (const auto& row :
       {Row{"rand", {}, "f32"}, Row{"randn", {}, "f32"}, Row{"randint", {{"high", "1000"}}, "i64"},
        Row{"native_dropout", {{"p", "0.5"}}, "bf16"}, Row{"rand", {}, "f64"}})
    for (const auto& state : states) {
      auto c = cell(device, row, row.dtypes, {1000});
      c.state = state;
      add(cells, c);
    }
}

// Operators whose result is no filled tensor.
void add_others(std::vector<RandomCell>& cells, const DeviceModel& device) {
  for (const int64_t n : {1, 5, 1000, 21272, 21273, 30083, 30084})
    add(cells, cell(device, {"randperm", {}, "i64"}, "i64", {n}));
  for (const std::string samples : {"1", "3"})
    add(cells, cell(device, {"multinomial", {{"num_samples", samples}}, "f32"}, "f32", {7, 50}));
  add(cells, cell(device, {"multinomial", {{"num_samples", "300"}, {"replacement", "true"}}, "f32"}, "f32",
                  {7, 50}));
  for (const auto* op : {"feature_dropout", "alpha_dropout", "feature_alpha_dropout"})
    add(cells, cell(device, {op, {{"p", "0.1"}}, "f32"}, "f32", {20, 30, 4}));
  for (const auto* op : {"kaiming_uniform_", "xavier_uniform_"})
    add(cells, cell(device, {op, {}, "f32"}, "f32", {64, 96}));
}

}  // namespace

std::vector<RandomCell> golden_matrix(const DeviceModel& device) {
  std::vector<RandomCell> cells;
  add_sizes(cells, device);
  add_orders(cells, device);
  add_states(cells, device);
  add_others(cells, device);
  return cells;
}

std::vector<RandomCell> golden_giants(const DeviceModel& device) {
  const auto giant = [&](const Row& row, int bytes) {
    return cell(device, row, row.dtypes, {(int64_t{1} << 31) / bytes + 1});
  };
  return {giant({"rand", {}, "f32"}, 4), giant({"rand", {}, "bf16"}, 2), giant({"rand", {}, "f64"}, 8),
          giant({"randn", {}, "f32"}, 4), giant({"randint", {{"high", "1000"}}, "i64"}, 8)};
}

}  // namespace lockstep::suites
