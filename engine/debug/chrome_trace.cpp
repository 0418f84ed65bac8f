// SPDX-License-Identifier: Apache-2.0
#include "engine/debug/chrome_trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/debug/activity_text.h"
#include "engine/debug/report_file.h"
#include "engine/debug/words.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// The events of one log.
class Events {
 public:
  // @param ahead nanoseconds that its log was made after the one whose times are told
  Events(const ActivityLog& log, int64_t pid, std::string process, int64_t ahead)
      : all_(log.all()), pid_(pid), ahead_(ahead) {
    name_of("process_name", 0, std::move(process));
    name_of("thread_name", 0, "modules and ops");
    for (const auto& a : all_) last_ = std::max({last_, a.begin, a.end});
  }

  Json made() && {
    for (size_t i = 0; i < all_.size(); ++i) add(i);
    add_backward_modules();
    return std::move(events_);
  }

 private:
  void name_of(const char* what, int64_t tid, std::string name) {
    events_.push_back(
        {{"ph", "M"}, {"name", what}, {"pid", pid_}, {"tid", tid}, {"args", {{"name", std::move(name)}}}});
  }
  int64_t end(const Activity& a) const { return a.end < 0 ? last_ : a.end; }

  void complete(std::string name, const char* category, int64_t begin, int64_t end, int64_t tid, Json args) {
    events_.push_back({{"ph", "X"},
                       {"name", std::move(name)},
                       {"cat", category},
                       {"ts", static_cast<double>(begin + ahead_) / 1000},
                       {"dur", static_cast<double>(end - begin) / 1000},
                       {"pid", pid_},
                       {"tid", tid},
                       {"args", std::move(args)}});
  }

  void add(size_t i) {
    const auto& a = all_[i];
    auto args = debug::to_json(a);
    args.erase("kind");
    args.erase("name");
    if (a.kind == ActivityKind::kOp) args["bytes_moved"] = bytes_moved(i);
    complete(a.name, name(a.kind), a.begin, end(a), a.overlaps ? lane(a) : 0, std::move(args));
  }

  // By what is right within it, which follows it.
  int64_t bytes_moved(size_t op) const {
    int64_t bytes = 0;
    for (size_t i = op + 1; i < all_.size() && all_[i].within >= static_cast<int64_t>(op); ++i)
      if (all_[i].within == static_cast<int64_t>(op))
        for (const auto& step : all_[i].moved) bytes += step.bytes;
    return bytes;
  }

  // The first track in which nothing overlaps it. @pre asked in the order in which they began
  int64_t lane(const Activity& a) {
    auto free = std::find_if(lanes_.begin(), lanes_.end(), [&](int64_t ended) { return ended <= a.begin; });
    if (free == lanes_.end()) {
      free = lanes_.insert(free, 0);
      name_of("thread_name", std::ssize(lanes_), concat("overlapping collectives ", lanes_.size()));
    }
    *free = end(a);
    return free - lanes_.begin() + 1;
  }

  // Nothing calls a module backward: what is done for one without a break stands for it.
  void add_backward_modules() {
    const Activity* first = nullptr;
    const Activity* last = nullptr;
    const auto close = [&] {
      if (first != nullptr && !first->module.empty())
        complete(first->module, "module", first->begin, end(*last), 0, Json::object({{"phase", "backward"}}));
      first = nullptr;
    };
    for (const auto& a : all_) {
      if (a.within >= 0 || a.overlaps) continue;
      const bool goes_on = a.backward && a.kind != ActivityKind::kModule;
      if (first != nullptr && (!goes_on || a.module != first->module)) close();
      if (!goes_on) continue;
      if (first == nullptr) first = &a;
      last = &a;
    }
    close();
  }

  const std::vector<Activity>& all_;
  const int64_t pid_, ahead_;
  int64_t last_ = 0;
  std::vector<int64_t> lanes_;  // when what is in each ends
  Json events_ = Json::array();
};

std::string process_name(const WorldPtr& world) {
  return world == nullptr ? "all ranks"
                          : concat("ranks ", join(world->hosted(), ','), " (", world->name(), ")");
}

}  // namespace

void export_chrome_trace(const std::string& file, const ActivityLog& log, const WorldPtr& world) {
  const auto origin = parse_integer(debug::told(world, concat(log.made()))).value();
  const int64_t pid = world == nullptr ? 0 : world->hosted().at(0);
  const auto mine = Events(log, pid, process_name(world), log.made() - origin).made();
  auto all = Json::array();
  for (const auto& text : debug::collected(world, mine.dump()))
    for (auto& event : Json::parse(text)) all.push_back(std::move(event));
  if (!debug::leads(world)) return;
  debug::write_text("chrome_trace", file,
                    Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(all)}}.dump() + "\n");
}

}  // namespace lockstep
