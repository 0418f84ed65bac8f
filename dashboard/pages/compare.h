// SPDX-License-Identifier: Apache-2.0
// Two runs side by side: what each found, and in what they differ. The runs may lie in different databases.
#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <string>

#include "dashboard/report/source.h"

namespace lockstep::dashboard {

class Comparison {
 public:
  Comparison();
  // Of two runs the next one: the one that is shown.
  void add(const Source& source);
  // Law: a row for each thing in which the two differ, and of verdicts, summary and rates one for each.
  std::string html();

 private:
  SQLite::Database db_;  // in memory: facts of both
  std::string names_[2], links_[2];
  int count_ = 0;
};

}  // namespace lockstep::dashboard
