// SPDX-License-Identifier: Apache-2.0
// The summary of a GitHub step. A table ends with a whole row, and says how many it leaves out.
#include <algorithm>
#include <iterator>

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

struct Column {
  const char* name;
  const char* title = name;
};

std::string cell(const Row& row, std::string_view column) {
  static constexpr std::string_view kCode[] = {"bucket", "op",      "placement", "replay",
                                               "name",   "subject", "fault",     "series"};
  char number[40];
  if (const auto* real = std::get_if<double>(&row.at(column))) {
    std::snprintf(number, sizeof number, "%.3g", *real);
    return number;
  }
  const std::string text = literal(row.text(column), column == "replay" ? kMostReplay : kMostCell);
  const bool code = std::find(std::begin(kCode), std::end(kCode), column) != std::end(kCode);
  return code && !text.empty() ? "<code>" + text + "</code>" : text;
}

// Law: at most kMostTable bytes and kMostRows rows, each whole; the line below says how many are not shown.
std::string table(const std::string& title, const Table& rows, std::initializer_list<Column> columns) {
  if (rows.empty()) return "";
  const auto line_of = [&](const auto& cell_of) {
    std::string line = "|";
    for (const Column& column : columns) line += " " + std::string(cell_of(column)) + " |";
    return line + "\n";
  };
  std::string out = "\n### " + title + "\n\n" + line_of([](const Column& c) { return c.title; }) +
                    line_of([](const Column&) { return "---"; });
  size_t shown = 0;
  for (; shown < std::min(rows.size(), kMostRows); ++shown) {
    const std::string line = line_of([&](const Column& c) { return cell(rows[shown], c.name); });
    if (out.size() + line.size() > kMostTable) break;
    out += line;
  }
  if (shown < rows.size())
    out += "\n" + std::to_string(rows.size() - shown) + " of " + std::to_string(rows.size()) +
           " rows are not shown here; `lockstep export` and the report have all.\n";
  return out;
}

template <class Keep>
Table where(const Table& table, Keep&& keep) {
  Table kept;
  std::copy_if(table.begin(), table.end(), std::back_inserter(kept), keep);
  return kept;
}

// Of a table whose rows say in this column whether they are as they should be: those that are not.
Table red(const Table& table, const char* column) {
  return where(table, [&](const Row& row) { return row.integer(column) == 0; });
}

Table rows_of(const Counts& counts) {
  const auto columns = std::make_shared<const Columns>(Columns{"what", "count"});
  Table rows;
  for (const auto& [name, n] : counts) rows.push_back({columns, {name, n}});
  return rows;
}

}  // namespace

std::string render_summary(const ReportModel& p) {
  const Headline whole = headline(p);
  const auto codes = exit_codes(p);
  std::string out =
      std::string("## ") + (whole.red ? "❌" : "✅") + " Lockstep: " + literal(whole.text) + "\n\n";
  for (size_t i = 0; i < codes.size(); ++i)
    out += (i == 0 ? "Exit code " : i == 1 ? "; also " : ", ") + std::to_string(codes[i]);
  if (!codes.empty()) out += ".\n";
  out += table("Failing buckets", p.failures,
               {{"bucket"}, {"state"}, {"suite"}, {"verdict"}, {"op"}, {"placement"}, {"cases"}, {"replay"}});
  out += table("What the gate found", p.findings,
               {{"effect"}, {"rule"}, {"subject"}, {"expected"}, {"got"}, {"detail"}, {"code"}});
  out += table("Planned, not measured", red(p.plan, "met"),
               {{"kind"}, {"name"}, {"least", "at least"}, {"got"}});
  out += table("Red rules", red(p.gates, "passed"), {{"rule"}, {"required"}, {"got"}});
  out += table("Planted faults that survived", red(p.faults, "found"), {{"fault"}, {"class"}, {"cases"}});
  const auto moved = where(p.series, [](const Row& s) { return s.text("verdict") != "same"; });
  out += table("Series that moved", moved,
               {{"series"}, {"verdict"}, {"ratio"}, {"low", "from"}, {"high", "to"}, {"detectable"}});
  return out + table("Counts", rows_of(p.counts), {{"what"}, {"count"}});
}

}  // namespace lockstep::output
