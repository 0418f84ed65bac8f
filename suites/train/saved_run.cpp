// SPDX-License-Identifier: Apache-2.0
#include "suites/train/saved_run.h"

#include <ATen/ATen.h>

#include <array>
#include <charconv>

#include "dashboard/store/bits.h"
#include "dashboard/store/hash.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "suites/train/curve_rows.h"

namespace lockstep::suites {
namespace {

// The shortest text that is read as the same number.
std::string shortest(double value) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string dtype_text(std::optional<c10::ScalarType> dtype) {
  return dtype ? dtype_name(*dtype) : "that of the parameters";
}

std::string sizes_text(const TrainOptions& options) {
  const auto m = model_options(options);
  std::vector<int64_t> sizes{m.hidden, m.layers, m.heads, m.kv_heads, m.head, m.mlp, m.vocabulary};
  if (m.experts > 0) sizes.insert(sizes.end(), {m.experts, m.top_k});
  if (m.architecture == Architecture::kGpt2) sizes.push_back(m.max_sequence);
  return join(sizes, ',');
}

struct Option {
  const char* name;
  std::string (*get)(const TrainOptions&);
  bool fits = false;  // of another the tensors do not fit
};
// What the bits of further steps depend on, but for the text. Those of a mesh are one device's as far as the
// order of its sums allows, but under a policy that draws by ranks.
const Option kOptions[] = {
    {"model", [](const TrainOptions& o) { return o.model; }, true},
    {"--preset", [](const TrainOptions& o) { return concat(o.preset, " (", sizes_text(o), ")"); }, true},
    {"--dtype", [](const TrainOptions& o) { return dtype_name(o.dtype); }, true},
    {"--optimizer", [](const TrainOptions& o) { return std::string(name(o.optimizer)); }, true},
    {"--param-dtype", [](const TrainOptions& o) { return dtype_text(o.precision.param_dtype); }},
    {"--reduce-dtype", [](const TrainOptions& o) { return dtype_text(o.precision.reduce_dtype); }},
    {"--batch", [](const TrainOptions& o) { return concat(o.batch); }},
    {"--sequence", [](const TrainOptions& o) { return concat(o.sequence); }},
    {"--dropout", [](const TrainOptions& o) { return shortest(o.dropout); }},
    {"--lr", [](const TrainOptions& o) { return shortest(o.lr); }},
    {"--seed", [](const TrainOptions& o) { return concat(o.seed); }},
    {"--policy", [](const TrainOptions& o) { return std::string(name(o.drop)); }},
    {"--numerics",
     [](const TrainOptions& o) { return concat(o.numerics == Lane::kExact ? "exact" : "fast"); }},
    {"--device", [](const TrainOptions& o) { return concat(o.on == c10::kCPU ? "cpu" : "cuda"); }},
    {"--mesh",
     [](const TrainOptions& o) {
       return o.mesh && !agrees_with_reference(o.drop) ? to_string(*o.mesh) : "any";
     }},
    {"--device-model",
     [](const TrainOptions& o) { return concat(o.device.sm_count, "x", o.device.threads_per_sm); }},
};

std::string digest_of(std::string_view text) {
  return dashboard::hex(dashboard::Hasher().add(text).key());
}

const std::string& said(const std::string& folder, const dcp::Metadata& metadata, const char* name) {
  const auto found = metadata.find(name);
  LOCKSTEP_CHECK(found != metadata.end(), "[train] ", folder, " is no checkpoint of a training: it says no ",
                 name, "; ci/dcp.py --metadata-of takes that from one");
  return found->second;
}

template <class T>
bool parse(std::string_view text, T& value, int base) {
  const auto* end = text.data() + text.size();
  const auto [stopped, failed] = std::from_chars(text.data(), end, value, base);
  return failed == std::errc() && stopped == end;
}

template <class T>
T number(const std::string& folder, const dcp::Metadata& metadata, const char* name) {
  const auto& text = said(folder, metadata, name);
  T value{};
  LOCKSTEP_CHECK(parse(text, value, 10), "[train] ", folder, " says that its ", name, " is '", text,
                 "', which is no such number");
  return value;
}

Chain chain_of(const std::string& folder, const dcp::Metadata& metadata) {
  const std::string_view text = said(folder, metadata, "chain");
  Chain chain{};
  bool is_one = text.size() == 2 * chain.size();
  for (size_t i = 0; is_one && i < chain.size(); ++i) is_one = parse(text.substr(2 * i, 2), chain[i], 16);
  LOCKSTEP_CHECK(is_one, "[train] ", folder, " says that its chain is '", text, "', which is none");
  return chain;
}

}  // namespace

dcp::Metadata metadata_of(const TrainOptions& options, std::string_view text, const SavedRun& run) {
  dcp::Metadata all = {{"step", concat(run.step)},
                       {"chain", dashboard::hex(run.chain)},
                       {"random seed", concat(run.random.seed)},
                       {"random offset", concat(run.random.offset)},
                       {"--data", digest_of(text)}};
  for (const auto& option : kOptions) all[option.name] = option.get(options);
  return all;
}

SavedRun saved_run(const TrainOptions& options, const dcp::Metadata& metadata) {
  const auto& folder = options.resume;
  SavedRun run;
  run.step = number<int64_t>(folder, metadata, "step");
  run.random.seed = number<uint64_t>(folder, metadata, "random seed");
  run.random.offset = number<uint64_t>(folder, metadata, "random offset");
  run.chain = chain_of(folder, metadata);
  for (const auto& option : kOptions) {
    if (!option.fits) continue;
    const auto &before = said(folder, metadata, option.name), now = option.get(options);
    LOCKSTEP_CHECK(before == now, "[train] ", folder, " was saved with ", option.name, " ", before,
                   ", and its tensors are not those of ", now);
  }
  LOCKSTEP_CHECK(run.step >= 1 && run.random.offset % 4 == 0, "[train] ", folder, " says that it is of step ",
                 run.step, " and offset ", run.random.offset, ", which no training is saved at");
  LOCKSTEP_CHECK(run.step < options.steps, "[train] ", folder, " was saved after step ", run.step,
                 ", and --steps ", options.steps, " asks for none after it; choose more");
  return run;
}

std::vector<std::string> resumed_otherwise(const TrainOptions& options, std::string_view text,
                                           const dcp::Metadata& metadata) {
  saved_run(options, metadata);
  const auto& folder = options.resume;
  std::vector<std::string> all;
  for (const auto& option : kOptions)
    if (const auto& before = said(folder, metadata, option.name), now = option.get(options); before != now)
      all.push_back(concat(option.name, " ", before, " before, ", now, " now"));
  if (said(folder, metadata, "--data") != digest_of(text))
    all.emplace_back("--data another text than before");
  return all;
}

}  // namespace lockstep::suites
