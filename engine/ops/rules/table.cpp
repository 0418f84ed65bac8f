// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/rules/table.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "engine/ops/rules/families.h"

namespace lockstep {

struct RuleOverrides {
  std::map<std::string, OpEntry, std::less<>> entries;
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

static std::shared_ptr<const RuleOverrides> and_override(std::string name, RowsOf rows) {
  const auto& outer = current_context()->rules;
  auto all = std::make_shared<RuleOverrides>(outer != nullptr ? *outer : RuleOverrides{});
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

bool rules_changed(uint64_t& seen) {
  const uint64_t now = user_table().version;
  return std::exchange(seen, now) != now;
}

}  // namespace lockstep
