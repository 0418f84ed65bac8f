// SPDX-License-Identifier: Apache-2.0
#include "suites/laws/train_case.h"

#include <charconv>
#include <set>

#include "engine/values/error.h"
#include "oracle/program/number_text.h"

namespace lockstep::suites {
namespace {

// The sizes that a Case may have, by the names of its options. @pre options.sizes
struct Size {
  const char* name;
  int64_t& (*of)(TrainOptions& options);
};
constexpr Size kSizes[] = {
    {"steps", [](TrainOptions& o) -> int64_t& { return o.steps; }},
    {"layers", [](TrainOptions& o) -> int64_t& { return o.sizes->layers; }},
    {"batch", [](TrainOptions& o) -> int64_t& { return o.batch; }},
    {"sequence", [](TrainOptions& o) -> int64_t& { return o.sequence; }},
    {"kv_heads", [](TrainOptions& o) -> int64_t& { return o.sizes->kv_heads; }},
    {"heads", [](TrainOptions& o) -> int64_t& { return o.sizes->heads; }},
    {"hidden", [](TrainOptions& o) -> int64_t& { return o.sizes->hidden; }},
    {"mlp", [](TrainOptions& o) -> int64_t& { return o.sizes->mlp; }},
    {"experts", [](TrainOptions& o) -> int64_t& { return o.sizes->experts; }},
    {"top_k", [](TrainOptions& o) -> int64_t& { return o.sizes->top_k; }},
    {"vocabulary", [](TrainOptions& o) -> int64_t& { return o.sizes->vocabulary; }},
};

template <class T>
T number(const std::string& name, const std::string& text) {
  T value{};
  const auto end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  LOCKSTEP_CHECK(read.ec == std::errc() && read.ptr == end, "[train] the option ", name, ":", text,
                 " of the token is not a number");
  return value;
}

void set_option(TrainOptions& options, const std::string& name, const std::string& text) {
  if (name == "optimizer") {
    options.optimizer = parse_optimizer(text);
    return;
  }
  if (name == "dropout") {
    options.dropout = number<double>(name, text);
    return;
  }
  if (name == "weight_decay") {
    options.weight_decay = number<double>(name, text);
    return;
  }
  if (name == "set_to_none") {
    LOCKSTEP_CHECK(text == "0" || text == "1", "[train] set_to_none:", text, " of the token; write 0 or 1");
    options.set_to_none = text == "1";
    return;
  }
  if (name == "param_dtype") {
    options.precision.param_dtype = parse_dtype(text);
    return;
  }
  if (name == "reduce_dtype") {
    options.precision.reduce_dtype = parse_dtype(text);
    return;
  }
  if (name == "dtype") {
    options.dtype = parse_dtype(text);
    LOCKSTEP_CHECK(c10::isFloatingType(options.dtype), "[train] a model in ", text,
                   " has no gradients; use f32, f64, bf16 or f16");
    return;
  }
  for (const auto& size : kSizes)
    if (name == size.name) {
      size.of(options) = number<int64_t>(name, text);
      return;
    }
  throw Error(concat("[train] no option '", name,
                     "' of a training; there are: optimizer, dropout, weight_decay, set_to_none, dtype, "
                     "param_dtype, reduce_dtype, steps, "
                     "layers, batch, sequence, kv_heads, heads, hidden, mlp, experts, top_k, vocabulary"));
}

// Ranks that have examples of their own.
int64_t data_ranks(const DeviceMesh& mesh) {
  int64_t ranks = 1;
  for (int64_t d = 0; d < mesh.ndim(); ++d)
    if (mesh.names()[static_cast<size_t>(d)] != "tp") ranks *= mesh.size(d);
  return ranks;
}

// Small enough for seconds; "odd" divides by neither 4 nor 8.
TrainOptions default_on(const DeviceMesh& mesh) {
  TrainOptions options;
  options.preset = mesh.size() == 3 ? "odd" : "tiny";
  options.sizes = llama_preset(options.preset);
  options.steps = 3;
  options.batch = std::max<int64_t>(2, data_ranks(mesh));
  options.sequence = 8;
  options.mesh = mesh;
  options.on = mesh.device_type();
  return options;
}

// Each size first: their product may not be a number.
void check_case_options(TrainOptions options) {
  constexpr int64_t kMost = 1 << 20;
  for (const auto& size : kSizes)
    LOCKSTEP_CHECK(size.of(options) <= kMost, "[train] ", size.of(options), " ", size.name,
                   " are too many for a case; use at most ", kMost);
  check_options(options);
  const auto model = model_options(options);
  LOCKSTEP_CHECK(model.layers <= 64 && parameter_count(model) <= 16 * kMost &&
                     options.batch * options.sequence * model.vocabulary <= 16 * kMost,
                 "[train] the token's model or batch is too large for a case; use smaller sizes");
}

// Numbers worth trying in place of n, smallest first.
std::vector<int64_t> smaller(int64_t n, int64_t least) {
  std::set<int64_t> numbers;
  for (const int64_t other : {int64_t{0}, int64_t{1}, int64_t{2}, n / 2, n - 1})
    if (other >= least && other < n) numbers.insert(other);
  return {numbers.begin(), numbers.end()};
}

// Collects those that fit.
class Trainings {
 public:
  explicit Trainings(TrainOptions from) : from_(std::move(from)), token_(oracle::to_token(case_of(from_))) {}

