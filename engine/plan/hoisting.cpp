// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/hoisting.h"

#include <algorithm>
#include <regex>
#include <set>

#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using RowSet = std::set<size_t>;

struct User {
  size_t row;
  const TracedMove* move;
};

// One call in which several rows move one of its inputs, and nothing else reads that.
struct Hoistable {
  const ModuleCall* call;
  int64_t index;  // of the input
  std::vector<User> users;
};

// Calls whose inputs the same rows move.
struct Group {
  RowSet rows;
  int64_t index;
  std::vector<const Hoistable*> calls;
};

bool moves_alike(const PlanRow& a, const PlanRow& b) {
  return a.to == b.to && a.mesh_dims == b.mesh_dims && a.from == b.from;
}

// Within the call, of this tensor.
std::vector<User> users_of(const TracedRows& traced, const ModuleCall& call, const at::Tensor& tensor) {
  std::vector<User> users;
  for (size_t r = 0; r < traced.rows.size(); ++r)
    for (const auto& move : traced.rows[r].moves)
      if (!traced.rows[r].gone && call.moves.holds(move.order) && move.came.is_same(tensor))
        users.push_back({r, &move});
  return users;
}

bool is_hoistable(const TracedRows& traced, const Hoistable& h) {
  if (h.users.size() < 2) return false;
  const auto& first = traced.rows[h.users[0].row].row;
  const bool are_alike = std::all_of(h.users.begin(), h.users.end(), [&](const User& user) {
    const auto& row = traced.rows[user.row].row;
    return user.move->moved() && row.phase == PlanPhase::kForwardPre && moves_alike(row, first) &&
           !traced.reads.is_written(user.move->left);  // each of them has its own
  });
  const auto& tensor = h.call->inputs[as_size(h.index)];
  const auto is_it = [&](const at::Tensor& other) { return other.defined() && other.is_same(tensor); };
  return are_alike && std::count_if(h.call->inputs.begin(), h.call->inputs.end(), is_it) == 1 &&
         !traced.reads.any(tensor, h.call->given);
}

std::vector<Hoistable> hoistable_of(const TracedRows& traced, const ModuleCall& call) {
  std::vector<Hoistable> all;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].defined()) continue;
    Hoistable h{&call, static_cast<int64_t>(i), users_of(traced, call, call.inputs[i])};
    if (is_hoistable(traced, h)) all.push_back(std::move(h));
  }
  return all;
}

// Where one call passes its input on to another, which has all that use it, that one is meant.
bool is_within(const Hoistable& outer, const Hoistable& inner) {
  return outer.users.size() == inner.users.size() && outer.users[0].move == inner.users[0].move;
}

// The outermost calls first: what one of them takes none within it can.
std::vector<Hoistable> find_hoistable(const TracedRows& traced) {
  std::vector<Hoistable> all;
  std::set<const TracedMove*> taken;
  for (const auto& call : traced.trace.calls)
    for (auto& h : hoistable_of(traced, call)) {
      if (const auto same = std::find_if(all.begin(), all.end(), [&](auto& o) { return is_within(o, h); });
          same != all.end()) {
        *same = std::move(h);
        continue;
      }
      const bool is_free = std::none_of(h.users.begin(), h.users.end(),
                                        [&](const User& user) { return taken.count(user.move) > 0; });
      if (!is_free) continue;
      for (const auto& user : h.users) taken.insert(user.move);
      all.push_back(std::move(h));
    }
  return all;
}

std::vector<Group> grouped(const std::vector<Hoistable>& all) {
  std::vector<Group> groups;
  for (const auto& h : all) {
    RowSet rows;
    for (const auto& user : h.users) rows.insert(user.row);
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& g) { return g.rows == rows && g.index == h.index; });
    if (found == groups.end()) found = groups.insert(found, {std::move(rows), h.index, {}});
    found->calls.push_back(&h);
  }
  return groups;
}

