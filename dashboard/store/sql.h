// SPDX-License-Identifier: Apache-2.0
// Binding of our value types to SQLite statements. Private to dashboard/.
#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "dashboard/store/rows.h"

namespace lockstep::dashboard::sql {

template <class T>
void put(SQLite::Statement& s, int i, const T& v) {
  s.bind(i, v);
}
inline void put(SQLite::Statement& s, int i, Verdict v) {
  s.bind(i, name(v));
}
inline void put(SQLite::Statement& s, int i, const Key& v) {
  s.bind(i, v.data(), static_cast<int>(v.size()));
}
// NaN has no REAL; it becomes NULL.
inline void put(SQLite::Statement& s, int i, double v) {
  std::isnan(v) ? s.bind(i) : s.bind(i, v);
}
template <class T>
void put(SQLite::Statement& s, int i, const std::optional<T>& v) {
  v ? put(s, i, *v) : s.bind(i);
}

// Readies the statement with these parameters, in order.
template <class... Values>
SQLite::Statement& bind(SQLite::Statement& s, const Values&... values) {
  s.tryReset();  // reports the error of the run before once more, so its answer says nothing new
  int i = 0;
  (put(s, ++i, values), ...);
  return s;
}

// Runs a statement that returns no row; the count of rows it changed.
template <class... Values>
int run(SQLite::Statement& s, const Values&... values) {
  bind(s, values...);
  const int changed = s.exec();
  s.reset();
  return changed;
}

// The first column of the first row, if there is a row.
template <class... Values>
std::optional<int64_t> find(SQLite::Statement& s, const Values&... values) {
  bind(s, values...);
  std::optional<int64_t> result;
  if (s.executeStep()) result = s.getColumn(0).getInt64();
  s.reset();
  return result;
}

}  // namespace lockstep::dashboard::sql