  template <class Change>
  void add(const Change& change) {
    auto options = from_;
    change(options);
    try {
      check_options(options);
    } catch (const Error&) {
      return;
    }
    auto made = case_of(options);
    if (oracle::to_token(made) != token_) all_.push_back(std::move(made));
  }
  const TrainOptions& from() const { return from_; }
  std::vector<oracle::Case> take() { return std::move(all_); }

 private:
  TrainOptions from_;
  std::string token_;
  std::vector<oracle::Case> all_;
};

void smallest(TrainOptions& o) {
  auto& sizes = *o.sizes;
  o.steps = 1;
  o.sequence = std::min<int64_t>(o.sequence, 2);
  sizes.heads = sizes.kv_heads = 1;
  for (auto* size : {&sizes.hidden, &sizes.mlp, &sizes.vocabulary}) *size = std::min<int64_t>(*size, 2);
}

void fewer_ranks(Trainings& all) {
  const auto& mesh = *all.from().mesh;
  const auto put = [&](const std::vector<int64_t>& shape, const std::vector<std::string>& names) {
    all.add([&](TrainOptions& o) { o.mesh = DeviceMesh(shape, names).on(mesh.device_type()); });
  };
  for (size_t d = 0; d < mesh.shape().size() && mesh.ndim() > 1; ++d) {
    auto shape = mesh.shape();
    auto names = mesh.names();
    shape.erase(shape.begin() + static_cast<ptrdiff_t>(d));
    names.erase(names.begin() + static_cast<ptrdiff_t>(d));
    put(shape, names);
  }
  for (size_t d = 0; d < mesh.shape().size(); ++d)
    for (const auto n : smaller(mesh.shape()[d], 1)) {
      auto shape = mesh.shape();
      shape[d] = n;
      put(shape, mesh.names());
    }
}

}  // namespace

TrainOptions training_of(const oracle::Case& c) {
  LOCKSTEP_CHECK(
      c.program.inputs.empty() && c.program.calls.empty(),
      "[train] the token has a program, and a training is none: it has a mesh, a seed and options");
  auto options = default_on(c.mesh);
  options.seed = c.program.seed;
  options.device = c.device;
  options.numerics = c.numerics;
  for (const auto& [name, text] : c.options) set_option(options, name, text);
  check_case_options(options);
  return options;
}

oracle::Case case_of(const TrainOptions& options) {
  oracle::Case c;
  c.suite = "train";
  c.mesh = *options.mesh;
  c.program.seed = options.seed;
  c.device = options.device;
  c.numerics = options.numerics;
  auto usual = default_on(c.mesh), mine = options;
  if (mine.optimizer != usual.optimizer) c.options["optimizer"] = name(mine.optimizer);
  if (mine.dropout != usual.dropout) c.options["dropout"] = oracle::double_text(mine.dropout);
  if (mine.weight_decay != usual.weight_decay)
    c.options["weight_decay"] = oracle::double_text(mine.weight_decay);
  if (mine.set_to_none != usual.set_to_none) c.options["set_to_none"] = mine.set_to_none ? "1" : "0";
  if (mine.dtype != usual.dtype) c.options["dtype"] = dtype_name(mine.dtype);
  if (mine.precision.param_dtype) c.options["param_dtype"] = dtype_name(*mine.precision.param_dtype);
  if (mine.precision.reduce_dtype) c.options["reduce_dtype"] = dtype_name(*mine.precision.reduce_dtype);
  for (const auto& size : kSizes)
    if (size.of(mine) != size.of(usual)) c.options[size.name] = std::to_string(size.of(mine));
  return c;
}

std::vector<oracle::Case> simpler_trainings(const oracle::Case& c) {
  Trainings all(training_of(c));
  const auto& from = all.from();
  all.add(smallest);
  fewer_ranks(all);
  for (const auto& size : kSizes) {
    auto now = from;
    const std::string_view name = size.name;
    const bool may_be_none = name == "layers" || name == "experts";
    for (const auto n : smaller(size.of(now), may_be_none ? 0 : 1))
      all.add([&](TrainOptions& o) { size.of(o) = n; });
  }
  all.add([](TrainOptions& o) { o.optimizer = OptimizerKind::kSgd; });
  if (from.optimizer == OptimizerKind::kFusedAdamW)
    all.add([](TrainOptions& o) { o.optimizer = OptimizerKind::kAdamW; });
  all.add([](TrainOptions& o) { o.dropout = 0; });
  all.add([](TrainOptions& o) { o.weight_decay = 0; });
  all.add([](TrainOptions& o) { o.set_to_none = true; });
  all.add([](TrainOptions& o) { o.dtype = at::kFloat; });
  all.add([](TrainOptions& o) { o.precision = {}; });
  all.add([](TrainOptions& o) { o.precision.reduce_dtype = {}; });
  all.add([](TrainOptions& o) { o.seed = 0; });
  all.add([](TrainOptions& o) { o.device = {1, 256}; });
  return all.take();
}

}  // namespace lockstep::suites
