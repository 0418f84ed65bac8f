// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/rules/table.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "engine/ops/rules/families.h"
#include "engine/values/error.h"

namespace lockstep {

struct RuleOverrides {
  std::map<std::string, OpEntry, std::less<>> entries;
  std::optional<std::vector<Bypass>> bypasses = {};
};

namespace {

constexpr rules::Records (*kFamilies[])() = {
    rules::pointwise_ops, rules::matmul_ops,  rules::reduction_ops, rules::view_ops,  rules::index_ops,
    rules::norm_ops,      rules::factory_ops, rules::random_ops,    rules::optim_ops, rules::expert_ops};

std::vector<OpEntry> build() {
  std::vector<OpEntry> table;
  for (const auto family : kFamilies)
    for (auto& entry : family()) {
      if (entry.name.find("::") == std::string::npos) entry.name.insert(0, "aten::");
      table.push_back(std::move(entry));
    }
  std::sort(table.begin(), table.end(), [](auto& a, auto& b) { return a.name < b.name; });
  return table;
}

// Whoever holds the mutex may look at the entries; the version is read on every call, without it.
struct UserTable {
  std::mutex mutex;
  std::map<std::string, OpEntry, std::less<>> entries;
  std::vector<Bypass> bypasses;
  std::atomic<uint64_t> version = 0;
};
UserTable& user_table() {
  static UserTable table;
  return table;
}

const OpEntry* find_stock(std::string_view name) {
  const auto& table = op_table();
  const auto it = std::lower_bound(table.begin(), table.end(), name,
                                   [](const OpEntry& entry, std::string_view n) { return entry.name < n; });
  return it != table.end() && it->name == name ? &*it : nullptr;
}

// Views alias what they are given, and random ops draw in places of their own.
bool may_be_bypassed(const OpEntry& entry) {
  return (entry.kind == OpKind::kValue || entry.kind == OpKind::kScalar) && !entry.returns_input &&
         entry.memory_of_out == OutMemory::kAny;
}

}  // namespace

const std::vector<OpEntry>& op_table() {
  static const auto table = build();
  return table;
}

const OpEntry* find_op(std::string_view name) {
  if (const auto& rules = current_context()->rules; rules != nullptr)
    if (const auto it = rules->entries.find(name); it != rules->entries.end()) return &it->second;
  auto& user = user_table();
  const std::lock_guard lock(user.mutex);
  const auto it = user.entries.find(name);
  return it != user.entries.end() ? &it->second : find_stock(name);
}

static OpEntry with_rows(const std::string& name, RowsOf rows) {
  const auto* stock = find_op(name);
  auto entry = stock != nullptr ? *stock : OpEntry{};
  entry.name = name;
  entry.rows = std::move(rows);
  entry.of_shared = OfShared::kRows;  // these may leave it pending
  return entry;
}

static std::shared_ptr<RuleOverrides> overrides_now() {
  const auto& outer = current_context()->rules;
  return std::make_shared<RuleOverrides>(outer != nullptr ? *outer : RuleOverrides{});
}

static std::shared_ptr<const RuleOverrides> and_override(std::string name, RowsOf rows) {
  auto all = overrides_now();
  auto entry = with_rows(name, std::move(rows));
  all->entries.insert_or_assign(std::move(name), std::move(entry));
  return all;
}

void register_sharding(std::string name, RowsOf rows) {
  auto entry = with_rows(name, std::move(rows));
  auto& user = user_table();
  const std::lock_guard lock(user.mutex);
  user.entries[std::move(name)] = std::move(entry);
  ++user.version;
}

void unregister_sharding(std::string_view name) {
  auto& user = user_table();
  const std::lock_guard lock(user.mutex);
  user.entries.erase(std::string(name));
  ++user.version;
}

RuleScope::RuleScope(std::string name, RowsOf rows)
    : rules_(&Context::rules, and_override(std::move(name), std::move(rows))),
      resolutions_(&Context::resolutions, nullptr),
      decisions_(&Context::decisions, nullptr) {}

std::vector<Bypass> bypasses_beside(const OpEntry& entry) {
  if (!may_be_bypassed(entry)) return {};
  if (const auto& rules = current_context()->rules; rules != nullptr && rules->bypasses.has_value())
    return *rules->bypasses;
  auto& user = user_table();
  const std::lock_guard lock(user.mutex);
  auto all = user.bypasses;
  const auto& own = own_bypasses();
  if (&entry == find_stock(entry.name)) all.insert(all.end(), own.begin(), own.end());
  return all;
}

void register_bypass(Bypass bypass) {
  if (const auto* name = std::get_if<std::string>(&bypass.op)) {
    const auto* entry = find_op(*name);
    if (entry == nullptr) entry = find_op(std::string_view(*name).substr(0, name->rfind('.')));
    LOCKSTEP_CHECK(entry != nullptr && may_be_bypassed(*entry), "[register_bypass] ", *name,
                   " has no rule that gives a new tensor or reads a truth; register_sharding one first, and "
                   "bypass no view, random op or op that looks at how its out lies");
  }
  LOCKSTEP_CHECK(bypass.kind != Variant::kList && bypass.inputs && bypass.meta,
                 "[register_bypass] a bypass is for single tensors, and says for which placements, and what "
                 "comes out; give it inputs and meta, and a kind other than kList");
  auto& user = user_table();
  const std::lock_guard lock(user.mutex);
  user.bypasses.push_back(std::move(bypass));
  ++user.version;
}

void unregister_bypasses(const Bypass::Ops& op) {
  auto& user = user_table();
  const std::lock_guard lock(user.mutex);
  std::erase_if(user.bypasses, [&](const Bypass& b) { return b.op == op; });
  ++user.version;
}

static std::shared_ptr<const RuleOverrides> with_bypasses(std::vector<Bypass> bypasses) {
  auto all = overrides_now();
  all->bypasses = std::move(bypasses);
  return all;
}

BypassScope::BypassScope(std::vector<Bypass> bypasses)
    : rules_(&Context::rules, with_bypasses(std::move(bypasses))),
      resolutions_(&Context::resolutions, nullptr) {}

bool runs_stock(const OpEntry& entry) {
  const auto run = entry.run[entered_lane()];
  return run == local::stock || run == local::as_one_of_many;
}

bool rules_changed(uint64_t& seen) {
  const uint64_t now = user_table().version;
  return std::exchange(seen, now) != now;
}

}  // namespace lockstep
