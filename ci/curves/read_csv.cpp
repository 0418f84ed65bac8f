// SPDX-License-Identifier: Apache-2.0
// CSV with a header, quoted as RFC 4180 says; the separator is a comma, or what the header has instead.
#include <algorithm>

#include "ci/curves/lines.h"
#include "ci/curves/read.h"
#include "engine/values/error.h"

namespace lockstep::curves {
namespace {

using Cells = std::vector<std::string>;

// Records of a file. A quoted cell may hold separators, doubled quotes and line ends.
class Records {
 public:
  explicit Records(const std::string& path) : lines_(path) {}

  // False at the end. Throws Error for a quote that is never closed, or text beside one.
  bool next(Cells& cells) {
    cells.clear();
    do {
      if (!lines_.next(line_)) return false;
    } while (line_.text.find_first_not_of(" \t") == std::string::npos);
    check_length();
    if (separator_ == 0) {
      const auto has = [&](char c) { return line_.text.find(c) != std::string::npos; };
      separator_ = has(',') || !(has('\t') || has(';')) ? ',' : has('\t') ? '\t' : ';';
    }
    begun_ = line_;
    size_t at = 0;
    while (cell(cells.emplace_back(), at)) ++at;
    return true;
  }
  const Line& begun() const { return begun_; }
  const Line& line() const { return line_; }
  const std::string& path() const { return lines_.path(); }

 private:
  void check_length() const {
    LOCKSTEP_CHECK(!line_.too_long, place(path(), line_), " is longer than 16 MiB; CSV has one step a line");
  }
  // Reads one cell from `at`; true if a separator follows, at which `at` then stands.
  bool cell(std::string& out, size_t& at) {
    auto& text = begun_.text;
    if (at >= text.size() || text[at] != '"') {
      const auto end = std::min(text.find(separator_, at), text.size());
      out = text.substr(std::min(at, end), end - std::min(at, end));
      at = end;
      return at < text.size();
    }
    for (++at;; ++at) {
      while (at == text.size()) {
        LOCKSTEP_CHECK(lines_.next(line_), place(path(), begun_),
                       ": a quote is not closed before the file ends");
        check_length();
        LOCKSTEP_CHECK(out.size() < kLongestLine, place(path(), begun_),
                       ": a quoted cell is longer than 16 MiB");
        text += "\n" + line_.text;
      }
      if (text[at] == '"' && text.substr(at + 1, 1) != "\"") break;
      if (text[at] == '"') ++at;
      out.push_back(text[at]);
    }
    ++at;
    LOCKSTEP_CHECK(at == text.size() || text[at] == separator_, place(path(), line_),
                   ": text follows a closing quote; double quotes within a cell");
    return at < text.size();
  }
  Lines lines_;
  Line line_{}, begun_{};  // where the record ends; where it begins, with all its text
  char separator_ = 0;
};

std::string trimmed(const std::string& text) {
  const auto from = text.find_first_not_of(" \t");
  return from == std::string::npos ? "" : text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

std::string joined(const Cells& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + in_quotes(name);
  return text;
}

// The column of that name, else of the first usual one; -1: none. Throws Error if a name that was asked for
// is not there, or stands there twice.
int64_t column_of(const Records& records, const Cells& header, const std::string& asked, const char* what,
                  std::span<const char* const> usual) {
  const auto find = [&](const std::string& name) {
    const auto it = std::find(header.begin(), header.end(), name);
    LOCKSTEP_CHECK(it == header.end() || std::find(it + 1, header.end(), name) == header.end(), "[curves] ",
                   records.path(), " has two columns ", in_quotes(name), "; rename one");
    return it == header.end() ? int64_t{-1} : it - header.begin();
  };
  if (!asked.empty()) {
    const auto at = find(asked);
    LOCKSTEP_CHECK(at >= 0, "[curves] ", records.path(), " has no column ", in_quotes(asked), " for the ",
                   what, "; it has ", joined(header));
    return at;
  }
  for (const char* name : usual)
    if (const auto at = find(name); at >= 0) return at;
  return -1;
}

struct Columns {
  int64_t step = -1, number[2] = {-1, -1};
};

Columns columns_of(const Records& records, const Cells& header, const ReadOptions& options) {
  Columns c;
  c.step = column_of(records, header, options.step, "step", usual_steps());
  for (const auto field : kFields)
    c.number[field] = column_of(records, header, asked(options, field), kFieldNames[field], usual(field));
  LOCKSTEP_CHECK(c.step >= 0 && (c.number[0] >= 0 || c.number[1] >= 0), "[curves] ", records.path(),
                 " has no column for the ", c.step < 0 ? "step" : "loss or the gradient norm", "; it has ",
                 joined(header), "; name them: --column step=NAME --column loss=NAME");
  return c;
}

// True if the record has a number.
bool take(const Records& records, const Cells& cells, const Columns& columns, const ReadOptions& options,
          Collector& collector) {
  const auto at = [&](int64_t column) { return trimmed(cells[static_cast<size_t>(column)]); };
  const auto where = place(records.path(), records.begun());
  const auto step = parse_step(at(columns.step));
  LOCKSTEP_CHECK(step, where, ": the step is ", in_quotes(at(columns.step)), "; a step is a whole number");
  bool any = false;
  for (const auto field : kFields) {
    const auto text = columns.number[field] < 0 ? "" : at(columns.number[field]);
    if (text.empty()) continue;
    const auto n = parse_decimal(text, options.round_trip);
    LOCKSTEP_CHECK(n, where, ": the ", kFieldNames[field], " is ", in_quotes(text), ", which is no number");
    collector.add(*step, field, *n);
    any = true;
  }
  return any;
}

}  // namespace

Log read_csv(const std::string& path, const ReadOptions& options) {
  Records records(path);
  Log log;
  Collector collector;
  Cells header, cells;
  if (!records.next(header)) return log;
  for (auto& name : header) name = trimmed(name);
  const auto columns = columns_of(records, header, options);
  int64_t without = 0;
  while (records.next(cells)) {
    if (cells.size() != header.size()) {
      LOCKSTEP_CHECK(!records.line().whole && cells.size() < header.size(), place(path, records.begun()),
                     " has ", cells.size(), " cells, the header has ", header.size(),
                     "; quote cells that hold a separator");
      log.note("the file ends within line ", records.line().number, ": that line is left out");
      break;
    }
    without += take(records, cells, columns, options, collector) ? 0 : 1;
    if (!records.line().whole)
      log.note("the last line has no line end: its last number may have been cut short");
  }
  log.note_if(without, " lines have neither loss nor gradient norm: left out");
  for (const auto field : kFields)
    if (const auto column = columns.number[field]; column >= 0)
      log.note_other_name(field, "column", header[static_cast<size_t>(column)]);
  std::move(collector).finish(log);
  return log;
}

}  // namespace lockstep::curves
