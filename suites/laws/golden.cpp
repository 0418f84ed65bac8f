// SPDX-License-Identifier: Apache-2.0
// Law: what stock libtorch drew on a GPU is what the closed form, whole and cut over a mesh, and the
// simulation draw. The case is an empty Program: its seed names the cell, its mesh is the one over which it
// is cut. A cell that no GPU has recorded says so; the three then have each other alone, and so they have in
// a cell that was given another shape, by the option of that name.
#include <ATen/ATen.h>

#include "engine/random/random.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "generators/space/shapes.h"
#include "oracle/random/random_simulation.h"
#include "suites/core/engine_threw.h"
#include "suites/golden/compare_golden.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

constexpr int64_t kMostCut = 1 << 21;  // elements: larger ones take seconds on a mesh
constexpr const char* kMeshes[] = {"3", "2x3", "2x2x2", "7"};

// A golden, or a cell of the matrix that has none.
struct Entry {
  RandomCell cell;
  std::optional<Golden> golden;
  std::string state() const { return golden ? name(golden->origin) : "not recorded"; }
  uint64_t key() const { return stable_hash(concat(to_string(cell), " ", state())); }
};

struct Entries {
  std::vector<Entry> all;
  std::string error;  // why there are none
};

bool is_recorded(const std::vector<Entry>& entries, const RandomCell& cell) {
  return std::any_of(entries.begin(), entries.end(), [&](const Entry& e) {
    return e.golden && e.golden->origin == Origin::kRecorded && e.cell == cell;
  });
}

Entries read_entries() {
  Entries entries;
  try {
    for (auto& golden : read_goldens(golden_folder())) entries.all.push_back({golden.cell, golden});
  } catch (const std::exception& e) {
    return {{}, e.what()};
  }
  std::vector<Entry> missing;
  for (const auto& cells : {golden_matrix(DeviceModel{}), golden_giants(DeviceModel{})})
    for (const auto& cell : cells)
      if (!is_recorded(entries.all, cell)) missing.push_back({cell, std::nullopt});
  entries.all.insert(entries.all.end(), missing.begin(), missing.end());
  return entries;
}

const Entries& entries() {
  static const auto all = read_entries();
  return all;
}

std::string label(const Entry& e) {
  return concat("golden ", e.state(), ": ", e.cell.op, " ", dtype_name(e.cell.form.dtype));
}

// Throws Error for a Case that is none of this suite's.
Entry entry_of(const oracle::Case& c) {
  LOCKSTEP_CHECK(c.program.inputs.empty() && c.program.calls.empty(),
                 "[golden] the token has a program; the golden is named by its seed");
  if (!entries().error.empty()) throw Broken(entries().error);
  const auto& all = entries().all;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Entry& x) { return x.key() == c.program.seed; });
  LOCKSTEP_CHECK(found != all.end(), "[golden] ", golden_folder(),
                 " does not hold the golden of this token; replay it with the files of its run");
  auto entry = *found;
  for (const auto& [name, text] : c.options) {
    LOCKSTEP_CHECK(name == "shape", "[golden] no option '", name, "'; there is: shape");
    entry.cell.form.shape = parse_shape(text);
    entry.cell.form.stride = contiguous_strides(entry.cell.form.shape);
    entry.golden.reset();
  }
  return entry;
}

Failed failure_of(const Entry& e, const char* verdict, const std::string& pattern, const std::string& text) {
  auto f = failed("golden", verdict, e.cell.op, pattern, dtype_name(e.cell.form.dtype),
                  concat(to_string(e.cell), "\n", e.state(),
                         e.golden && !e.golden->source.empty() ? ": " + e.golden->source : "", "\n", text));
  f.labels = {label(e)};
  return f;
}

// "": the same bits and offset.
std::string unlike(const DrawnCell& a, const DrawnCell& b) {
  if (a.offset_after != b.offset_after)
    return concat("offset after: ", a.offset_after, " and ", b.offset_after);
  if (a.values.sizes() != b.values.sizes() || a.values.scalar_type() != b.values.scalar_type())
    return concat("shape or dtype: ", a.values.sizes(), " and ", b.values.sizes());
  if (std::memcmp(a.values.const_data_ptr(), b.values.const_data_ptr(), a.values.nbytes()) == 0) return "";
  const auto x = a.values.reshape({-1}), y = b.values.reshape({-1});
  for (int64_t i = 0; i < x.numel(); ++i)
    if (element_bits(x, i) != element_bits(y, i))
      return concat("first at element ", i, ": ", element_bits(x, i), " and ", element_bits(y, i));
  throw Broken("[golden] bytes differ, elements do not");
}

