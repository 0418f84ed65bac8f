// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/wire_messages.h"

#include "engine/values/error.h"
#include "suites/core/outcome.h"
#include "suites/core/suite.h"
#include "suites/engines/wire_values.h"

namespace lockstep::suites::wire {
namespace {

// ---- digests ----

Digest read_digest(const Json& json) {
  const std::string_view text = json.get_ref<const std::string&>();
  if (text.size() != 32) throw Malformed(concat("'", text, "' is no digest of 32 hex digits"));
  return {read_hex(text.substr(16)), read_hex(text.substr(0, 16))};
}

// Of whom a result tells.
struct Told {
  const DeviceMesh& mesh;
  const Positions& positions;
};

// ---- timelines ----

Json write_record(const TensorRecord& record, const DeviceMesh& mesh) {
  if (!record.spec) return nullptr;
  auto json = write_spec(*record.spec, mesh);
  json["digests"] = write_list(record.digests, [](const Digest& digest) { return hex(digest); });
  if (!record.strides.empty()) json["strides"] = record.strides;
  return json;
}

TensorRecord read_record(const Json& json, const Told& told) {
  TensorRecord record;
  if (json.is_null()) return record;
  record.spec = read_spec(json, told.mesh);
  for (const auto& digest : json.at("digests")) record.digests.push_back(read_digest(digest));
  record.strides = json.value("strides", std::vector<std::vector<int64_t>>());
  const auto positions = static_cast<size_t>(told.positions(record.spec->mesh()));
  const bool fits = (record.digests.empty() || record.digests.size() == positions) &&
                    (record.strides.empty() || record.strides.size() == positions);
  if (!fits) throw Malformed(concat("a record has other than ", positions, " digests or strides"));
  for (const auto& stride : record.strides)
    if (stride.size() != record.spec->shape().size() && stride.size() > 1)
      throw Malformed("a record's strides do not fit its shape");
  return record;
}

Json write_entry(const TimelineEntry& entry, const DeviceMesh& mesh) {
  const auto records = [&](const std::vector<TensorRecord>& list) {
    return write_list(list, [&](const TensorRecord& r) { return write_record(r, mesh); });
  };
  Json json = {{"op", entry.op},
               {"implicit", entry.implicit},
               {"args", write_list(entry.args, write_plain)},
               {"tensors_per_arg", entry.tensors_per_arg},
               {"inputs", records(entry.inputs)},
               {"outputs", records(entry.outputs)},
               {"aliases", entry.aliases},
               {"order", to_string(entry.order)}};
  if (entry.random_offset) json["random_offset"] = *entry.random_offset;
  return json;
}

TimelineEntry read_entry(const Json& json, const Told& told) {
  TimelineEntry entry;
  entry.op = json.at("op").get<std::string>();
  entry.implicit = json.value("implicit", false);
  for (const auto& arg : json.at("args")) entry.args.push_back(read_plain(arg));
  entry.tensors_per_arg = json.at("tensors_per_arg").get<std::vector<int64_t>>();
  for (const auto& record : json.at("inputs")) entry.inputs.push_back(read_record(record, told));
  for (const auto& record : json.at("outputs")) entry.outputs.push_back(read_record(record, told));
  entry.aliases = json.value("aliases", std::vector<int64_t>(entry.outputs.size(), -1));
  entry.order = parse_reduction_order(json.value("order", std::string("none")));
  if (json.contains("random_offset")) entry.random_offset = json.at("random_offset").get<uint64_t>();
  const bool fits =
      entry.args.size() == entry.tensors_per_arg.size() && entry.aliases.size() == entry.outputs.size();
  if (!fits) throw Malformed("an entry of " + entry.op + " has lists of different lengths");
  for (const auto alias : entry.aliases)
    if (alias < -1 || alias >= std::ssize(entry.inputs))
      throw Malformed("an entry of " + entry.op + " has an alias of no input");
  return entry;
}

// ---- values ----

Json write_value(const EngineValue& value, const DeviceMesh& mesh, std::string& payload) {
  if (!value.defined()) return nullptr;
  auto json = write_spec(*value.spec, mesh);
  json["locals"] = write_list(value.locals, [&](const at::Tensor& local) {
    auto tensor = write_tensor(local, payload);
    tensor.erase("stride");
    return tensor;
  });
  return json;
}

EngineValue read_value(const Json& json, const Told& told, Payload& payload) {
  EngineValue value;
  if (json.is_null()) return value;
  value.spec = read_spec(json, told.mesh);
  for (const auto& local : json.at("locals")) value.locals.push_back(read_tensor(local, payload));
  if (std::ssize(value.locals) != told.positions(value.spec->mesh()))
    throw Malformed(
        concat("a value on the mesh ", value.spec->mesh(), " has ", value.locals.size(), " locals"));
  return value;
}

}  // namespace

Message write_result(const EngineResult& result, const DeviceMesh& mesh) {
  Message message;
  auto& h = message.header = {
      {"type", "result"}, {"bytes_moved", result.bytes_moved}, {"fallbacks", result.fallbacks}};
  h["random_after"] = {{"seed", result.random_after.seed}, {"offset", result.random_after.offset}};
  h["values"] = write_list(
      result.values, [&](const EngineValue& value) { return write_value(value, mesh, message.payload); });
  if (result.has_timeline)
    h["timeline"] =
        write_list(result.timeline, [&](const TimelineEntry& entry) { return write_entry(entry, mesh); });
  return message;
}

EngineResult read_result(const Message& message, const oracle::Case& c, const Positions& positions) {
  const auto& h = message.header;
  const Told told{c.mesh, positions};
  EngineResult result;
  Payload payload(message.payload);
  for (const auto& value : h.at("values")) result.values.push_back(read_value(value, told, payload));
  payload.finish();
  const auto count = c.program.value_count();
  if (run_in_world(c) == nullptr && std::ssize(result.values) != count)
    throw Malformed(
        concat("it answers with ", result.values.size(), " values, where the Program has ", count));
  const Json stream = h.value("random_after", Json::object());
  result.random_after = {stream.value("seed", c.program.seed), stream.value("offset", uint64_t{0}), c.words};
  result.bytes_moved = h.value("bytes_moved", int64_t{0});
  result.fallbacks = h.value("fallbacks", int64_t{0});
  result.has_timeline = h.contains("timeline");
  if (result.has_timeline)
    for (const auto& entry : h.at("timeline")) result.timeline.push_back(read_entry(entry, told));
  return result;
}

Json write_profile(const EngineProfile& profile) {
  return {{"timeline", profile.has(Flag::kTimeline)},
          {"gradients", profile.has(Flag::kGradients)},
          {"placements", profile.placements},
          {"dtypes", profile.dtypes},
          {"ops", profile.ops},
          {"random_policies", profile.random_policies},
          {"program", profile.program},
          {"mesh_dims", profile.most_mesh_dims},
          {"ranks", profile.most_ranks}};
}

EngineProfile read_profile(const Json& json) {
  EngineProfile profile;
  for (const auto flag : {Flag::kTimeline, Flag::kGradients})
    if (json.value(name(flag), false)) profile.flags = profile.flags | flag;
  profile.placements = json.value("placements", std::set<std::string>());
  profile.dtypes = json.value("dtypes", std::set<std::string>());
  profile.ops = json.value("ops", std::set<std::string>());
  profile.random_policies = json.value("random_policies", std::set<std::string>());
  profile.program = json.value("program", int64_t{1});
  profile.most_mesh_dims = json.value("mesh_dims", int64_t{4});
  profile.most_ranks = json.value("ranks", int64_t{0});
  return profile;
}

}  // namespace lockstep::suites::wire
