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
#include "oracle/program/values.h"
#include "oracle/program/values_elements.h"

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

bool has_index_list(const Seen& s, const std::function<bool(const Seen&, const std::vector<Ref>&)>& has) {
  std::vector<Ref> defined;
  for (const auto ref : s.list(1))
    if (ref.id >= 0) defined.push_back(ref);
  return has(s, defined);
}

// Would catch: indices that are all of one dimension and one length, counted from the front, and no mask.
TEST(Reach, indices_broadcast_and_count_from_either_end) {
  using Refs = std::vector<Ref>;
  const auto any = [](auto has) {
    return [has](const Seen& s) {
      return has_index_list(s, [&](const Seen& seen, const Refs& refs) {
        return std::any_of(refs.begin(), refs.end(), [&](Ref ref) { return has(seen, ref); });
      });
    };
  };
  const auto two_dimensional = any([](const Seen& s, Ref r) {
    return s.tensor(r).dim() == 2 && s.tensor(r).scalar_type() == c10::ScalarType::Long;
  });
  const auto mask =
      any([](const Seen& s, Ref r) { return s.tensor(r).scalar_type() == c10::ScalarType::Bool; });
  const auto negative = any([](const Seen& s, Ref r) {
    const auto& values = s.c.program.inputs.at(static_cast<size_t>(r.id)).values;
    return values.kind == oracle::ValueKind::kIndex && values.low < 0;
  });
  const auto broadcast = [](const Seen& s) {
    return has_index_list(s, [](const Seen& seen, const Refs& refs) {
      return refs.size() > 1 && seen.tensor(refs[0]).sizes() != seen.tensor(refs[1]).sizes();
    });
  };
  const std::vector<std::string> ops = {"aten::index.Tensor", "aten::index_put", "aten::index_put_"};
  expect_reached({{"of two dimensions", ops, two_dimensional, 100},
                  {"a mask", ops, mask, 50},
                  {"from the end", ops, negative, 100},
                  {"that broadcast", ops, broadcast, 15}});
  const auto way = [](const Seen& s, size_t a, size_t b) {
    const auto &x = s.tensor(std::get<Ref>(s.call.args[a])), &y = s.tensor(std::get<Ref>(s.call.args[b]));
    return x.numel() < y.numel();
  };
  expect_reached(
      {{"self is broadcast", {"aten::where.self"}, [&](const Seen& s) { return way(s, 1, 2); }, 30},
       {"other is broadcast", {"aten::where.self"}, [&](const Seen& s) { return way(s, 2, 1); }, 30}});
}

// Would catch: a learning rate that is a number in every step.
TEST(Reach, steps_take_a_tensor_for_their_rate) {
  std::map<std::string, int64_t> seen;
  for (uint64_t i = 0; i < 8000; ++i)
    for (const auto& call : generate("program", 37, i).program.calls) ++seen[call.op];
  for (const char* op :
       {"aten::_fused_adam_.tensor_lr", "aten::_fused_adamw_.tensor_lr", "aten::_fused_sgd_.tensor_lr"})
    EXPECT_GE(seen[op], 10) << op;
}

// Would catch: integers of which the least is left out, numbers that are all small.
TEST(Reach, integers_use_their_whole_range) {
  std::map<c10::ScalarType, int64_t> least_values, large_numbers;
  for (uint64_t i = 0; i < 120000; ++i) {
    const auto c = generate("ops", 41, i);
    std::set<c10::ScalarType> dtypes;
    for (size_t k = 0; k < c.program.inputs.size(); ++k) {
      const auto& input = c.program.inputs[k];
      if (!c10::isIntegralType(input.dtype, false) || numel(input.shape) == 0) continue;
      if (input.values.kind != oracle::ValueKind::kSpecial) continue;
      const auto values = oracle::make_global(c, static_cast<int64_t>(k));
      if (values.min().item<int64_t>() == oracle::lowest_integer(input.dtype)) ++least_values[input.dtype];
    }
    const auto values = trial(c.program);
    for (const auto& call : c.program.calls) {
      const auto refs = references(call);
      if (!values || refs.empty()) continue;
      const auto dtype = values->at(static_cast<size_t>(refs[0].id)).scalar_type();
      for (const auto& arg : call.args)
        if (const auto* number = std::get_if<int64_t>(&arg); number != nullptr && std::abs(*number / 2) > 40)
          ++large_numbers[dtype];
      const bool divides = call.op.find("remainder") != call.op.npos;
      EXPECT_FALSE(divides && c10::isIntegralType(dtype, false) &&
                   call.args.at(1) == oracle::Arg(int64_t{-1}));
    }
  }
  using c10::ScalarType;
  for (auto* seen : {&least_values, &large_numbers}) {
    EXPECT_GE((*seen)[ScalarType::Long], 40);
    EXPECT_GE((*seen)[ScalarType::Int] + (*seen)[ScalarType::Short] + (*seen)[ScalarType::Char], 3);
  }
}

// Would catch: an op whose result's size depends on values, and that no case therefore calls; or one whose
// result is computed with, though nobody knows its shape.
TEST(Reach, ops_whose_values_say_the_shape_are_called) {
  for (const std::string op : {"aten::nonzero", "aten::masked_select"}) {
    int64_t calls = 0;
    for (uint64_t i = 0; i < 300; ++i) {
      const auto c = op_case(Random(43).split(op).split(i), template_of(op));
      calls += std::any_of(c.program.calls.begin(), c.program.calls.end(),
                           [&](auto& call) { return call.op == op; });
    }
    EXPECT_EQ(calls, 300) << op;
  }
  for (uint64_t i = 0; i < 6000; ++i) {
    const auto c = generate("program", 47, i);
    std::set<int64_t> unsized;
    auto next = std::ssize(c.program.inputs);
    for (const auto& call : c.program.calls) {
      for (const auto ref : references(call)) EXPECT_FALSE(unsized.contains(ref.id)) << oracle::describe(c);
      if (call.op == "aten::nonzero" || call.op == "aten::masked_select") unsized.insert(next);
      next += call.results;
    }
  }
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
    for (const std::string argument : {"(grad_scale)", "(found_inf)"})
      EXPECT_GE(steps[op + argument] + steps[op + ".tensor_lr" + argument], 20) << op;
}

}  // namespace
}  // namespace lockstep::generators
