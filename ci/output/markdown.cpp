// SPDX-License-Identifier: Apache-2.0
// The summary of a GitHub step. A table ends with a whole row, and says how many it leaves out.
#include <algorithm>
#include <functional>

#include "ci/output/counts.h"
#include "ci/output/output.h"
#include "ci/output/text.h"

namespace lockstep::output {
namespace {

constexpr size_t kMostCell = 300, kMostReplay = 2'000, kMostRows = 200, kMostTable = 180'000;

// Every ASCII character with a meaning in Markdown or HTML as a number, which has none: what was written is
// what is read, and nothing begins a tag, a link or a new cell.
std::string literal(const std::string& text, size_t most = kMostCell) {
  std::string out;
  for (const char c : one_line(cut(utf8(text), most))) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) == 0 && c != ' ' && c != '-' && c != '.' && c != ',')
      out += "&#" + std::to_string(byte) + ";";
    else
      out += c;
  }
  return out;
}

std::string code(const std::string& text, size_t most = kMostCell) {
  return text.empty() ? "" : "<code>" + literal(text, most) + "</code>";
}

using Cells = std::vector<std::string>;

std::string line_of(const Cells& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + cell + " |";
  return line + "\n";
}

// Law: at most kMostTable bytes and kMostRows rows, each whole; the line below says how many are not shown.
std::string table(const std::string& title, const Cells& head, size_t rows,
                  const std::function<Cells(size_t)>& row) {
  if (rows == 0) return "";
  std::string out = "\n### " + title + "\n\n" + line_of(head) + line_of(Cells(head.size(), "---"));
  size_t shown = 0;
  for (; shown < std::min(rows, kMostRows); ++shown) {
    const std::string line = line_of(row(shown));
    if (out.size() + line.size() > kMostTable) break;
    out += line;
  }
  if (shown < rows)
    out += "\n" + std::to_string(rows - shown) + " of " + std::to_string(rows) +
           " rows are not shown here; `lockstep export` and the report have all.\n";
  return out;
}

std::string buckets_table(const ReportModel& p) {
  const auto live = live_buckets(p);
  return table(
      "Failing buckets", {"bucket", "state", "suite", "verdict", "op", "placement", "cases", "replay"},
      live.size(), [&](size_t i) -> Cells {
        const size_t f = live[i].failure;
        return {code(p.failures.text(f, "bucket")),   literal(p.buckets.text(live[i].bucket, "state")),
                literal(p.failures.text(f, "suite")), literal(p.failures.text(f, "verdict")),
                code(p.failures.text(f, "op")),       code(p.failures.text(f, "placement")),
                p.failures.text(f, "cases"),          code(p.failures.text(f, "replay"), kMostReplay)};
      });
}

std::string findings_table(const ReportModel& p) {
  const Table& f = p.findings;
  return table("What the gate found", {"effect", "rule", "subject", "expected", "got", "detail", "code"},
               f.rows.size(), [&](size_t i) -> Cells {
                 return {literal(f.text(i, "effect")),
                         literal(f.text(i, "rule")),
                         code(f.text(i, "subject")),
                         literal(f.text(i, "expected")),
                         literal(f.text(i, "got")),
                         literal(f.text(i, "detail")),
                         f.text(i, "code")};
               });
}

// The rows of a table that this keeps.
std::vector<size_t> rows_where(const Table& table, const std::function<bool(size_t)>& keep) {
  std::vector<size_t> rows;
  for (size_t i = 0; i < table.rows.size(); ++i)
    if (keep(i)) rows.push_back(i);
  return rows;
}

std::string red_tables(const ReportModel& p) {
  const auto unmet = rows_where(p.plan, [&](size_t i) { return p.plan.integer(i, "met") == 0; });
  const auto red = rows_where(p.gates, [&](size_t i) { return p.gates.integer(i, "passed") == 0; });
  const auto survived = rows_where(p.faults, [&](size_t i) { return p.faults.integer(i, "found") == 0; });
  const auto moved = rows_where(p.series, [&](size_t i) { return p.series.text(i, "verdict") != "same"; });
  std::string out;
  out += table("Planned, not measured", {"kind", "name", "at least", "got"}, unmet.size(),
               [&](size_t i) -> Cells {
                 return {p.plan.text(unmet[i], "kind"), code(p.plan.text(unmet[i], "name")),
                         p.plan.text(unmet[i], "least"), p.plan.text(unmet[i], "got")};
               });
  out += table("Red rules", {"rule", "required", "got"}, red.size(), [&](size_t i) -> Cells {
    return {literal(p.gates.text(red[i], "rule")), literal(p.gates.text(red[i], "required")),
            literal(p.gates.text(red[i], "got"))};
  });
  out += table("Planted faults that survived", {"fault", "class", "cases"}, survived.size(),
               [&](size_t i) -> Cells {
                 return {code(p.faults.text(survived[i], "fault")),
                         literal(p.faults.text(survived[i], "class")), p.faults.text(survived[i], "cases")};
               });
  out += table(
      "Series that moved", {"series", "verdict", "ratio", "from", "to", "detectable"}, moved.size(),
      [&](size_t i) -> Cells {
        Cells cells = {code(p.series.text(moved[i], "series")), literal(p.series.text(moved[i], "verdict"))};
        for (const char* column : {"ratio", "low", "high", "detectable"}) {
          char text[40] = "";
          if (!p.series.null(moved[i], column))
            std::snprintf(text, sizeof(text), "%.3g", p.series.number(moved[i], column));
          cells.emplace_back(text);
        }
        return cells;
      });
  return out;
}

}  // namespace

std::string render_summary(const ReportModel& p) {
  const Headline whole = headline(p);
  const auto codes = exit_codes(p);
  std::string out =
      std::string("## ") + (whole.red ? "❌" : "✅") + " Lockstep: " + literal(whole.text) + "\n\n";
  if (!codes.empty()) {
    out += "Exit code " + std::to_string(codes[0]);
    for (size_t i = 1; i < codes.size(); ++i) out += (i == 1 ? "; also " : ", ") + std::to_string(codes[i]);
    out += ".\n";
  }
  const auto counts = listed(p.counts);
  out += buckets_table(p) + findings_table(p) + red_tables(p);
  out += table("Counts", {"what", "count"}, counts.size(), [&](size_t i) -> Cells {
    return {literal(counts[i].first), std::to_string(counts[i].second)};
  });
  return out;
}

}  // namespace lockstep::output
