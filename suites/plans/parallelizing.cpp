// SPDX-License-Identifier: Apache-2.0
#include "suites/plans/parallelizing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <functional>
#include <regex>

#include "engine/plan/sum_path.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "suites/core/case_forms.h"
#include "suites/core/option_table.h"
#include "suites/plans/gradients_alike.h"
#include "suites/plans/places.h"

namespace lockstep::suites {
namespace {

using enum PlanPhase;

// By the order of PlanPhase.
constexpr std::array<const char*, 6> kPhaseWords = {"init", "run", "pre", "post", "bpre", "bpost"};

std::string path_word(std::string module) {
  if (module.empty()) return "m";
  module = std::regex_replace(module, std::regex(R"(\\d\+)"), "x");
  return std::regex_replace(module, std::regex(R"(\\\.)"), ".");
}

std::string module_of(std::string_view word) {
  if (word == "m") return "";
  std::string module;
  for (const auto part : split(word, '.'))
    module += concat(module.empty() ? "" : "\\.", part == "x" ? "\\d+" : std::string(part));
  return module;
}

// By the order of SumOrder.
constexpr std::array<const char*, 3> kSumWords = {"annot", "tree", "exact"};
constexpr const char* kOpWord = "op";

std::string word_of(const PlanRow& row) {
  if (!row.op.empty()) return kOpWord;
  return is_annotation(row) ? kSumWords[static_cast<size_t>(row.sums)]
                            : kPhaseWords[static_cast<size_t>(row.phase)];
}

// "weight", "all"; "0", of inputs; "mm.0", of an op's.
std::string tensor_word(const PlanRow& row) {
  if (!row.op.empty()) return concat(row.op.substr(row.op.rfind(':') + 1), ".", row.index);
  if (!is_of_parameters(row.phase) && !is_annotation(row)) return std::to_string(row.index);
  const auto name = is_annotation(row) ? row.tensor.substr(0, row.tensor.rfind('.')) : row.tensor;
  return name == "*" ? "all" : name;
}

// "_pf32.r": over passes in f32, then over ranks.
std::string hops_text(const std::vector<SumHop>& hops) {
  std::string text;
  for (const auto& hop : hops)
    text += concat(text.empty() ? "_" : ".", hop.over == SumHop::Over::kPasses ? "p" : "r",
                   hop.dtype ? dtype_name(*hop.dtype) : "");
  return text;
}

void set_hops(PlanRow& row, std::string_view text, const std::function<void(bool)>& fits) {
  for (const auto word : split(text, '.')) {
    fits(word.starts_with('p') || word.starts_with('r'));
    auto& hop = row.hops.emplace_back();
    hop.over = word[0] == 'p' ? SumHop::Over::kPasses : SumHop::Over::kRanks;
    if (word.size() > 1) hop.dtype = parse_dtype(word.substr(1));
  }
}

std::string row_text(const PlanRow& row) {
  std::string dims;
  for (const auto& dim : row.mesh_dims) dims += concat(dims.empty() ? "" : ".", dim);
  return concat(path_word(row.module), "_", word_of(row), "_", tensor_word(row), "_", cut_text(row.to), "_",
                dims, row.starts_early ? "_e" : "", hops_text(row.hops));
}

void set_phase(PlanRow& row, std::string_view word, const std::function<void(bool)>& fits) {
  const auto phase = std::find(kPhaseWords.begin(), kPhaseWords.end(), word);
  const auto sums = std::find(kSumWords.begin(), kSumWords.end(), word);
  if (word == kOpWord) {
    row.phase = kForwardPre;
  } else if (sums != kSumWords.end()) {
    row.phase = kBackwardPost;
    row.sums = static_cast<SumOrder>(sums - kSumWords.begin());
  } else {
    fits(phase != kPhaseWords.end());
    row.phase = static_cast<PlanPhase>(phase - kPhaseWords.begin());
  }
}

// @param word of the phase
void set_tensor(PlanRow& row, std::string_view word, std::string_view text,
                const std::function<void(bool)>& fits) {
  const bool is_gradient = std::find(kSumWords.begin(), kSumWords.end(), word) != kSumWords.end();
  if (is_of_parameters(row.phase) || is_gradient) {
    row.tensor = concat(text == "all" ? "*" : text, is_gradient ? ".grad" : "");
    return;
  }
  const auto dot = word == kOpWord ? text.rfind('.') : std::string_view::npos;
  fits((word == kOpWord) == (dot != std::string_view::npos));
  if (word == kOpWord) row.op = concat("aten::", text.substr(0, dot));
  const auto index = parse_integer(word == kOpWord ? text.substr(dot + 1) : text);
  fits(index.has_value());
  row.index = *index;
  row.tensor = row.phase == kForwardPre || row.phase == kBackwardPost ? "<in>" : "<out>";
}

PlanRow parse_row(std::string_view text) {
  const auto parts = split(text, '_');
  const auto fits = [&](bool does) {
    LOCKSTEP_CHECK(does, "[plans] the row '", text,
                   "' is not of the form 0.1_init_weight_S0_a, x.0_pre_0_R.S1_a.b, m_post_0_R_a_e");
  };
  fits(parts.size() == 5 || parts.size() == 6);
  PlanRow row;
  row.module = module_of(parts[0]);
  set_phase(row, parts[1], fits);
  set_tensor(row, parts[1], parts[2], fits);
  row.starts_early = parts.size() == 6 && parts[5] == "e";
  if (parts.size() == 6 && !row.starts_early) set_hops(row, parts[5], fits);
  row.to = parse_cut("plans", parts[3]);
  for (const auto dim : split(parts[4], '.')) row.mesh_dims.emplace_back(dim);
  return row;
}

const OptionTable<Parallelizing> kOptions = {
    "plans",
    {
        // by name
        {"as", &Parallelizing::as, 0, 4},
        {"bucket", &Parallelizing::bucket, 1, 100000},
        {"examples", &Parallelizing::examples, 1, 32},
        {"passes", &Parallelizing::passes, 1, 3},
        {"recompute", &Parallelizing::recompute, 0, 1},
        {"sides", &Parallelizing::sides, 0, 1},
        {"steps", &Parallelizing::steps, 1, 3},
        {"tied", &Parallelizing::tied, 0, 1},
    },
    {
        {"cut", [](const Parallelizing& p) { return cut_text(p.cut); },
         [](Parallelizing& p, const std::string& text) { p.cut = parse_cut("plans", text); }},
        {"dtype", [](const Parallelizing& p) { return dtype_name(p.dtype); },
         [](Parallelizing& p, const std::string& text) { p.dtype = parse_dtype(text); }},
        {"model", [](const Parallelizing& p) { return model_text(p.model()); },
         [](Parallelizing& p, const std::string& text) {
           Sharding model;
           set_model(model, text);
           p.width = model.width;
           p.blocks = model.blocks;
         }},
        {"plan", [](const Parallelizing& p) { return p.plan.rows().empty() ? "no" : rows_text(p.plan); },
         [](Parallelizing& p, const std::string& text) {
           p.plan = text == "no" ? ParallelPlan() : parse_rows(text);
         }},
    }};

// Rows of one tensor and phase that speak of one mesh dimension.
bool overlap(const Parallelizing& p, const PlanRow& a, const PlanRow& b) {
  if (a.phase != b.phase || a.tensor != b.tensor || a.index != b.index || a.op != b.op) return false;
  const auto modules = modules_of(p);
  return std::find_first_of(a.mesh_dims.begin(), a.mesh_dims.end(), b.mesh_dims.begin(), b.mesh_dims.end()) !=
             a.mesh_dims.end() &&
         std::any_of(modules.begin(), modules.end(),
                     [&](const auto& m) { return speaks_of(a, m.path) && speaks_of(b, m.path); });
}

// Whose gradients pend along mesh dimensions, by one row, are whole there.
std::string unfit_annotation(const Parallelizing& p, const PlanRow& row) {
  for (const auto& other : p.plan.rows()) {
    if (&other == &row) continue;
    if (is_annotation(other)) return "gradients pend by one row";
    const auto cuts = std::find_first_of(row.mesh_dims.begin(), row.mesh_dims.end(), other.mesh_dims.begin(),
                                         other.mesh_dims.end()) != row.mesh_dims.end();
    if (other.phase == kInit && cuts) return "what pends along a mesh dimension is not cut there";
  }
  try {
    path_of(row.sums, row.hops, p.dtype);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// Of a row for itself.
std::string unfit_row(const Parallelizing& p, const PlanRow& row) {
  const auto& names = p.mesh.names();
  for (const auto& dim : row.mesh_dims)
    if (std::find(names.begin(), names.end(), dim) == names.end()) return "its mesh dimension is none";
  if (is_annotation(row)) return unfit_annotation(p, row);
  int64_t dims = 2;
  bool any = false;
  for (const auto& module : modules_of(p)) {
    if (!speaks_of(row, module.path)) continue;
    any = true;
    if (row.op.empty() && row.index >= module.inputs) return "there is no such input";
    if (!row.op.empty()) dims = 1;  // of a vector, too
    if (!is_of_parameters(row.phase)) continue;
    if (row.tensor == "*") dims = 1;  // of a vector, too
    const auto has = std::find_if(module.parameters.begin(), module.parameters.end(),
                                  [&](const auto& own) { return own.first == row.tensor; });
    if (row.tensor != "*" && has == module.parameters.end()) return "there is no such parameter";
    if (row.tensor != "*") dims = std::min(dims, has->second);
  }
  if (!any) return "it speaks of no module";
  for (const auto& to : row.to) {
    if (!is_replicate(to) && !std::holds_alternative<Shard>(to)) return "tensors go to R or S";
    if (is_shard(to) && shard_dim(to) >= dims) return "there is no such dimension";
  }
  return "";
}

// What is there in buffers is what fully_shard makes.
std::string unfit_for_buffers(const Parallelizing& p) {
  for (size_t d = 0; d < p.cut.size(); ++d)
    if (p.cut[d] != (d == 0 ? Placement(Shard{0}) : Placement(Replicate{})))
      return "buffers are cut along the first mesh dimension, which cuts the examples, too";
  if (p.sides != 0) return "an input of a module in a buffer is nobody else's";
  const auto& rows = p.plan.rows();
  for (const auto& row : rows) {
    const bool is_cut = row.phase == kInit && row.to == Placements{Shard{0}};
    const bool is_whole = row.phase == kRun && row.to == Placements{Replicate{}};
    if (row.tensor != "*" || row.mesh_dims != std::vector<std::string>{p.mesh.names()[0]} ||
        !(is_cut || is_whole))
      return "a plan in buffers cuts all parameters of modules by rows, and they are whole in their runs";
    const auto pairs = std::count_if(rows.begin(), rows.end(), [&](const PlanRow& other) {
      return other.module == row.module && other.phase != row.phase;
    });
    if (pairs != 1) return "of a module in a buffer it is said where it is from the start, and while it runs";
  }
  return rows.empty() ? "nothing lies in buffers" : "";
}

// Which of all are shared, by rows of modules that are not around both.
std::string unfit_for_tied(const Parallelizing& p) {
  for (const auto& row : p.plan.rows())
    if (is_of_parameters(row.phase) && !row.module.empty())
      return "what modules share is of the model's rows";
  return "";
}

// From elsewhere a gradient comes reduced.
std::string unfit_for_annotations(const Parallelizing& p) {
  for (const auto& [module, parameters] : shown_of(p, p.plan))
    for (const auto& path : parameters)
      for (const auto& row : p.plan.rows())
        if (is_annotation(row) && annotates(row, path))
          return concat(row_text(row), ": '", path, "' is elsewhere while its module runs");
  return "";
}

}  // namespace

Sharding Parallelizing::model() const {
  Sharding s;
  s.width = width;
  s.blocks = blocks;
  s.sides = sides;
  s.tied = tied;
  s.dtype = dtype;
  return s;
}

at::Tensor Parallelizing::x() const {
  return at::randn({examples, width}, at::detail::createCPUGenerator(seed * 1009), at::kFloat).to(dtype);
}

at::Tensor Parallelizing::weight(size_t which, at::IntArrayRef shape) const {
  const auto generator = at::detail::createCPUGenerator(seed * 1009 + 1 + which);
  return (at::randn(shape, generator, at::kFloat) / 2).to(dtype);
}

std::vector<PlannedModule> modules_of(const Parallelizing& p) {
  std::vector<PlannedModule> all = {{"", {}, 1}};
  for (size_t i = 0; i < p.blocks.size(); ++i) {
    all.push_back({std::to_string(i), {}, p.sides != 0 && i > 0 ? 2 : 1});
    for (size_t k = 0; k < p.blocks[i].size(); ++k) {
      const char kind = p.blocks[i][k].kind;
      PlannedModule layer{concat(i, ".", k), {}, 1};
      if (kind == 'L' || kind == 'l') layer.parameters = {{"weight", 2}};
      if (kind == 'n' || kind == 'N') layer.parameters = {{"weight", 1}};
      if (kind == 'L' || kind == 'N') layer.parameters.emplace_back("bias", 1);
      if (kind != 't' && kind != 'r') all.push_back(std::move(layer));
    }
  }
  return all;
}

bool speaks_of(const PlanRow& row, const std::string& path) {
  return std::regex_match(path, std::regex(row.module));
}

std::string rows_text(const ParallelPlan& plan) {
  std::string text;
  for (const auto& row : plan.rows()) text += (text.empty() ? "" : "-") + row_text(row);
  return text;
}

ParallelPlan parse_rows(const std::string& text) {
  std::vector<PlanRow> rows;
  for (const auto row : split(text, '-')) rows.push_back(parse_row(row));
  return ParallelPlan(std::move(rows));
}

std::string unfit(const Parallelizing& p) {
  if (auto why = unfit(p.model()); !why.empty()) return why;
  if (p.mesh.size() > 16) return "it has at most 16 ranks";
  if (!p.mesh.has_names()) return "its mesh dimensions have names";
  if (!c10::isFloatingType(p.dtype)) return "a model in it has no gradients";
  if (std::ssize(p.cut) != p.mesh.ndim()) return "there is a cut for each mesh dimension";
  for (const auto& cut : p.cut)
    if (!is_replicate(cut) && cut != Placement(Shard{0}) && cut != Placement(Shard{1}))
      return "examples are R, S0 or S1";
  const auto& rows = p.plan.rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (auto why = unfit_row(p, rows[i]); !why.empty()) return concat(row_text(rows[i]), ": ", why);
    for (size_t k = 0; k < i; ++k)
      if (overlap(p, rows[i], rows[k]))
        return concat(row_text(rows[k]), " and ", row_text(rows[i]), " speak of one mesh dimension");
  }
  if (auto why = unfit_for_annotations(p); !why.empty()) return why;
  if (p.tied != 0)
    if (auto why = unfit_for_tied(p); !why.empty()) return why;
  return p.as == kInBuffers ? unfit_for_buffers(p) : "";
}

Parallelizing parallelizing_of(const oracle::Case& c) {
  LOCKSTEP_CHECK(c.program.inputs.empty() && c.program.calls.empty(),
                 "[plans] the token has a program, and a case of this suite has a mesh, a seed and options");
  Parallelizing p;
  p.mesh = c.mesh;
  p.seed = c.program.seed;
  p.device = c.device;
  p.numerics = c.numerics;
  p.cut = Placements(as_size(c.mesh.ndim()), Replicate{});
  for (const auto& [name, text] : c.options) kOptions.set(p, name, text);
  const auto why = unfit(p);
  LOCKSTEP_CHECK(why.empty(), "[plans] ", oracle::to_token(c), ": ", why);
  return p;
}

oracle::Case case_of(const Parallelizing& p) {
  oracle::Case c;
  c.suite = "plans";
  c.mesh = p.mesh;
  c.program.seed = p.seed;
  c.device = p.device;
  c.numerics = p.numerics;
  Parallelizing usual;
  usual.cut = Placements(as_size(p.mesh.ndim()), Replicate{});
  c.options = kOptions.of(p, usual);
  return c;
}

std::vector<oracle::Case> simpler_parallelizings(const oracle::Case& c) {
  const auto from = parallelizing_of(c);
  std::vector<oracle::Case> all;
  const auto add = [&](const auto& change) {
    auto p = from;
    change(p);
    if (!unfit(p).empty()) return;
    if (auto made = case_of(p); made != c) all.push_back(std::move(made));
  };
  const auto with_rows = [](Parallelizing& p, std::vector<PlanRow> rows) {
    p.plan = ParallelPlan(std::move(rows));
  };
  const auto& rows = from.plan.rows();
  for (size_t i = 0; i < rows.size(); ++i)
    add([&](Parallelizing& p) {
      auto fewer = rows;
      fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
      with_rows(p, std::move(fewer));
    });
  for (size_t i = 0; i < rows.size(); ++i)
    add([&](Parallelizing& p) {
      auto plainer = rows;
      plainer[i].hops.clear();
      with_rows(p, std::move(plainer));
    });
  for (int64_t d = 0; d < from.mesh.ndim(); ++d)
    add([&](Parallelizing& p) {
      auto shape = from.mesh.shape();
      shape[as_size(d)] = std::max<int64_t>(shape[as_size(d)] - 1, 1);
      p.mesh = DeviceMesh(shape, from.mesh.names()).on(from.mesh.device_type());
    });
  for (int64_t d = 0; d < from.mesh.ndim() && from.mesh.ndim() > 1; ++d)
    add([&](Parallelizing& p) {
      auto shape = from.mesh.shape();
      auto names = from.mesh.names();
      shape.erase(shape.begin() + d);
      names.erase(names.begin() + d);
      p.cut.erase(p.cut.begin() + d);
      p.mesh = DeviceMesh(shape, names).on(from.mesh.device_type());
    });
  for (size_t i = 0; i < from.blocks.size(); ++i) {
    if (from.blocks.size() > 1)
      add([&](Parallelizing& p) { p.blocks.erase(p.blocks.begin() + static_cast<ptrdiff_t>(i)); });
    for (size_t k = 0; k < from.blocks[i].size(); ++k) {
      if (from.blocks[i].size() > 1)
        add([&](Parallelizing& p) { p.blocks[i].erase(p.blocks[i].begin() + static_cast<ptrdiff_t>(k)); });
      if (from.blocks[i][k].size > 1) add([&](Parallelizing& p) { --p.blocks[i][k].size; });
    }
  }
  if (from.width > 1) add([](Parallelizing& p) { --p.width; });
  for (size_t d = 0; d < from.cut.size(); ++d)
    if (!is_replicate(from.cut[d])) add([&](Parallelizing& p) { p.cut[d] = Replicate{}; });
  const Parallelizing usual;
  for (const auto& option : kOptions.numbers)
    for (const int64_t n : {option.least, from.*option.field / 2, from.*option.field - 1})
      if (n >= option.least && n < from.*option.field && std::string_view(option.name) != "as")
        add([&](Parallelizing& p) { p.*option.field = n; });
  add([](Parallelizing& p) { p.dtype = at::kFloat; });
  add([](Parallelizing& p) { p.seed = 0; });
  return all;
}

}  // namespace lockstep::suites
