// SPDX-License-Identifier: Apache-2.0
// Law: what stock libtorch drew on a GPU is what the closed form, whole and cut over a mesh, and the
// simulation draw. The case is an empty Program: its seed names the cell, its mesh is the one over which it
// is cut. A cell that no GPU has recorded says so; the three then have each other alone.
#include <ATen/ATen.h>

#include "engine/random/random.h"
#include "engine/values/error.h"
#include "oracle/random/random_simulation.h"
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

Failed differs(const oracle::Case& c, const Entry& e, const std::string& text) {
  auto f = failed("golden", "value", e.cell.op, placement_pattern({placements_for(e.cell, c.mesh)}),
                  dtype_name(e.cell.form.dtype),
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

Outcome judge_golden(const oracle::Case& c, EngineUnderTest&) {
  if (!entries().error.empty()) return HarnessBroken{entries().error};
  const auto& all = entries().all;
  const auto e =
      std::find_if(all.begin(), all.end(), [&](const Entry& x) { return x.key() == c.program.seed; });
  if (e == all.end())
    return HarnessBroken{
        concat("[golden] ", golden_folder(),
               " does not hold the golden of this token; replay it with the files of its run")};
  const bool giant = is_giant(e->cell);
  const auto at = e->golden ? e->golden->at : giant ? samples_of(e->cell) : std::vector<int64_t>{};
  ClosedFormSource closed_form;
  oracle::SimulatedSource simulation;
  const auto closed = giant ? draw_samples(e->cell, at) : draw_plain(e->cell, closed_form);
  const auto simulated = giant ? simulate_samples(e->cell, at) : draw_plain(e->cell, simulation);
  if (auto text = unlike(closed, simulated); !text.empty())
    return differs(c, *e, "closed form and simulation, " + text);
  if (!giant && closed.values.numel() <= kMostCut)
    if (auto text = unlike(closed, draw_on_mesh(e->cell, c.mesh)); !text.empty())
      return differs(c, *e, "whole and cut, " + text);
  Passed passed;
  passed.labels = {label(*e)};
  passed.note = e->state();
  if (!e->golden) return passed;
  const auto verdict = compare_golden(*e->golden, closed);
  if (!verdict.difference.empty()) return differs(c, *e, verdict.difference);
  if (verdict.same_to_digits) {
    passed.verdict = dashboard::Verdict::kExpectedException;
    passed.exceptions.push_back(
        {"aten::" + e->cell.op, dtype_name(e->cell.form.dtype),
         "stock computes it with approximate functions of the GPU: four digits agree"});
  }
  return passed;
}

}  // namespace lockstep::suites
