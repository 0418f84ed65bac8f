// SPDX-License-Identifier: Apache-2.0
// Engines with one wrong rule: each rank's run, the timeline and the orders are those of that rule.
#include "suites/adversaries/adversary.h"

namespace lockstep::suites::plant {
namespace {

// ---- a reduction under another name ----

// Rows that leave something pending leave `op` instead; where nothing is to pend, the terms are called whole.
template <ReduceOp op>
Rows called(const OpCall&, Rows rows) {
  for (auto& row : rows)
    for (auto& out : row.outputs)
      if (is_partial(out)) out = Partial{op};
  return rows;
}
Rows called_whole(const OpCall&, Rows rows) {
  for (auto& row : rows)
    for (auto& out : row.outputs)
      if (is_partial(out)) out = Replicate{};
  return rows;
}

struct Label {
  const char* name;
  ChangeRows change;
};
constexpr Label kLabels[] = {{"sum", called<ReduceOp::kSum>},         {"avg", called<ReduceOp::kAvg>},
                             {"max", called<ReduceOp::kMax>},         {"min", called<ReduceOp::kMin>},
                             {"product", called<ReduceOp::kProduct>}, {"whole", called_whole}};

// An op that reduces over a dimension that is cut, the label that is true of it, and cases: many terms, in
// the short types; terms that cancel, leave the dtype, or vanish.
struct Reduction {
  const char *op, *true_label, *suite, *mentions;
  std::vector<std::string> tokens;
};

std::vector<Reduction> reductions() {
  return {
      {"aten::embedding_dense_backward",
       "sum",
       "gradient",
       "embedding",
       {"v1:program;mesh=4;seed=1;dev=1x256;x0=bf16[2x4]:normal(1)@[R]!;x1=i64[400]:index(2,0,1)@[S0];"
        "x2=bf16[400x4]:normal(3)@[S0];v0=aten::embedding(x0,x1,-1,false,false);"
        "v1=lockstep::backward(t[v0],t[x2])#1034b4ae"}},
      {"aten::sum",
       "sum",
       "ops",
       "sum",
       {"v1:program;mesh=4;seed=1;dev=1x256;x0=bf16[8192]:normal(7)@[S0];v0=aten::sum(x0,none);"
        "v1=lockstep::redistribute(v0,@[R])#89f14a3e",
        "v1:program;mesh=2;seed=1;dev=1x256;x0=f32[4]:bits{7f800000.3f800000.40000000.40400000}@[S0];"
        "v0=aten::sum(x0,none);v1=lockstep::redistribute(v0,@[R])#d1d48098"}},
      {"aten::mean",
       "avg",
       "ops",
       "mean",
       {"v1:program;mesh=4;seed=1;dev=1x256;x0=f16[4096]:normal(7)@[S0];v0=aten::mean(x0,none);"
        "v1=lockstep::redistribute(v0,@[R])#e10285a6"}},
      {"aten::prod",
       "product",
       "ops",
       "prod",
       {"v1:ops;mesh=8;seed=35190;dev=132x2048;x0=f16[9x1x8]:normal(45615)@[S0];v0=aten::prod(x0,none)#"
        "2fe07ef5"}},
      {"aten::amax",
       "max",
       "ops",
       "amax",
       {"v1:program;mesh=2;seed=1;dev=1x256;x0=bf16[64]:normal(7)@[S0];v0=aten::amax(x0,[0],false);"
        "v1=lockstep::redistribute(v0,@[R])#0ef59ac7"}},
      {"aten::mm",
       "sum",
       "ops",
       "mm matmul linear",
       {"v1:program;mesh=2;seed=1;dev=1x256;x0=bf16[2x2048]:normal(1)@[S1];x1=bf16[2048x2]:normal(2)@[S0];"
        "v0=aten::mm(x0,x1);v1=lockstep::redistribute(v0,@[R])#db68d63d",
        "v1:program;mesh=2;seed=1;dev=1x256;x0=f32[1x4]:bits{7f800000.3f800000.40000000.40400000}@[S1];"
        "x1=f32[4x1]:ones@[S0];v0=aten::mm(x0,x1);v1=lockstep::redistribute(v0,@[R])#29356584"}},
      {"aten::native_layer_norm_backward",
       "sum",
       "gradient",
       "layer_norm",
       {"v1:program;mesh=2;seed=1;dev=1x256;x0=bf16[256x4]:normal(1)@[S0]!;x1=bf16[4]:normal(2)@[R]!;"
        "x2=bf16[4]:normal(3)@[R]!;x3=bf16[256x4]:normal(4)@[S0];"
        "v0=aten::layer_norm(x0,[4],x1,x2,0.00001,false);[v1,v2,v3]=lockstep::backward(t[v0],t[x3])#"
        "8be8dbab"}},
      {"aten::convolution_backward",
       "sum",
       "gradient",
       "conv",
       {"v1:program;mesh=2;seed=1;dev=1x256;x0=bf16[64x2x3x3]:normal(1)@[S0]!;x1=bf16[3x2x2x2]:normal(2)@[R]!"
        ";"
        "x2=bf16[64x3x2x2]:normal(4)@[S0];"
        "v0=aten::convolution(x0,x1,none,[1,1],[0,0],[1,1],false,[0,0],1);[v1,v2]=lockstep::backward(t[v0],t["
        "x2])#1cf94082"}},
  };
}

// Integers have no average, so none can be lied about.
bool is_floating(const oracle::Case& c) {
  return std::any_of(c.program.inputs.begin(), c.program.inputs.end(),
                     [](const oracle::Input& input) { return c10::isFloatingType(input.dtype); });
}
Touches touched(const Reduction& r, const Label& label) {
  const auto called = on_ranks(mentions(r.mentions));
  if (std::string_view(label.name) != "avg") return called;
  return [called](const oracle::Case& c) { return is_floating(c) && called(c); };
}

// ---- reductions that pass what they may not ----

Rows passes(const OpCall& call, Rows rows) {
  rows.insert(rows.begin(), {Placements(call.outputs.size(), Partial{}), call.current, {}});
  return rows;
}

// Each shard of the dimension that it goes along as if it were all there is.
Rows each_shard_alone(const OpCall& call, Rows rows) {
  const int64_t dim = call.integer("dim"), ndim = call.inputs[0].ndim();
  const Placement shard = Shard{dim < 0 ? dim + ndim : dim};
  if (ndim == 0) return rows;
  rows.insert(rows.begin(),
              {Placements(call.outputs.size(), shard), Placements(call.inputs.size(), shard), {}});
  return rows;
}

struct Passing {
  const char *op, *mentions, *token;
};
// A negative or zero factor, another dtype, an operand of a product, a function that is not linear.
constexpr Passing kPassing[] = {
    {"aten::neg", "neg",
     "v1:program;mesh=2;seed=1;dev=1x256;x0=f32[6]:integers(1,-1,2)@[P];v0=aten::neg(x0)#fc4fc550"},
    {"aten::sub", "sub",
     "v1:program;mesh=2;seed=1;dev=1x256;x0=f32[6]:integers(1,-1,2)@[P];x1=f32[6]:zeros@[P];"
     "v0=aten::sub.Tensor(x0,x1,1)#eb1036e2"},
    {"aten::mul", "mul",
     "v1:program;mesh=2;seed=1;dev=1x256;x0=f32[6]:special(5)@[P];v0=aten::mul.Scalar(x0,0.0)#a5daf7f1"},
    {"aten::div", "div",
     "v1:program;mesh=2;seed=1;dev=1x256;x0=f32[6]:integers(1,-1,2)@[P];v0=aten::div.Scalar(x0,-2.0)#"
     "782bf930"},
    {"aten::_to_copy", "_to_copy to",
     "v1:program;mesh=2;seed=1;dev=1x256;x0=bf16[64]:normal(1)@[P];"
     "v0=aten::_to_copy(x0,f32,none,none,none,false,none)#04e89ddc"},
    {"aten::mm", "mm",
     "v1:program;mesh=2;seed=1;dev=1x256;x0=f32[4x6]:integers(1,-1,2)@[P];x1=f32[6x3]:integers(2,-1,2)@[R];"
     "v0=aten::mm(x0,x1)#22526c2b"},
    {"aten::abs", "abs", "v1:program;mesh=2;seed=1;dev=1x256;x0=f32[6]:ones@[P];v0=aten::abs(x0)#0ca06fd5"},
    {"aten::sqrt", "sqrt",
     "v1:program;mesh=2;seed=1;dev=1x256;x0=f32[6]:zeros@[P];v0=aten::sqrt(x0)#29d22c76"},
};

}  // namespace

std::vector<Adversary> liars() {
  std::vector<Adversary> all;
  for (const auto& r : reductions())
    for (const auto& label : kLabels)
      if (std::string_view(label.name) != r.true_label)
        all.push_back({std::string(r.op).substr(6) + "-called-" + label.name, "the name of a reduction",
                       r.tokens, r.suite, touched(r, label), with_rows(r.op, label.change)});
  for (const auto& p : kPassing)
    all.push_back({std::string(p.op).substr(6) + "-passes",
                   "what passes a reduction on",
                   {p.token},
                   "ops",
                   pending_on_ranks(mentions(p.mentions)),
                   with_rows(p.op, passes)});
  for (const char* op : {"aten::cumsum", "aten::_softmax"})
    all.push_back({std::string(op).substr(6) + "-of-shards",
                   "an infinity excuses its row",
                   {op == std::string("aten::cumsum")
                        ? "v1:ops;mesh=2x2;seed=62875;dev=2x512;x0=f32[4]:special(37787)@[S0,R];"
                          "v0=aten::cumsum(x0,0,none)#f1b6c0a8"
                        : "v1:ops;mesh=2;seed=1;dev=2x512;x0=f32[4]:special(37787)@[S0];"
                          "v0=aten::_softmax(x0,0,false)#8ad16afd"},
                   "ops",
                   on_ranks(mentions("cumsum softmax")),
                   with_rows(op, each_shard_alone)});
  return all;
}

}  // namespace lockstep::suites::plant
