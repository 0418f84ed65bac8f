// SPDX-License-Identifier: Apache-2.0
#include "suites/fsdp/sharding.h"

#include <algorithm>
#include <array>
#include <map>

#include "engine/fsdp/planner.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "suites/core/option_table.h"

namespace lockstep::suites {
namespace {

int64_t number(std::string_view text, const char* what) {
  const auto value = parse_integer(text);
  LOCKSTEP_CHECK(value, "[fsdp] ", what, " '", text, "' is not a number");
  return *value;
}

LayerSpec parse_layer(std::string_view text) {
  LOCKSTEP_CHECK(!text.empty() && std::string_view("LlnNtdr").find(text[0]) != std::string_view::npos,
                 "[fsdp] no layer '", text, "'; there are: L7, l7, n, N, t, d, r");
  LayerSpec layer{text[0], 0};
  if (is_linear(layer)) layer.size = number(text.substr(1), "the features of a layer");
  LOCKSTEP_CHECK(is_linear(layer) || text.size() == 1, "[fsdp] the layer '", text, "' has no size");
  return layer;
}

// Whether there is a k-th block, beside others, without which the others fit.
bool may_be_unused(const Sharding& s, int64_t k) {
  if (k > std::ssize(s.blocks) || s.blocks.size() == 1) return false;
  int64_t width = s.width;
  for (int64_t i = 0; i + 1 < k; ++i) width = width_after(s.blocks[as_size(i)], width);
  const bool others_learn = std::count_if(s.blocks.begin(), s.blocks.end(), [](const auto& block) {
                              return std::any_of(block.begin(), block.end(), is_linear);
                            }) > 1;
  return width_after(s.blocks[as_size(k - 1)], width) == width && others_learn;
}

using DtypeOfPolicy = std::optional<c10::ScalarType> MixedPrecisionPolicy::*;

template <DtypeOfPolicy which>
std::string get_dtype(const Sharding& s) {
  return s.policy.*which ? dtype_name(*(s.policy.*which)) : "none";
}
template <DtypeOfPolicy which>
void set_dtype(Sharding& s, const std::string& text) {
  const auto dtype = parse_dtype(text);
  LOCKSTEP_CHECK(c10::isFloatingType(dtype), "[fsdp] nothing is trained in ", text);
  s.policy.*which = dtype;
}

const OptionTable<Sharding> kOptions = {
    "fsdp",
    {
        // by name
        {"among", &Sharding::among, 0, 8},         {"batch", &Sharding::batch, 1, 8},
        {"by_hand", &Sharding::by_hand, 0, 2},     {"calls", &Sharding::calls, 0, 2},
        {"clip", &Sharding::clip, 0, 1},           {"each", &Sharding::each, 0, 2},
        {"evaluates", &Sharding::evaluates, 0, 2}, {"factor", &Sharding::factor, 1, 64},
        {"frozen", &Sharding::frozen, 0, 64},      {"frozen_first", &Sharding::frozen_first, 0, 1},
        {"gathered", &Sharding::gathered, 0, 2},   {"ignored", &Sharding::ignored, 0, 64},
        {"kept", &Sharding::kept, 0, 1},           {"nested", &Sharding::nested, 0, 1},
        {"passes", &Sharding::passes, 1, 4},       {"placed", &Sharding::placed, 0, 1},
        {"prefetch", &Sharding::prefetch, 0, 1},   {"pretrained", &Sharding::pretrained, 0, 1},
        {"recompute", &Sharding::recompute, 0, 1}, {"rows", &Sharding::rows, 0, 64},
        {"sides", &Sharding::sides, 0, 1},         {"steps", &Sharding::steps, 1, 5},
        {"thaws", &Sharding::thaws, 0, 1},         {"tied", &Sharding::tied, 0, 1},
        {"tile", &Sharding::tile, 1, 32},          {"together", &Sharding::together, 0, 8},
        {"unused", &Sharding::unused, 0, 8},       {"wrap", &Sharding::wrap, 0, 255},
    },
    {
        {"dtype", [](const Sharding& s) { return dtype_name(s.dtype); },
         [](Sharding& s, const std::string& text) {
           s.dtype = parse_dtype(text);
           LOCKSTEP_CHECK(c10::isFloatingType(s.dtype), "[fsdp] a model in ", text, " has no gradients");
         }},
        {"model", model_text, set_model},
        {"optimizer", [](const Sharding& s) { return std::string(name(s.optimizer)); },
         [](Sharding& s, const std::string& text) { s.optimizer = parse_optimizer(text); }},
        {"order", [](const Sharding& s) { return s.order; },
         [](Sharding& s, const std::string& text) { s.order = fsdp::name(fsdp::parse_order(text)); }},
        {"output_dtype", get_dtype<&MixedPrecisionPolicy::output_dtype>,
         set_dtype<&MixedPrecisionPolicy::output_dtype>},
        {"param_dtype", get_dtype<&MixedPrecisionPolicy::param_dtype>,
         set_dtype<&MixedPrecisionPolicy::param_dtype>},
        {"reduce_dtype", get_dtype<&MixedPrecisionPolicy::reduce_dtype>,
         set_dtype<&MixedPrecisionPolicy::reduce_dtype>},
    }};

void check(const Sharding& s) {
  const auto why = unfit(s);
  LOCKSTEP_CHECK(why.empty(), "[fsdp] the model ", model_text(s), ": ", why);
  LOCKSTEP_CHECK(s.mesh.size() <= 16, "[fsdp] ", s.mesh.size(),
                 " ranks are too many for a case; use at most 16");
  const auto& names = s.mesh.names();
  LOCKSTEP_CHECK(std::find(names.begin(), names.end(), "fsdp") != names.end(), "[fsdp] the mesh ",
                 to_string(s.mesh), " has no dimension fsdp");
  const auto groups = smaller_groups(s.mesh);
  LOCKSTEP_CHECK(
      s.among == 0 || (s.gathered == 0 && std::find(groups.begin(), groups.end(), s.among) != groups.end()),
      "[fsdp] among:", s.among, " is a divisor of the ranks along fsdp between 1 and all, ",
      "where parameters are cut after forward");
  for (const auto& dim : names)
    LOCKSTEP_CHECK(
        dim != "ep" && dim != "sp" && std::find(kMeshDims.begin(), kMeshDims.end(), dim) != kMeshDims.end(),
        "[fsdp] the mesh dimension '", dim, "'; there are: dp_replicate, dp, fsdp, tp");
}

// Collects those that fit and differ.
class Shardings {
 public:
  explicit Shardings(const oracle::Case& c) : from_(sharding_of(c)), token_(oracle::to_token(c)) {}

