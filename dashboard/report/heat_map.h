// SPDX-License-Identifier: Apache-2.0
// A table of coloured squares: op by placement, or op by mesh, each with its worst verdict.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dashboard/report/html.h"

namespace lockstep::dashboard {

class HeatMap {
 public:
  // Call it for the verdicts of a cell in the order of severity.
  void add(const std::string& op, const std::string& column, const std::string& verdict, int64_t severity,
           int64_t hits);
  bool empty() const { return rows_.empty(); }
  // Law: the colour is the worst verdict, and a letter or sign says the same. Where there is a site, a cell
  // leads to the page `cases` with `op` and the column as `parameter`. `what` names a column.
  std::string html(const Source& source, const std::string& what, const std::string& parameter) const;

 private:
  struct Cell {
    std::string worst, counts;  // verdict; "12 equal, 3 explained"
    int64_t severity = -1;
  };
  std::vector<std::string> columns() const;
  std::string legend() const;

  std::map<std::string, std::map<std::string, Cell>> rows_;  // by op, by column
  std::map<std::string, int64_t> hits_;                      // by column
  std::map<int64_t, std::string> verdicts_;                  // by severity
};

}  // namespace lockstep::dashboard