Outcome judge_drawn(const oracle::Case& c, const Entry& e, const DrawnCell& simulated,
                    const std::vector<int64_t>& at) {
  const bool giant = is_giant(e.cell);
  ClosedFormSource closed_form;
  const auto closed =
      in_engine([&] { return giant ? draw_samples(e.cell, at) : draw_plain(e.cell, closed_form); });
  if (auto text = unlike(closed, simulated); !text.empty())
    return failure_of(e, "simulation", "-", "closed form and simulation, " + text);
  if (!giant && closed.values.numel() <= kMostCut) {
    const auto cut = in_engine([&] { return draw_on_mesh(e.cell, c.mesh); });
    if (auto text = unlike(closed, cut); !text.empty())
      return failure_of(e, "cut", placement_pattern({placements_for(e.cell, c.mesh)}),
                        "whole and cut, " + text);
  }
  Passed passed;
  passed.labels = {label(e)};
  passed.note = e.state();
  if (!e.golden) return passed;
  const auto verdict = compare_golden(*e.golden, closed);
  if (!verdict.difference.empty()) return failure_of(e, "value", "-", verdict.difference);
  if (verdict.same_to_digits) {
    passed.verdict = dashboard::Verdict::kExpectedException;
    passed.exceptions.push_back(
        {"aten::" + e.cell.op, dtype_name(e.cell.form.dtype),
         "stock computes it with approximate functions of the GPU: four digits agree"});
  }
  return passed;
}

// Keys of the goldens of the same draw of fewer elements, the smallest first.
std::vector<uint64_t> smaller_entries(const Entry& e) {
  std::vector<const Entry*> fit;
  for (const auto& other : entries().all)
    if (other.cell.op == e.cell.op && other.cell.arguments == e.cell.arguments &&
        other.cell.form.dtype == e.cell.form.dtype && other.golden.has_value() == e.golden.has_value() &&
        generators::numel(other.cell.form.shape) < generators::numel(e.cell.form.shape))
      fit.push_back(&other);
  std::stable_sort(fit.begin(), fit.end(), [](const Entry* a, const Entry* b) {
    return generators::numel(a->cell.form.shape) < generators::numel(b->cell.form.shape);
  });
  std::vector<uint64_t> keys;
  for (const auto* other : fit) keys.push_back(other->key());
  return keys;
}

// Each of the numbers replaced by smaller ones.
std::vector<std::vector<int64_t>> with_smaller(const std::vector<int64_t>& numbers) {
  std::vector<std::vector<int64_t>> all;
  for (size_t d = 0; d < numbers.size(); ++d)
    for (const int64_t n : {int64_t{1}, int64_t{2}, numbers[d] / 2, numbers[d] - 1})
      if (n >= 1 && n < numbers[d]) {
        all.push_back(numbers);
        all.back()[d] = n;
      }
  return all;
}

std::vector<DeviceMesh> smaller_meshes(const DeviceMesh& mesh) {
  std::vector<DeviceMesh> all;
  for (size_t d = 0; d < mesh.shape().size() && mesh.ndim() > 1; ++d) {
    auto shape = mesh.shape();
    shape.erase(shape.begin() + static_cast<ptrdiff_t>(d));
    all.emplace_back(shape);
  }
  for (const auto& shape : with_smaller(mesh.shape())) all.emplace_back(shape);
  return all;
}

}  // namespace

int64_t golden_cases() {
  return std::max<int64_t>(1, static_cast<int64_t>(entries().all.size()));
}

oracle::Case golden_case(uint64_t, int64_t index) {
  oracle::Case c;
  c.suite = "golden";
  c.mesh = parse_mesh(kMeshes[static_cast<size_t>(index) % std::size(kMeshes)]);
  const auto& all = entries().all;
  if (!all.empty()) c.program.seed = all[static_cast<size_t>(index)].key();
  return c;
}

void check_golden(const oracle::Case& c) {
  if (entries().error.empty()) entry_of(c);  // else nothing is wrong with the token
}

std::vector<oracle::Case> simpler_golden(const oracle::Case& c) {
  const auto e = entry_of(c);
  std::vector<oracle::Case> simpler;
  const auto add = [&](const auto& change) { change(simpler.emplace_back(c)); };
  for (const auto& other : smaller_entries(e))
    if (c.options.empty()) add([&](oracle::Case& made) { made.program.seed = other; });
  for (const auto& mesh : smaller_meshes(c.mesh)) add([&](oracle::Case& made) { made.mesh = mesh; });
  for (const auto& shape : with_smaller(e.cell.form.shape))
    add([&](oracle::Case& made) { made.options["shape"] = shape_text(shape); });
  return simpler;
}

// The oracle draws first: what it refuses is no case. What the engine throws then is a failure.
Outcome judge_golden(const oracle::Case& c, EngineUnderTest&) {
  const auto e = entry_of(c);
  const bool giant = is_giant(e.cell);
  const auto at = e.golden ? e.golden->at : giant ? samples_of(e.cell) : std::vector<int64_t>{};
  oracle::SimulatedSource simulation;
  const auto simulated = giant ? simulate_samples(e.cell, at) : draw_plain(e.cell, simulation);
  try {
    return judge_drawn(c, e, simulated, at);
  } catch (const EngineThrew& thrown) {
    return failure_of(e, "exception", "-", thrown.what());
  }
}

}  // namespace lockstep::suites
