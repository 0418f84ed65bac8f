// SPDX-License-Identifier: Apache-2.0
// What the schema of an op allows, its cases reach: dtypes, shapes, indices and numbers that a maker would
// forget first.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "generators/cases/arguments.h"
#include "generators/cases/programs.h"
#include "generators/program/trial.h"
#include "oracle/program/schema.h"

namespace lockstep::generators {
namespace {

using oracle::Call;
using oracle::Case;
using oracle::Ref;

// A call beside the tensors that it reads, of which only shapes and dtypes are those of the run.
struct Seen {
  const Case& c;
  const Call& call;
  const std::vector<at::Tensor>& values;

  const at::Tensor& tensor(Ref ref) const { return values.at(static_cast<size_t>(ref.id)); }
  std::vector<Ref> list(size_t arg) const { return std::get<std::vector<Ref>>(call.args.at(arg)); }
  bool pends(Ref ref) const {
    return ref.id < std::ssize(c.placements) && has_partial(c.placements[static_cast<size_t>(ref.id)]);
  }
};

struct Feature {
  const char* name;
  std::vector<std::string> ops;
  std::function<bool(const Seen&)> has;
  int64_t least;  // of kTries cases of each op
};

constexpr uint64_t kTries = 1000;

const OpTemplate& template_of(const std::string& op) {
  const auto table = op_templates();
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& t) { return op == t.op; });
  EXPECT_NE(found, table.end()) << op;
  return *found;
}

int64_t count(const Feature& feature, const std::string& op) {
  int64_t hits = 0;
  for (uint64_t i = 0; i < kTries; ++i) {
    const auto c = op_case(Random(29).split(op).split(i), template_of(op));
    const auto values = trial(c.program);
    if (!values) continue;
    hits += std::any_of(c.program.calls.begin(), c.program.calls.end(), [&](const Call& call) {
      return call.op == op && feature.has({c, call, *values});
    });
  }
  return hits;
}

void expect_reached(const std::vector<Feature>& features) {
  for (const auto& feature : features)
    for (const auto& op : feature.ops)
      EXPECT_GE(count(feature, op), feature.least) << op << " " << feature.name;
}

bool of_several_dtypes(const Seen& s, size_t arg) {
  std::set<c10::ScalarType> dtypes;
  for (const auto ref : s.list(arg)) dtypes.insert(s.tensor(ref).scalar_type());
  return dtypes.size() > 1;
}

template <class Differs>
bool a_partner(const Seen& s, const Differs& differs) {
  const auto list = s.list(0), others = s.list(1);
  for (size_t i = 0; i < list.size(); ++i)
    if (differs(s.tensor(list[i]), s.tensor(others[i]))) return true;
  return false;
}

bool is_legacy_empty(const at::Tensor& t) {
  return t.sizes() == at::IntArrayRef({0});
}

// Would catch: a list whose tensors are all of the first one's dtype, so that nothing is ever promoted.
TEST(Reach, lists_are_of_several_dtypes_and_shapes) {
  const auto mixed = [](const Seen& s) { return of_several_dtypes(s, 0); };
  const auto mixed_and_pending = [](const Seen& s) {
    const auto list = s.list(0);
    return of_several_dtypes(s, 0) &&
           std::any_of(list.begin(), list.end(), [&](Ref r) { return s.pends(r); });
  };
  const auto with_legacy_empty = [](const Seen& s) {
    const auto list = s.list(0);
    const auto empties =
        std::count_if(list.begin(), list.end(), [&](Ref r) { return is_legacy_empty(s.tensor(r)); });
    return empties > 0 && std::any_of(list.begin(), list.end(), [&](Ref r) { return s.tensor(r).dim() > 1; });
  };
  const auto of_other_dtype = [](const Seen& s) {
    return a_partner(s, [](auto& a, auto& b) { return a.scalar_type() != b.scalar_type(); });
  };
  const auto broadcast = [](const Seen& s) {
    return a_partner(s, [](auto& a, auto& b) { return a.sizes() != b.sizes(); });
  };
  const std::vector<std::string> pairs = {"aten::_foreach_add.List",     "aten::_foreach_mul.List",
                                          "aten::_foreach_add_.List",    "aten::_foreach_sub_.List",
                                          "aten::_foreach_maximum.List", "aten::_foreach_addcmul.Scalar",
                                          "aten::_foreach_div.List"};
  expect_reached({{"of several dtypes", {"aten::cat", "aten::stack"}, mixed, 20},
                  {"of several dtypes, one pending", {"aten::cat", "aten::stack"}, mixed_and_pending, 8},
                  {"with an empty tensor of one dimension", {"aten::cat"}, with_legacy_empty, 10},
                  {"with a partner of another dtype", pairs, of_other_dtype, 20},
                  {"with a partner that is broadcast", pairs, broadcast, 10}});
}

// Would catch: an argument that only chance sets, a few times in a run.
TEST(Reach, arguments_of_networks_and_optimizers_are_set) {
  const std::map<std::string, int64_t> least = {{"aten::scaled_dot_product_attention(attn_mask)", 200},
                                                {"aten::scaled_dot_product_attention(scale)", 100},
                                                {"aten::scaled_dot_product_attention(enable_gqa)", 100},
                                                {"aten::cross_entropy_loss(weight)", 200},
                                                {"aten::cross_entropy_loss(label_smoothing)", 200},
                                                {"aten::cross_entropy_loss(ignore_index)", 100},
                                                {"aten::conv2d(dilation)", 200},
                                                {"aten::max_pool2d_with_indices(dilation)", 200},
                                                {"aten::max_pool2d_with_indices(ceil_mode)", 100},
                                                {"aten::avg_pool2d(ceil_mode)", 100},
                                                {"aten::avg_pool2d(count_include_pad)", 100},
                                                {"aten::avg_pool2d(divisor_override)", 100}};
  std::map<std::string, int64_t> seen;
  std::set<std::string> ops;
  for (const auto& [name, count] : least) ops.insert(name.substr(0, name.find('(')));
  for (const auto& op : ops)
    for (uint64_t i = 0; i < kTries; ++i)
      for (const auto& name : arguments(op_case(Random(31).split(op).split(i), template_of(op))))
        ++seen[name];
  for (const auto& [name, count] : least) EXPECT_GE(seen[name], count) << name;
  // Steps stand in programs alone.
  std::map<std::string, int64_t> steps;
  for (uint64_t i = 0; i < 8000; ++i)
    for (const auto& name : arguments(generate("program", 31, i))) ++steps[name];
  for (const std::string op : {"aten::_fused_adam_", "aten::_fused_adamw_", "aten::_fused_sgd_"})
    for (const char* argument : {"(grad_scale)", "(found_inf)"}) EXPECT_GE(steps[op + argument], 20) << op;
}

}  // namespace
}  // namespace lockstep::generators
