// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/process_engine.h"

#include "engine/lane/numerics.h"
#include "engine/values/error.h"
#include "suites/engines/wire_messages.h"

namespace lockstep::suites {
namespace {

using wire::Json;
using Kind = EngineFailure::Kind;

}  // namespace

ProcessEngine::ProcessEngine(std::vector<std::string> command, double seconds)
    : command_(std::move(command)), seconds_(seconds) {
  try {
    start();
  } catch (const EngineFailure& e) {
    throw Error(concat("[engine] '", command_.back(), "' does not speak the wire: ", e.what(),
                       "; suites/engines/WIRE.md says how"));
  }
}

void ProcessEngine::start() {
  peer_.emplace(Spawn{.command = command_});
  id_ = 0;
  greet();
}

void ProcessEngine::greet() {
  const auto hello = ask({{{"type", "hello"},
                           {"wire", wire::kVersion},
                           {"lane", entered_lane() == Lane::kExact ? "exact" : "fast"}}});
  const auto& h = hello.header;
  if (text_of(h, "type") != "hello" || !h.contains("wire") || h["wire"] != wire::kVersion)
    peer_->fail(Kind::kWire, concat("it greets with ", h.dump(-1, ' ', true).substr(0, 80), ", not as wire ",
                                    wire::kVersion));
  try {
    profile_ = wire::read_profile(h.value("capabilities", Json::object()));
  } catch (const std::exception& e) {
    peer_->fail(Kind::kWire, concat("its capabilities cannot be read: ", e.what()));
  }
  profile_.name = text_of(h, "name");
  profile_.version = text_of(h, "version");
}

wire::Message ProcessEngine::ask(const wire::Message& message) {
  const auto until = after(seconds_);
  peer_->send(message, until);
  return peer_->receive(until);
}

EngineResult ProcessEngine::run(const oracle::Case& c, bool want_timeline) {
  if (!peer_ || peer_->gone()) start();
  auto request = wire::write_case(c, oracle::make_inputs(c));
  request.header["id"] = ++id_;
  request.header["want_timeline"] = want_timeline;
  const auto answer = ask(std::move(request));
  const auto type = text_of(answer.header, "type"), reason = text_of(answer.header, "reason");
  if (answer.header.value("id", Json()) != id_)
    peer_->fail(Kind::kWire, concat("the engine answers another request than number ", id_));
  if (type == "refused")
    throw EngineRefusal(text_of(answer.header, "op"), text_of(answer.header, "why"), reason);
  if (type == "error") throw EngineFailure(Kind::kError, "", reason);
  if (type != "result")
    peer_->fail(Kind::kWire, concat("'", type.substr(0, 40), "' is no type of an answer"));
  try {
    return wire::read_result(answer, c);
  } catch (const std::exception& e) {
    peer_->fail(Kind::kWire, concat("the engine's result cannot be read: ", e.what()));
  }
}

}  // namespace lockstep::suites