  template <class Change>
  void add(const Change& change) {
    auto s = from_;
    change(s);
    const auto groups = smaller_groups(s.mesh);
    if (std::find(groups.begin(), groups.end(), s.among) == groups.end()) s.among = 0;
    if (!tied_paths(s)) s.tied = 0;
    if (s.unused > 0 && !may_be_unused(s, s.unused)) s.unused = 0;
    if (!unfit(s).empty()) return;
    auto made = case_of(s);
    if (oracle::to_token(made) != token_) all_.push_back(std::move(made));
  }
  const Sharding& from() const { return from_; }
  std::vector<oracle::Case> take() { return std::move(all_); }

 private:
  Sharding from_;
  std::string token_;
  std::vector<oracle::Case> all_;
};

void drop_block(Sharding& s, size_t i) {
  s.blocks.erase(s.blocks.begin() + static_cast<ptrdiff_t>(i));
  const int64_t below = (int64_t{1} << i) - 1;
  s.wrap = (s.wrap & below) | ((s.wrap >> 1) & ~below);
  const auto dropped = static_cast<int64_t>(i) + 1;
  s.unused = s.unused == dropped ? 0 : s.unused - (s.unused > dropped);
}

void fewer_ranks(Shardings& all) {
  const auto& mesh = all.from().mesh;
  for (int64_t d = 0; d < mesh.ndim(); ++d) {
    if (mesh.ndim() > 1 && mesh.names()[as_size(d)] != "fsdp")
      all.add([&](Sharding& s) {
        auto shape = mesh.shape();
        auto names = mesh.names();
        shape.erase(shape.begin() + d);
        names.erase(names.begin() + d);
        s.mesh = DeviceMesh(shape, names).on(mesh.device_type());
      });
    for (int64_t n = 1; n < mesh.size(d); ++n)
      all.add([&](Sharding& s) {
        auto shape = mesh.shape();
        shape[as_size(d)] = n;
        s.mesh = DeviceMesh(shape, mesh.names()).on(mesh.device_type());
      });
  }
}

void smaller_models(Shardings& all) {
  const auto& from = all.from();
  for (size_t i = 0; i < from.blocks.size(); ++i) {
    all.add([&](Sharding& s) { drop_block(s, i); });
    for (size_t k = 0; k < from.blocks[i].size(); ++k) {
      all.add([&](Sharding& s) { s.blocks[i].erase(s.blocks[i].begin() + static_cast<ptrdiff_t>(k)); });
      for (const int64_t n : {int64_t{1}, int64_t{2}, from.blocks[i][k].size / 2, from.blocks[i][k].size - 1})
        if (n >= 1 && n < from.blocks[i][k].size) all.add([&](Sharding& s) { s.blocks[i][k].size = n; });
    }
  }
  for (const int64_t n : {int64_t{1}, from.width / 2, from.width - 1})
    if (n >= 1 && n < from.width) all.add([&](Sharding& s) { s.width = n; });
}

}  // namespace

TrainOptions optimizer_options(const Sharding& s) {
  TrainOptions options;
  options.optimizer = s.optimizer;
  options.block_size = s.tile;
  options.min_8bit_size = 1;
  return options;
}

bool is_linear(const LayerSpec& layer) {
  return layer.kind == 'L' || layer.kind == 'l';
}

int64_t width_after(const BlockSpec& block, int64_t width) {
  for (const auto& layer : block)
    if (is_linear(layer)) width = layer.size;
  return width;
}

bool is_wrapped(const Sharding& s, size_t block) {
  return (s.wrap >> block & 1) != 0;
}

UnitPaths unit_paths(const Sharding& s) {
  UnitPaths units = {{""}};
  for (size_t i = 0, n = 0; i < s.blocks.size(); ++i) {
    if (!is_wrapped(s, i)) continue;
    const bool joins = n > 0 && as_size(s.together) > n;
    if (!joins) units.emplace_back();
    (joins ? units[1] : units.back()).push_back(std::to_string(i));
    ++n;
    const auto& block = s.blocks[i];
    const auto linear = std::find_if(block.begin(), block.end(), is_linear);
    if (s.nested != 0 && linear != block.end()) units.push_back({concat(i, ".", linear - block.begin())});
  }
  return units;
}

size_t unit_of(const UnitPaths& units, std::string_view parameter) {
  size_t innermost = 0, longest = 0;
  for (size_t unit = 0; unit < units.size(); ++unit)
    for (const auto& module : units[unit])
      if (module.size() > longest && parameter.starts_with(module + ".")) {
        innermost = unit;
        longest = module.size();
      }
  return innermost;
}

std::optional<std::pair<std::string, std::string>> tied_paths(const Sharding& s) {
  const auto units = unit_paths(s);
  using Shape = std::array<int64_t, 3>;  // of a matrix, and its unit
  std::map<Shape, std::string> first;
  std::optional<std::pair<std::string, std::string>> last;
  int64_t width = s.width;
  for (size_t i = 0; i < s.blocks.size(); ++i)
    for (size_t k = 0; k < s.blocks[i].size(); ++k) {
      const auto& layer = s.blocks[i][k];
      if (!is_linear(layer)) continue;
      auto path = concat(i, ".", k, ".weight");
      const auto unit = static_cast<int64_t>(unit_of(units, path));
      const auto [known, is_new] = first.emplace(Shape{width, layer.size, unit}, path);
      if (!is_new) last.emplace(std::move(path), known->second);
      width = layer.size;
    }
  return last;
}

std::string model_text(const Sharding& s) {
  std::string text = std::to_string(s.width);
  for (const auto& block : s.blocks) {
    std::string layers;
    for (const auto& layer : block)
      layers +=
          concat(layers.empty() ? "" : ".", layer.kind, is_linear(layer) ? std::to_string(layer.size) : "");
    text += "-" + layers;
  }
  return text;
}

void set_model(Sharding& s, const std::string& text) {
  const auto parts = split(text, '-');
  s.width = number(parts[0], "the width");
  s.blocks.clear();
  for (size_t i = 1; i < parts.size(); ++i) {
    auto& block = s.blocks.emplace_back();
    for (const auto& layer : split(parts[i], '.')) block.push_back(parse_layer(layer));
  }
}

Sharding sharding_of(const oracle::Case& c) {
  LOCKSTEP_CHECK(c.program.inputs.empty() && c.program.calls.empty(),
                 "[fsdp] the token has a program, and a case of this suite has a mesh, a seed and options");
  Sharding s;
  s.mesh = c.mesh;
  s.seed = c.program.seed;
  s.device = c.device;
  s.numerics = c.numerics;
  for (const auto& [name, text] : c.options) kOptions.set(s, name, text);
  check(s);
  return s;
}

oracle::Case case_of(const Sharding& s) {
  oracle::Case c;
  c.suite = "fsdp";
  c.mesh = s.mesh;
  c.program.seed = s.seed;
  c.device = s.device;
  c.numerics = s.numerics;
  const Sharding usual;
  c.options = kOptions.of(s, usual);
  return c;
}

std::string unfit(const Sharding& s) {
  constexpr int64_t kMost = 64;
  int64_t width = s.width, linears = 0, parameters = 0;
  if (width < 1 || width > kMost) return "its width is from 1 to 64";
  if (s.blocks.empty() || s.blocks.size() > 8) return "it has 1 to 8 blocks";
  for (const auto& block : s.blocks) {
    const int64_t came = width;
    if (block.empty() || block.size() > 8) return "a block has 1 to 8 layers";
    for (const auto& layer : block) {
      if (layer.kind == 'r' && width != came)
        return "r stands where the block has the width that came into it";
      if (s.unused != &block - s.blocks.data() + 1)
        parameters += (layer.kind == 'L' || layer.kind == 'N') +
                      (is_linear(layer) || layer.kind == 'n' || layer.kind == 'N');
      if (!is_linear(layer)) continue;
      ++linears;
      width = layer.size;
      if (width < 1 || width > kMost) return "features are from 1 to 64";
    }
  }
  if (linears == 0) return "it has no linear layer";
  if (s.unused > 0 && !may_be_unused(s, s.unused)) return "no such block can be left out";
  if (s.tied > 0 && !tied_paths(s)) return "no two matrices of one shape are in one unit";
  if (s.calls == 2 && s.recompute > 0) return "a block that calls itself does not run again";
  if (s.optimizer == OptimizerKind::kFusedSgd && s.mesh.device_type() == c10::kCPU &&
      c10::elementSize(s.dtype) < 4)
    return "sgd-fused updates no parameters of 16 bits on the CPU";
  if (s.ignored > 0 && s.policy.param_dtype.value_or(s.dtype) != s.dtype)
    return "its ignored parameter would stand in another dtype beside the others";
  parameters -= s.tied;
  return s.frozen > 0 && parameters == 1 ? "the only parameter that it uses may be frozen" : "";
}

std::vector<int64_t> smaller_groups(const DeviceMesh& mesh) {
  const int64_t ranks = mesh.size(mesh.dim_index("fsdp"));
  std::vector<int64_t> all;
  for (int64_t n = 2; n < ranks; ++n)
    if (ranks % n == 0) all.push_back(n);
  return all;
}

bool has_tp(const DeviceMesh& mesh) {
  return std::find(mesh.names().begin(), mesh.names().end(), "tp") != mesh.names().end();
}

bool has_layer(const Sharding& s, std::string_view kinds) {
  return std::any_of(s.blocks.begin(), s.blocks.end(), [&](const auto& block) {
    return std::any_of(block.begin(), block.end(),
                       [&](auto& layer) { return kinds.find(layer.kind) != std::string_view::npos; });
  });
}

bool has_short_norm(const Sharding& s) {
  return has_layer(s, "nN") && c10::elementSize(s.policy.param_dtype.value_or(s.dtype)) < 4;
}

bool comes_in_parts(const Sharding& s) {
  return has_tp(s.mesh) || has_short_norm(s) || (s.together > 1 && s.calls > 0);
}

std::optional<int64_t> gathers_of_a_pass(const Sharding& s) {
  const bool otherwise = s.gathered > 1 || (s.frozen | s.recompute | s.calls | s.kept | s.by_hand |
                                            s.evaluates | s.among | s.ignored | s.sides | s.unused) != 0;
  return otherwise || has_tp(s.mesh) ? std::nullopt : std::optional<int64_t>(s.gathered != 0 ? 1 : 2);
}

std::vector<oracle::Case> simpler_shardings(const oracle::Case& c) {
  Shardings all(c);
  const Sharding usual;
  fewer_ranks(all);
  smaller_models(all);
  for (const auto& option : kOptions.numbers)
    for (const int64_t n : {usual.*option.field, option.least, all.from().*option.field - 1})
      if (n >= option.least && n < all.from().*option.field)
        all.add([&](Sharding& s) { s.*option.field = n; });
  all.add([](Sharding& s) { s.optimizer = OptimizerKind::kSgd; });
  all.add([](Sharding& s) { s.dtype = at::kFloat; });
  for (const auto which : {&MixedPrecisionPolicy::param_dtype, &MixedPrecisionPolicy::reduce_dtype,
                           &MixedPrecisionPolicy::output_dtype})
    all.add([&](Sharding& s) { (s.policy.*which).reset(); });
  all.add([](Sharding& s) { s.order = "default"; });
  all.add([](Sharding& s) { s.seed = 0; });
  all.add([](Sharding& s) { s.device = {1, 256}; });
  return all.take();
}

}  // namespace lockstep::suites
