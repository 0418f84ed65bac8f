// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/rules/table.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "engine/ops/rules/families.h"

namespace lockstep {
namespace {

constexpr rules::Records (*kFamilies[])() = {rules::pointwise_ops, rules::matmul_ops, rules::reduction_ops,
                                             rules::view_ops,      rules::index_ops,  rules::norm_ops,
                                             rules::factory_ops,   rules::random_ops};

std::vector<OpEntry> build() {
  std::vector<OpEntry> table;
  for (const auto family : kFamilies)
    for (auto& entry : family()) {
      entry.name.insert(0, "aten::");
      table.push_back(std::move(entry));
    }
  std::sort(table.begin(), table.end(), [](auto& a, auto& b) { return a.name < b.name; });
  return table;
}

std::atomic<uint64_t> g_version = 0;  // of the user table

std::map<std::string, OpEntry, std::less<>>& user_table() {
  static std::map<std::string, OpEntry, std::less<>> table;
  return table;
}

}  // namespace

const std::vector<OpEntry>& op_table() {
  static const auto table = build();
  return table;
}

const OpEntry* find_op(std::string_view name) {
  const auto& user = user_table();
  if (const auto it = user.find(name); it != user.end()) return &it->second;
  const auto& table = op_table();
  const auto it = std::lower_bound(table.begin(), table.end(), name,
                                   [](const OpEntry& entry, std::string_view n) { return entry.name < n; });
  return it != table.end() && it->name == name ? &*it : nullptr;
}

void register_sharding(std::string name, RowsOf rows) {
  const auto* stock = find_op(name);
  auto entry = stock != nullptr ? *stock : OpEntry{};
  entry.name = name;
  entry.rows = std::move(rows);
  user_table()[std::move(name)] = std::move(entry);
  ++g_version;
}

void unregister_sharding(std::string_view name) {
  auto& table = user_table();
  if (const auto it = table.find(name); it != table.end()) table.erase(it);
  ++g_version;
}

bool rules_changed(uint64_t& seen) {
  const uint64_t now = g_version;
  return std::exchange(seen, now) != now;
}

}  // namespace lockstep
