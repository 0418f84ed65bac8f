// SPDX-License-Identifier: Apache-2.0
#include "suites/golden/compare_golden.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "engine/random/random.h"
#include "engine/random/random_geometry.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::suites {
namespace {

DrawnCell drawn_by(const RandomCell& cell, const Maker& maker) {
  generator() = {cell.state, cell.device};
  const auto result = run_stock(find_stock_op(cell.op), maker, cell.form, cell.arguments);
  return {(is_dtensor(result) ? full_tensor(result) : result).contiguous(), generator().state.offset};
}

// Decimals of a printed number: "0.1452" has 4.
int decimals(const std::string& printed) {
  const auto point = printed.find('.');
  return point == std::string::npos ? 0 : static_cast<int>(printed.size() - point) - 1;
}

std::string rounded(double value, int digits) {
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

double element(const at::Tensor& values, int64_t i) {
  return values.reshape({-1})[i].to(at::kDouble).item<double>();
}

// The number whose bits, in the tensor's dtype, are given.
double from_bits(const std::string& text, c10::ScalarType dtype) {
  const uint64_t word = std::strtoull(text.c_str(), nullptr, 16);
  auto one = at::empty({1}, at::TensorOptions(dtype));
  std::memcpy(one.data_ptr(), &word, static_cast<size_t>(one.element_size()));
  return one.to(at::kDouble).item<double>();
}

std::string expected(const std::string& what, const std::string& golden, const std::string& ours) {
  return concat(what, ": the golden has ", golden, ", we draw ", ours);
}

bool close(double ours, double golden) {
  return ours == golden || std::abs(ours - golden) <= 0.5e-4 * std::max(1.0, std::abs(golden)) ||
         (std::isnan(ours) && std::isnan(golden));
}

void add_element(Golden& g, const at::Tensor& flat, int64_t i) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", element(flat, i));
  g.printed.emplace_back(text);
  g.bits.push_back(element_bits(flat, i));
}

std::string compare_element(const Golden& g, size_t k, const DrawnCell& drawn, bool& bits_differ) {
  const auto flat = drawn.values.reshape({-1});
  const int64_t i = drawn.samples ? static_cast<int64_t>(k) : g.at[k];
  if (i < 0 || i >= flat.numel()) return concat("element ", i, " is not one of ", flat.numel());
  const auto what = concat("element ", g.at[k]);
  const double ours = element(flat, i);
  if (!g.bits.empty()) {
    const auto bits = element_bits(flat, i);
    if (bits == g.bits[k]) return "";
    bits_differ = true;
    const bool approximate = find_stock_op(g.cell.op).approximate;
    if (approximate && close(ours, from_bits(g.bits[k], flat.scalar_type()))) return "";
    return expected(what, concat(g.bits[k], g.printed.empty() ? "" : " (" + g.printed[k] + ")"), bits);
  }
  const auto text = rounded(ours, decimals(g.printed[k]));
  return text == g.printed[k] ? "" : expected(what, g.printed[k], concat(text, " (", ours, ")"));
}

// Ends an operator when it asks its source to draw, before any memory of its tensor is touched.
struct Overheard : oracle::LiteralSource {
  struct Call {
    RandomCall call;
  };
  void fill(const RandomCall& call, const at::Tensor&, const DeviceModel&, RandomState&) override {
    throw Call{call};
  }
};

RandomCall call_of(const RandomCell& cell) {
  const ForkRng fork;
  Overheard source;
  const RandomScope scope(source);
  try {
    drawn_by(cell, plain_maker());
  } catch (const Overheard::Call& heard) {
    LOCKSTEP_CHECK(heard.call.shape.size() == 1, "[golden] ", to_string(cell),
                   " is sampled; write a fill of one dimension");
    return heard.call;
  }
  throw Error(concat("[golden] ", to_string(cell), " draws nothing"));
}

}  // namespace

bool is_giant(const RandomCell& cell) {
  return c10::multiply_integers(cell.form.shape) > int64_t{1} << 27;
}

std::vector<int64_t> samples_of(const RandomCell& cell) {
  const int64_t n = cell.form.shape[0],
                threads = cell.device.sm_count * (cell.device.threads_per_sm / 256) * 256;
  return {0, 1, threads, 4 * threads, n / 2 - 1, n / 2, n / 2 + 1, n - 2, n - 1};
}

