// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/serve.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "suites/core/judge.h"
#include "suites/engines/merge_results.h"
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

// What the engine throws for a case, told.
Message thrown(const std::exception& e, const oracle::Case& c) {
  if (const auto refusal = refusal_of(e, c)) return refused(*refusal, e.what());
  auto message = error(e.what());
  message.header["rank_lost"] = dynamic_cast<const RankLost*>(&e) != nullptr;
  return message;
}

Message run_case(LockstepEngine& engine, const EngineProfile& profile, const Message& request) {
  wire::GivenCase given;
  try {
    given = wire::read_case(request);
    const bool timeline = profile.has(Flag::kTimeline) && request.header.value("want_timeline", false);
    return wire::write_result(engine.run_on(given.c, given.inputs, timeline), given.c.mesh);
  } catch (const std::exception& e) {
    return thrown(e, given.c);
  }
}

}  // namespace

Message answer_hosted(Processes& processes, const Message& request, const DecorateHosted& decorate) {
  const auto& h = request.header;
  const auto token = h.at("token").get<std::string>();
  const auto c = oracle::parse_token(token);
  HostedResult hosted;
  bool idle = false;  // no rank of the mesh is here
  try {
    processes.run(h.at("world").get<int64_t>(), least_world(c.mesh), [&](const WorldPtr& world) {
      const auto& here = world->hosted();
      const auto& ranks = c.mesh.ranks();
      idle = std::find_first_of(ranks.begin(), ranks.end(), here.begin(), here.end()) == ranks.end();
      if (idle) return;
      hosted.result = run_hosted(decorate ? decorate(world, token) : world, c,
                                 h.at("want_timeline").get<bool>(), hosted.traffic);
    });
    if (idle) return {{{"type", "idle"}}};
    auto message = wire::write_result(hosted.result, c.mesh);
    message.header["sent"] = hosted.traffic.sent;
    message.header["never_waited"] = hosted.result.never_waited;
    message.header["acted"] = hosted.result.acted;
    return message;
  } catch (const std::exception& e) {
    auto message = thrown(e, c);
    message.header["connected"] = processes.connected();
    return message;
  }
}

namespace {

// Answers each request: a greeting with `greeting`, a case with what `run` gives.
int serve(int in, int out, const Message& greeting, const std::function<Message(const Message&)>& run) {
  wire::Channel channel(in, out);
  try {
    while (true) {
      const auto request = channel.receive(wire::kNever);
      const auto type = request.header.value("type", "");
      auto reply = type == "hello" ? greeting
                   : type == "run" ? run(request)
                                   : error("there is no request '" + type + "'");
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

}  // namespace

int serve_engine(int in, int out, bool withhold_timeline) {
  LockstepEngine engine;
  auto profile = engine.profile();
  if (withhold_timeline) profile.flags = 0, profile.name += ", silent";  // no run of the engine that tells
  return serve(in, out, hello(profile),
               [&](const Message& request) { return run_case(engine, profile, request); });
}

int serve_ranks(int in, int out, const Seat& seat, const DecorateHosted& decorate) {
  std::optional<Processes> processes;
  std::string wrong;
  try {
    processes.emplace(seat);
    wrong = self_test(*processes, seat.processes);
  } catch (const std::exception& e) {
    wrong = e.what();
  }
  auto greeting = wrong.empty() ? hello(own_profile()) : error(wrong);
  greeting.header["where"] = seat.where;
  return serve(in, out, greeting,
               [&](const Message& request) { return answer_hosted(*processes, request, decorate); });
}

}  // namespace lockstep::suites
