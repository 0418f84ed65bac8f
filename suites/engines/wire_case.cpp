// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/wire_messages.h"

#include "engine/values/error.h"
#include "suites/engines/wire_values.h"

namespace lockstep::suites::wire {
namespace {

using oracle::Arg;
using oracle::Call;
using oracle::Ref;
using oracle::Target;

Json write_target(const Target& target) {
  Json json = {{"placements", write_placements(target.placements)}};
  if (!target.order.empty()) json["order"] = target.order;
  return json;
}

Target read_target(const Json& json) {
  return {read_placements(json.at("placements")), json.value("order", std::vector<int64_t>())};
}

Json write_ref(const Ref& ref) {
  return ref.id < 0 ? Json(nullptr) : Json(ref.id);
}
Ref read_ref(const Json& json) {
  return {json.is_null() ? -1 : json.get<int64_t>()};
}

struct WriteArg {
  Json operator()(const oracle::None&) const { return nullptr; }
  Json operator()(const Ref& ref) const { return {{"value", write_ref(ref)}}; }
  Json operator()(const std::vector<Ref>& refs) const { return {{"values", write_list(refs, write_ref)}}; }
  Json operator()(c10::ScalarType dtype) const { return {{"dtype", dtype_name(dtype)}}; }
  Json operator()(const Target& target) const { return write_target(target); }
  Json operator()(const std::vector<bool>& bools) const {
    return {{"bools", write_list(bools, [](bool b) { return b; })}};
  }
  template <class T>
  Json operator()(const T& plain) const {
    return write_plain(plain);
  }
};

Arg read_plain_arg(const Json& json) {
  const auto value = read_plain(json);
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return value.toInt();
  if (value.isDouble()) return value.toDouble();
  if (value.isString()) return value.toStringRef();
  if (value.isIntList()) return value.toIntVector();
  if (value.isDoubleList()) return value.toDoubleVector();
  if (value.isBoolList()) {
    const auto bools = value.toBoolList();
    return std::vector<bool>(bools.begin(), bools.end());
  }
  return oracle::None{};
}

Arg read_arg(const Json& json) {
  if (!json.is_object()) return read_plain_arg(json);
  if (json.contains("value")) return read_ref(json.at("value"));
  if (json.contains("placements")) return read_target(json);
  if (json.contains("dtype")) return parse_dtype(json.at("dtype").get<std::string>());
  if (!json.contains("values")) return read_plain_arg(json);
  std::vector<Ref> refs;
  for (const auto& ref : json.at("values")) refs.push_back(read_ref(ref));
  return refs;
}

Json write_call(const Call& call) {
  return {{"op", call.op},
          {"args", write_list(call.args, [](const Arg& a) { return std::visit(WriteArg{}, a); })},
          {"results", call.results}};
}

Call read_call(const Json& json) {
  Call call{json.at("op").get<std::string>(), {}, json.at("results").get<int64_t>()};
  for (const auto& arg : json.at("args")) call.args.push_back(read_arg(arg));
  return call;
}

Json write_input(const oracle::Case& c, size_t i, const oracle::InputTensors& tensors, std::string& payload) {
  auto json = write_target(c.placements[i]);
  json["requires_grad"] = c.program.inputs[i].requires_grad;
  json["global"] = write_tensor(tensors.global, payload);
  if (has_partial(c.placements[i]))
    json["locals"] = write_list(tensors.locals, [&](const auto& t) { return write_tensor(t, payload); });
  return json;
}

void read_input(const Json& json, Payload& payload, GivenCase& given) {
  oracle::InputTensors tensors{read_tensor(json.at("global"), payload), {}};
  if (json.contains("locals"))
    for (const auto& local : json.at("locals")) tensors.locals.push_back(read_tensor(local, payload));
  oracle::Input input;
  input.dtype = tensors.global.scalar_type();
  input.shape = tensors.global.sizes().vec();
  input.requires_grad = json.at("requires_grad").get<bool>();
  given.c.program.inputs.push_back(std::move(input));
  given.c.placements.push_back(read_target(json));
  given.inputs.push_back(std::move(tensors));
}

}  // namespace

Message write_case(const oracle::Case& c, const std::vector<oracle::InputTensors>& inputs) {
  Message message;
  message.header = {{"type", "run"},
                    {"token", oracle::to_token(c)},
                    {"mesh", write_mesh(c.mesh)},
                    {"seed", c.program.seed},
                    {"device", to_string(c.device)},
                    {"words", name(c.words)},
                    {"integer_lane", c.integer_lane},
                    {"calls", write_list(c.program.calls, write_call)}};
  if (!c.options.empty()) message.header["options"] = c.options;
  if (c.program.refused) message.header["refused"] = write_call(*c.program.refused);
  auto& list = message.header["inputs"] = Json::array();
  for (size_t i = 0; i < inputs.size(); ++i) list.push_back(write_input(c, i, inputs[i], message.payload));
  return message;
}

GivenCase read_case(const Message& message) {
  const auto& h = message.header;
  GivenCase given;
  given.c.mesh = read_mesh(h.at("mesh"));
  given.c.program.seed = h.at("seed").get<uint64_t>();
  given.c.device = parse_device_model(h.at("device").get<std::string>());
  given.c.words = parse_random_words(h.value("words", "philox"));
  given.c.integer_lane = h.at("integer_lane").get<bool>();
  given.c.options = h.value("options", given.c.options);
  Payload payload(message.payload);
  for (const auto& input : h.at("inputs")) read_input(input, payload, given);
  payload.finish();
  for (const auto& call : h.at("calls")) given.c.program.calls.push_back(read_call(call));
  if (h.contains("refused")) given.c.program.refused = read_call(h.at("refused"));
  return given;
}

}  // namespace lockstep::suites::wire
