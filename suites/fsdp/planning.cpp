// SPDX-License-Identifier: Apache-2.0
#include "suites/fsdp/planning.h"

#include "engine/values/error.h"
#include "engine/values/text.h"
#include "generators/space/random.h"

namespace lockstep::suites {
namespace {

using fsdp::BlockTensor;

constexpr int64_t kMost = 4096;  // elements, that the definition is asked about

// "8x4-30x7x10": elements, blocks, and after how many elements these begin anew.
std::string tensors_text(const std::vector<BlockTensor>& tensors) {
  std::string text;
  for (const auto& t : tensors)
    text += concat(text.empty() ? "" : "-", t.elements, "x", t.granularity,
                   t.period > 0 ? concat("x", t.period) : "");
  return text;
}

std::vector<BlockTensor> parse_tensors(const std::string& text) {
  std::vector<BlockTensor> tensors;
  for (const auto part : split(text, '-')) {
    const auto numbers = parse_integers(part, 'x');
    LOCKSTEP_CHECK(numbers && (numbers->size() == 2 || numbers->size() == 3) && (*numbers)[0] >= 0 &&
                       (*numbers)[0] <= kMost && (*numbers)[1] >= 1 && numbers->back() >= 1,
                   "[planner] the tensor '", part,
                   "' is not <elements>x<block>, or <elements>x<block>x<period>, of at most ", kMost,
                   " elements in blocks of at least 1, as in 30x7");
    tensors.push_back({(*numbers)[0], (*numbers)[1], numbers->size() == 3 ? (*numbers)[2] : 0});
  }
  return tensors;
}

int64_t parse_alignment(const std::string& name, const std::string& text) {
  const auto value = parse_integer(text);
  LOCKSTEP_CHECK(value && *value >= 1 && *value <= 64, "[planner] the option ", name,
                 " is from 1 to 64, not ", text);
  return *value;
}

void set_option(Planning& p, const std::string& name, const std::string& text) {
  if (name == "tensors")
    p.tensors = parse_tensors(text);
  else if (name == "align")
    p.options.alignment = parse_alignment(name, text);
  else if (name == "start")
    p.options.start_align = parse_alignment(name, text);
  else if (name == "order")
    p.options.order = fsdp::parse_order(text);
  else
    throw Error(concat("[planner] no option '", name, "'; there are: align, order, start, tensors"));
}

}  // namespace

Planning planning_of(const oracle::Case& c) {
  LOCKSTEP_CHECK(c.program.inputs.empty() && c.program.calls.empty(),
                 "[planner] the token has a program, and a case of this suite has a mesh and options");
  LOCKSTEP_CHECK(c.mesh.ndim() == 1 && c.mesh.size() <= 64, "[planner] the mesh ", to_string(c.mesh),
                 " is not of one dimension, of at most 64 ranks");
  Planning p;
  p.options.shards = c.mesh.size();
  for (const auto& [name, text] : c.options) set_option(p, name, text);
  LOCKSTEP_CHECK(!p.tensors.empty(), "[planner] no tensors; say them as in tensors:8x4-30x7");
  return p;
}

oracle::Case case_of(const Planning& p) {
  oracle::Case c;
  c.suite = "planner";
  c.mesh = DeviceMesh({p.options.shards}, {"fsdp"});
  c.options["tensors"] = tensors_text(p.tensors);
  c.options["align"] = std::to_string(p.options.alignment);
  if (p.options.start_align != 1) c.options["start"] = std::to_string(p.options.start_align);
  if (p.options.order != fsdp::Order::kDefault) c.options["order"] = fsdp::name(p.options.order);
  return c;
}

Planning any_planning(uint64_t run_seed, int64_t index) {
  auto draw = generators::Random(run_seed).split("planner").split(static_cast<uint64_t>(index));
  Planning p;
  const int64_t most = draw.chance(80) ? 30 : 200;
  const bool whole_blocks = draw.chance(70);
  for (int64_t n = draw.between(1, 6); n > 0; --n) {
    const int64_t g = draw.chance(75) ? draw.between(1, 7) : draw.between(1, most);
    p.tensors.push_back({whole_blocks ? g * draw.between(0, most / g) : draw.between(0, most), g});
  }
  for (auto& t : p.tensors)
    if (draw.chance(20)) t.period = draw.between(1, std::min(4 * t.granularity, most));
  p.options.shards = draw.chance(80) ? draw.between(1, 6) : draw.between(7, 24);
  p.options.alignment = draw.pick({int64_t{1}, int64_t{2}, int64_t{4}, int64_t{8}, int64_t{16}});
  if (draw.chance(25)) p.options.start_align = draw.pick({int64_t{2}, int64_t{3}, int64_t{4}, int64_t{16}});
  p.options.order = static_cast<fsdp::Order>(draw.between(0, 3));
  return p;
}

std::vector<oracle::Case> simpler_plannings(const oracle::Case& c) {
  const auto from = planning_of(c);
  std::vector<oracle::Case> all;
  const auto add = [&](const auto& change) {
    auto p = from;
    change(p);
    if (!p.tensors.empty()) all.push_back(case_of(p));
  };
  for (size_t i = 0; i < from.tensors.size(); ++i)
    add([&](Planning& p) { p.tensors.erase(p.tensors.begin() + static_cast<ptrdiff_t>(i)); });
  if (from.options.order != fsdp::Order::kDefault)
    add([](Planning& p) { p.options.order = fsdp::Order::kDefault; });
  for (const int64_t n : {int64_t{1}, from.options.shards / 2, from.options.shards - 1})
    if (n >= 1 && n < from.options.shards) add([&](Planning& p) { p.options.shards = n; });
  for (const auto which : {&fsdp::PlanOptions::alignment, &fsdp::PlanOptions::start_align})
    for (const int64_t n : {int64_t{1}, from.options.*which - 1})
      if (n >= 1 && n < from.options.*which) add([&](Planning& p) { p.options.*which = n; });
  for (size_t i = 0; i < from.tensors.size(); ++i)
    for (const auto which : {&BlockTensor::period, &BlockTensor::elements, &BlockTensor::granularity}) {
      const int64_t now = from.tensors[i].*which, least = which == &BlockTensor::granularity ? 1 : 0;
      for (const int64_t n : {least, now / 2, now - 1})
        if (n >= least && n < now) add([&](Planning& p) { p.tensors[i].*which = n; });
    }
  return all;
}

}  // namespace lockstep::suites