std::vector<std::string> modules_of(const Group& group) {
  std::set<std::string> modules;
  for (const auto* h : group.calls) modules.insert(h->call->module);
  return {modules.begin(), modules.end()};
}

// All that the rows move, and all calls of these modules.
bool is_complete(const TracedRows& traced, const Group& group) {
  size_t users = 0, moves = 0;
  for (const auto* h : group.calls) users += h->users.size();
  for (const auto r : group.rows) moves += traced.rows[r].moves.size();
  const auto modules = modules_of(group);
  const auto calls = std::count_if(
      traced.trace.calls.begin(), traced.trace.calls.end(),
      [&](const auto& call) { return std::binary_search(modules.begin(), modules.end(), call.module); });
  return users == moves && as_size(calls) == group.calls.size();
}

std::string escaped(const std::string& path) {
  std::string text;
  for (const char c : path) {
    if (std::string_view("\\^$.*+?()[]{}|").find(c) != std::string_view::npos) text += '\\';
    text += c;
  }
  return text;
}

// One that a reader would have written: what the rows say, but for its last part; else the paths.
std::string pattern_of(const TracedRows& traced, const Group& group) {
  const auto modules = modules_of(group);
  std::set<std::string> shorter;
  for (const auto r : group.rows) {
    const auto& path = traced.rows[r].row.module;
    const auto dot = path.rfind("\\.");
    shorter.insert(dot == std::string::npos ? "" : path.substr(0, dot));
  }
  if (shorter.size() == 1) {
    try {
      if (traced.matched(*shorter.begin()) == modules) return *shorter.begin();
    } catch (const std::regex_error&) {  // it was cut within brackets
    }
  }
  std::string paths = escaped(modules[0]);
  for (size_t i = 1; i < modules.size(); ++i) paths += "|" + escaped(modules[i]);
  return modules.size() == 1 ? paths : "(" + paths + ")";
}

template <class T>
bool have_common(const std::vector<T>& a, const std::vector<T>& b) {
  return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
}

// Whether a row says where this input of these modules is to be, along one of the mesh dimensions, already.
bool is_said(const TracedRows& traced, const Group& group, const std::string& pattern) {
  const auto modules = traced.matched(pattern);
  const auto& dims = traced.rows[*group.rows.begin()].row.mesh_dims;
  return std::any_of(traced.rows.begin(), traced.rows.end(), [&](const TracedRow& its) {
    return !its.gone && its.row.phase == PlanPhase::kForwardPre && its.row.op.empty() &&
           its.row.index == group.index && have_common(its.row.mesh_dims, dims) &&
           have_common(traced.matched(its.row.module), modules);
  });
}

// Adds it to those that are made.
void hoist(TracedRows& traced, const Group& group, std::vector<TracedRow>& all) {
  if (!is_complete(traced, group)) return;
  const auto pattern = pattern_of(traced, group);
  if (is_said(traced, group, pattern)) return;
  TracedRow made{traced.rows[*group.rows.begin()].row, {}};
  made.row.module = pattern;
  made.row.index = group.index;
  for (const auto* h : group.calls) {
    made.moves.push_back(*h->users[0].move);
    made.moves.back().module = h->call->module;
  }
  std::string before;
  for (const auto r : group.rows) {
    before += concat(before.empty() ? "" : ", ", traced.rows[r].row);
    traced.rows[r].gone = true;
  }
  traced.changes.push_back(concat("once, and not by each module within: ", before, ": ", made.row));
  all.push_back(std::move(made));
}

}  // namespace

void hoist(TracedRows& traced) {
  const auto all = find_hoistable(traced);
  std::vector<TracedRow> made;
  for (const auto& group : grouped(all)) hoist(traced, group, made);
  // Behind the modules' own rows, after which they act.
  for (auto& row : made) traced.rows.push_back(std::move(row));
}

}  // namespace lockstep
