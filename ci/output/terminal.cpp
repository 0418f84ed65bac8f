// SPDX-License-Identifier: Apache-2.0
// The summary for a terminal.
#include <algorithm>

#include "ci/output/output.h"
#include "ci/output/text.h"

namespace lockstep::output {
namespace {

constexpr size_t kMostShown = 20, kMostLine = 400;

std::string safe(const Row& row, const char* column, size_t most = kMostLine) {
  return one_line(cut(utf8(row.text(column)), most));
}

// The first rows, a line or two each.
template <class Line>
std::string listed(const char* title, const Table& table, Line&& line) {
  std::string out = table.empty() ? "" : title;
  for (size_t i = 0; i < std::min(table.size(), kMostShown); ++i) out += "  " + line(table[i]) + "\n";
  if (table.size() > kMostShown) out += "  … and " + std::to_string(table.size() - kMostShown) + " more\n";
  return out;
}

}  // namespace

std::string render_text(const ReportModel& p) {
  const Headline whole = headline(p);
  std::string out = (whole.red ? "RED: " : "green: ") + whole.text + "\n", codes;
  for (const int code : exit_codes(p))
    codes += (codes.empty() ? "exit codes: " : ", ") + std::to_string(code);
  if (!codes.empty()) out += codes + "\n";
  for (const auto& [key, n] : p.counts) {
    const std::string name = one_line(cut(utf8(key), kMostLine));
    out += "  " + name + std::string(name.size() < 28 ? 28 - name.size() : 1, ' ') + std::to_string(n) + "\n";
  }
  out += listed("failing buckets:\n", p.failures, [](const Row& f) {
    return safe(f, "state") + ", " + plural(f.integer("cases"), "case", "cases") + ": " + safe(f, "bucket") +
           "\n    " + safe(f, "replay", 4'000);
  });
  return out + listed("findings of the gate:\n", p.findings, [](const Row& f) {
           return safe(f, "effect") + " " + safe(f, "rule") + ": " + safe(f, "subject") + ": " +
                  safe(f, "detail");
         });
}

}  // namespace lockstep::output
