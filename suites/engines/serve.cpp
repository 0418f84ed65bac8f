// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/serve.h"

#include <cstdio>

#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "suites/core/judge.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/engines/wire_messages.h"

namespace lockstep::suites {
namespace {

using wire::Message;

Message hello(const EngineProfile& profile) {
  return {{{"type", "hello"},
           {"wire", wire::kVersion},
           {"name", profile.name},
           {"version", profile.version},
           {"capabilities", wire::write_profile(profile)}}};
}

Message error(const std::string& reason) {
  return {{{"type", "error"}, {"reason", reason}}};
}

Message refused(const dashboard::RefusalRow& refusal, const std::string& reason) {
  return {{{"type", "refused"}, {"op", refusal.op}, {"why", refusal.reason}, {"reason", reason}}};
}

Message answer(LockstepEngine& engine, const EngineProfile& profile, const Message& request) {
  const auto type = request.header.value("type", "");
  if (type == "hello") return hello(profile);
  if (type != "run") return error("there is no request '" + type + "'");
  wire::GivenCase given;
  try {
    given = wire::read_case(request);
    const bool timeline = profile.has(Flag::kTimeline) && request.header.value("want_timeline", false);
    return wire::write_result(engine.run_on(given.c, given.inputs, timeline), given.c.mesh);
  } catch (const std::exception& e) {
    const auto refusal = refusal_of(e, given.c);
    return refusal ? refused(*refusal, e.what()) : error(e.what());
  }
}

}  // namespace

int serve_engine(int in, int out, bool withhold_timeline) {
  LockstepEngine engine;
  auto profile = engine.profile();
  if (withhold_timeline) profile.flags = 0, profile.name += ", silent";  // no run of the engine that tells
  wire::Channel channel(in, out);
  try {
    while (true) {
      const auto request = channel.receive(wire::kNever);
      auto reply = answer(engine, profile, request);
      if (request.header.contains("id")) reply.header["id"] = request.header["id"];
      channel.send(std::move(reply), wire::kNever);
    }
  } catch (const wire::Closed&) {
    return kAllEqual;
  } catch (const wire::Malformed& e) {
    std::fprintf(stderr, "lockstep: [engine serve] %s\n", e.what());
    return kHarnessError;
  }
}

}  // namespace lockstep::suites
