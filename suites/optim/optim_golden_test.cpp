// SPDX-License-Identifier: Apache-2.0
// Optimizers against what others' made of the same numbers (golden/optim.json): torch.optim.Muon of the
// pinned wheel, and the codes of bitsandbytes. Bit by bit, the engine's and the oracle's.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/optim/muon.h"
#include "engine/values/spec.h"
#include "kernels/operators/dynamic_map.h"
#include "kernels/operators/operators.h"
#include "oracle/program/schema.h"
#include "oracle/reference/blocks.h"
#include "oracle/reference/update.h"

namespace lockstep::suites {
namespace {

using Json = nlohmann::json;

Json golden() {
  std::ifstream file(LOCKSTEP_GOLDEN_OPTIM);
  return Json::parse(file);
}

// As golden/record_optim.py says them.
at::Tensor numbers(int64_t rows, int64_t columns, int64_t seed, at::ScalarType dtype) {
  const auto all = at::arange(rows * columns).mul(7919).add(104729 * seed).remainder(251).sub(125).div(64);
  return all.view({rows, columns}).to(dtype);
}

at::Tensor of_bits(const std::string& hex, at::IntArrayRef shape, at::ScalarType dtype) {
  const auto tensor = at::empty(shape, dtype);
  const auto width = c10::elementSize(dtype);
  auto* bytes = static_cast<uint8_t*>(tensor.mutable_data_ptr());
  for (size_t i = 0; i < static_cast<size_t>(tensor.numel()); ++i) {
    uint32_t value = 0;
    const char* digits = hex.data() + 2 * width * i;
    std::from_chars(digits, digits + 2 * width, value, 16);
    for (size_t b = 0; b < width; ++b) bytes[width * i + b] = static_cast<uint8_t>(value >> 8 * b);
  }
  return tensor;
}

void expect_same(const at::Tensor& expected, const at::Tensor& actual, const std::string& what) {
  const auto as_bits = [](const at::Tensor& t) {
    return t.detach().contiguous().view(c10::elementSize(t.scalar_type()) == 4   ? at::kInt
                                        : c10::elementSize(t.scalar_type()) == 2 ? at::kShort
                                                                                 : at::kByte);
  };
  EXPECT_TRUE(at::equal(as_bits(expected), as_bits(actual))) << what;
}

// Catches: a coefficient, an order of operators, a scale, a decay that are not torch's; on both sides.
TEST(OptimGolden, MuonIsTorchs) {
  const auto all = golden()["muon"];
  ASSERT_GE(all.size(), 8U);
  for (const auto& one : all) {
    const auto rows = one["rows"].get<int64_t>(), columns = one["columns"].get<int64_t>();
    const auto dtype = one["dtype"].get<std::string>() == "bfloat16" ? at::kBFloat16 : at::kFloat;
    const bool by_rms = one.contains("adjust_lr_fn");
    const optim::MuonOptions options{
        .lr = 0.05,
        .weight_decay = one.value("weight_decay", 0.1),
        .momentum = one.value("momentum", 0.95),
        .nesterov = one.value("nesterov", true),
        .ns_steps = one.value("ns_steps", int64_t{5}),
        .adjust_lr = by_rms ? optim::AdjustLr::kMatchRmsAdamW : optim::AdjustLr::kOriginal};
    const auto mine = numbers(rows, columns, 1, dtype).requires_grad_(), theirs = mine.detach().clone();
    optim::Muon muon({mine}, options);
    oracle::ReferenceOptimizer reference({theirs}, {.update = oracle::Update::kMuon,
                                                    .lr = 0.05,
                                                    .weight_decay = options.weight_decay,
                                                    .eps = 1e-7,
                                                    .momentum = options.momentum,
                                                    .nesterov = options.nesterov,
                                                    .coefficients = {3.4445, -4.7750, 2.0315},
                                                    .iterations = options.ns_steps,
                                                    .by_rms = by_rms});
    for (int64_t step = 0; step < 3; ++step) {
      mine.mutable_grad() = numbers(rows, columns, 2 + step, dtype);
      theirs.mutable_grad() = mine.grad().clone();
      muon.step();
      reference.step();
    }
    const auto what = one.dump().substr(0, 80);
    const auto parameter = of_bits(one["parameter"].get<std::string>(), {rows, columns}, dtype);
    const auto momentum = of_bits(one["momentum_buffer"].get<std::string>(), {rows, columns}, dtype);
    expect_same(parameter, mine, what);
    expect_same(momentum, muon.momentum()[0], what);
    expect_same(parameter, theirs, what);
    expect_same(momentum, reference.memory(0)[0], what);
  }
}

// Catches: an entry of the map, a scale, a tie that are not bitsandbytes'; on both sides.
TEST(OptimGolden, CodesAreBitsandbytes) {
  define_operators();
  const auto all = golden()["codes"];
  ASSERT_EQ(all.size(), 2U);
  for (const auto& one : all) {
    const bool is_signed = one["signed"].get<bool>();
    const int64_t columns = one["columns"].get<int64_t>(), rows = 32;
    const auto& map = dynamic_map(is_signed);
    expect_same(of_bits(one["map"].get<std::string>(), {256}, at::kFloat),
                at::from_blob(const_cast<float*>(map.data()), {256}, at::kFloat), "the map");
    const auto values = of_bits(one["values"].get<std::string>(), {rows, columns}, at::kFloat);
    const auto codes = of_bits(one["codes"].get<std::string>(), {rows, columns}, at::kByte);
    const auto scales = of_bits(one["scales"].get<std::string>(), {rows, 1}, at::kFloat);
    // A block of theirs is a row here.
    torch::jit::Stack stack{values, is_signed, int64_t{1}, columns};
    const auto mine = oracle::call_boxed(oracle::find_operator("optim::quantize_tiles"), stack);
    expect_same(codes, mine[0], "codes");
    expect_same(scales, mine[1], "scales");
    const auto entries = of_bits(one["map"].get<std::string>(), {256}, at::kFloat);
    const auto lower = codes.slice(0, 0, 4).flatten().to(at::kLong).clamp_max(254),
               scaled = values.slice(0, 0, 4).flatten();
    const auto below = scaled - entries.index_select(0, lower),
               above = entries.index_select(0, lower + 1) - scaled;
    EXPECT_GT(at::sum(below.eq(above)).item<int64_t>(), 50) << "ties";
    for (int64_t row = 0; row < rows; ++row) {
      const auto theirs = oracle::in_tiles(values[row].view({1, columns}), is_signed, columns);
      expect_same(codes[row], theirs.codes.flatten(), "the oracle's codes");
      expect_same(scales[row], theirs.scales.flatten(), "the oracle's scales");
    }
  }
}

}  // namespace
}  // namespace lockstep::suites
