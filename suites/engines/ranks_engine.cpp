// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/ranks_engine.h"

#include <algorithm>
#include <iterator>

#include "engine/values/as_size.h"
#include "engine/world/c10d_world.h"
#include "engine/world/flight_log.h"
#include "suites/core/most_ranks.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/engines/merge_results.h"
#include "suites/engines/peer.h"
#include "suites/engines/wire_messages.h"

namespace lockstep::suites {
namespace {

using wire::Message;
using Kind = EngineFailure::Kind;

// The positions of the mesh whose ranks the process hosts, ascending.
std::vector<int64_t> positions_of(const DeviceMesh& mesh, int64_t n, int64_t processes, int64_t process) {
  const auto hosted = hosted_ranks(n, processes, process);
  std::vector<int64_t> positions;
  for (int64_t p = 0; p < mesh.size(); ++p)
    if (std::binary_search(hosted.begin(), hosted.end(), mesh.ranks()[as_size(p)])) positions.push_back(p);
  return positions;
}

// The process that is gone, and what those say that wait for it.
[[noreturn]] void throw_failure(const std::vector<Heard>& all) {
  const Heard* worst = nullptr;
  for (const auto kind : {Kind::kDied, Kind::kWire, Kind::kHung})
    for (const auto& heard : all)
      if (worst == nullptr && heard.failure && heard.failure->kind == kind) worst = &heard;
  std::string text = worst->failure->what();
  for (size_t process = 0; process < all.size(); ++process)
    if (all[process].type() == "error") text += concat("\nprocess ", process, ": ", all[process].reason());
  throw EngineFailure(worst->failure->kind, worst->failure->end, text);
}

// The first error that tells more than that another rank was lost; else the first.
const Heard* first_error(const std::vector<Heard>& all) {
  const Heard* first = nullptr;
  for (const auto& heard : all)
    if (heard.type() == "error" && (first == nullptr || (first->lost_another() && !heard.lost_another())))
      first = &heard;
  return first;
}

// Whether the process hosts no rank of the mesh.
bool is_idle(const Heard& heard) {
  return heard.type() == "idle";
}

// @pre some process has ranks of the mesh
void check(const std::vector<Heard>& all) {
  if (std::any_of(all.begin(), all.end(), [](const auto& heard) { return heard.failure.has_value(); }))
    throw_failure(all);
  if (const auto* error = first_error(all)) throw EngineFailure(Kind::kError, "", error->reason());
  const auto& first =
      *std::find_if(all.begin(), all.end(), [](const auto& heard) { return !is_idle(heard); });
  for (const auto& heard : all) {
    if (heard.type() == first.type() || is_idle(heard)) continue;
    throw EngineFailure(Kind::kError, "",
                        concat("some ranks refuse what others run: ", heard.reason(), first.reason()));
  }
  if (first.type() == "refused")
    throw EngineRefusal(text_of(first.answer.header, "op"), text_of(first.answer.header, "why"),
                        first.reason());
}

}  // namespace

RanksEngine::RanksEngine(std::function<CrewPtr()> gather) : gather_(std::move(gather)), crew_(gather_()) {}

const EngineProfile& RanksEngine::profile() const {
  return world_profile();
}

EngineResult RanksEngine::run(const oracle::Case& c, bool want_timeline) {
  Traffic traffic;
  return run(c, want_timeline, traffic);
}

EngineResult RanksEngine::run(const oracle::Case& c, bool want_timeline, Traffic& traffic) {
  if (gone_) throw EngineFailure(*gone_);
  if (crew_ == nullptr) crew_ = gather_(), world_ = 0;
  const int64_t n = least_world(c.mesh), processes = crew_->size(), used = std::min(n, processes);
  crew_->forget(n);
  const auto token = oracle::to_token(c);
  const auto all = crew_->ask(
      {{{"type", "run"}, {"world", ++world_}, {"token", token}, {"want_timeline", want_timeline}}}, used);
  try {
    check(all);
  } catch (const EngineFailure& e) {
    const EngineFailure told(e.kind, e.end, e.what() + crew_->parted(token, n));
    const bool whole =
        std::all_of(all.begin(), all.end(), [](const auto& heard) { return heard.connected(); });
    if (e.kind == Kind::kError && whole) throw told;
    if (!crew_->can_be_replaced()) gone_ = told;
    crew_.reset();
    throw told;
  }
  std::vector<HostedResult> parts;
  for (int64_t process = 0; process < used; ++process) {
    if (is_idle(all[as_size(process)])) continue;
    const auto& answer = all[as_size(process)].answer;
    auto& part = parts.emplace_back();
    part.positions = positions_of(c.mesh, n, processes, process);
    part.result = wire::read_result(answer, c, [&](const DeviceMesh& mesh) {
      return std::ssize(positions_of(mesh, n, processes, process));
    });
    part.result.never_waited = answer.header.at("never_waited").get<std::vector<std::string>>();
    part.result.acted = answer.header.at("acted").get<std::vector<std::string>>();
    part.traffic.sent = answer.header.at("sent").get<std::vector<int64_t>>();
    traffic += part.traffic;
  }
  return merge(std::move(parts));
}

}  // namespace lockstep::suites