DrawnCell draw_samples(const RandomCell& cell, const std::vector<int64_t>& at) {
  const auto call = call_of(cell);
  std::vector<at::Tensor> values;
  for (const int64_t i : at)
    values.push_back(draw_local(call, std::vector<IndexList>{{{i, 1}}}, {1}, cell.state, cell.device));
  return {at::cat(values), cell.state.offset + advance(call, cell.device), true};
}

DrawnCell simulate_samples(const RandomCell& cell, const std::vector<int64_t>& at) {
  const auto call = call_of(cell);
  // Only which threads to simulate is the engine's advice: the element must be among what they write.
  std::vector<int64_t> threads;
  for (const auto& launch : random_geometry(call, cell.device).launches)
    for (const int64_t i : at)
      if (i >= launch.first && i < launch.first + launch.count)
        threads.push_back((i - launch.first) % launch.threads);
  std::sort(threads.begin(), threads.end());
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  const auto writes = oracle::simulate_threads(call, cell.device, cell.state, threads);
  std::vector<at::Tensor> values;
  for (const int64_t i : at) {
    const auto found = std::find(writes.places.begin(), writes.places.end(), i);
    if (found == writes.places.end()) throw Broken(concat("[golden] no simulated thread writes element ", i));
    values.push_back(writes.values.narrow(0, found - writes.places.begin(), 1));
  }
  return {at::cat(values), cell.state.offset + writes.advance, true};
}

DrawnCell draw_plain(const RandomCell& cell, RandomSource& source) {
  const ForkRng fork;
  const RandomScope scope(source);
  return drawn_by(cell, plain_maker());
}

Placements placements_for(const RandomCell& cell, const DeviceMesh& mesh) {
  const auto dims = std::ssize(cell.form.shape);
  Placements placements;
  for (int64_t d = 0; d < mesh.ndim(); ++d) {
    if (dims == 0)
      placements.emplace_back(Replicate{});
    else if (d % 2 == 0)
      placements.emplace_back(Shard{dims - 1});
    else
      placements.emplace_back(InterleavedShard{0, 3});
  }
  return placements;
}

DrawnCell draw_on_mesh(const RandomCell& cell, const DeviceMesh& mesh) {
  const ForkRng fork;
  return drawn_by(cell, mesh_maker(init_device_mesh(mesh.shape(), mesh.names()), placements_for(cell, mesh)));
}

GoldenVerdict compare_golden(const Golden& g, const DrawnCell& drawn) {
  if (g.offset_after && *g.offset_after != drawn.offset_after)
    return {expected("offset after", std::to_string(*g.offset_after), std::to_string(drawn.offset_after))};
  bool bits_differ = false;
  for (size_t k = 0; k < g.at.size(); ++k)
    if (auto difference = compare_element(g, k, drawn, bits_differ); !difference.empty()) return {difference};
  if (!g.sum.empty()) {
    const double sum = drawn.values.to(at::kDouble).sum().item<double>();
    if (auto text = rounded(sum, decimals(g.sum)); text != g.sum) return {expected("sum", g.sum, text)};
  }
  if (g.fnv1a64 && *g.fnv1a64 != fnv1a64(drawn.values)) {
    if (!find_stock_op(g.cell.op).approximate)
      return {expected("FNV-1a-64", concat(std::hex, *g.fnv1a64), concat(std::hex, fnv1a64(drawn.values)))};
    bits_differ = true;
  }
  return {"", bits_differ};
}

Golden record_golden(const RandomCell& cell, const StockDevice& device) {
  device.set_state(cell.state);
  const auto result = run_stock(find_stock_op(cell.op), device.maker, cell.form, cell.arguments);
  Golden g;
  g.cell = cell;
  g.offset_after = device.offset();
  if (is_giant(cell)) {
    g.at = samples_of(cell);
    const auto chosen = result.index({at::tensor(g.at).to(result.device())}).to(at::kCPU);
    for (int64_t k = 0; k < chosen.numel(); ++k) add_element(g, chosen, k);
    return g;
  }
  const auto flat = result.to(at::kCPU).contiguous().reshape({-1});
  g.fnv1a64 = fnv1a64(flat);
  const int64_t n = flat.numel(), threads = device.model.sm_count * (device.model.threads_per_sm / 256) * 256;
  for (int64_t i = 0; i < n; ++i)
    if (i < 8 || i >= n - 2 || i % threads == 0) g.at.push_back(i);
  for (const int64_t i : g.at) add_element(g, flat, i);
  return g;
}

}  // namespace lockstep::suites
