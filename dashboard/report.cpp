// SPDX-License-Identifier: Apache-2.0
#include "dashboard/report.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include "dashboard/assets.h"
#include "dashboard/output_file.h"
#include "dashboard/panels.h"

namespace lockstep::dashboard {

namespace {

// The runs that the page speaks about: those of the build that ran last.
constexpr const char* kShown = R"(DROP TABLE IF EXISTS temp.shown;
  CREATE TEMP TABLE shown AS SELECT id FROM run WHERE build_hash =
    (SELECT build_hash FROM run ORDER BY started_ms DESC, name DESC, key DESC LIMIT 1))";

// Views that read every case, asked by several panels: a temporary table of the same name comes before the
// view, so that each is computed once. They are gone when the page is done, and with them what they would
// hide.
struct Remembered {
  static constexpr const char* kViews[] = {"v_summary", "v_verdicts", "v_plan", "v_nondeterminism"};
  SQLite::Database& db;
  explicit Remembered(SQLite::Database& database) : db(database) {
    for (const std::string view : kViews)
      db.exec("CREATE TEMP TABLE " + view + " AS SELECT * FROM main." + view);
  }
  ~Remembered() {
    for (const std::string view : kViews) db.tryExec("DROP TABLE IF EXISTS temp." + view);
  }
};

// Nothing may be loaded from anywhere, whatever the values on the page try.
constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<title>Lockstep report</title>
<style>)";

constexpr std::string_view kLogo =
    R"(<svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
<rect x="3" y="8" width="26" height="5" rx="2.5"/>
<rect x="3" y="19" width="26" height="5" rx="2.5"/><circle cx="11" cy="10.5" r="5"/>
<circle cx="11" cy="21.5" r="5"/></svg>)";

// JSON inside a script element: "<" must not end it.
std::string script_json(const nlohmann::json& value) {
  std::string out;
  for (char c : value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)) {
    c == '<' ? out += "\\u003c" : out += c;
  }
  return out;
}

std::string navigation() {
  std::string html = "<nav aria-label=\"Panels\">";
  for (const Panel& p : panels()) html += std::string("<a href=\"#") + p.id + "\">" + p.short_title + "</a>";
  return html + "</nav>";
}

std::string render(const Source& source) {
  std::string html(kHead);
  html += kPageCss;
  html +=
      "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header "
      "class=\"bar\"><a "
      "class=\"brand\" href=\"#top\">";
  html += kLogo;
  html +=
      "Lockstep</a>" + navigation() +
      "<button type=\"button\" id=\"theme\" aria-label=\"Switch between light and dark\"></button></header>\n"
      "<main id=\"main\">\n" +
      render_hero(source);
  nlohmann::json charts = nlohmann::json::object();
  for (const Panel& p : panels()) {
    html += std::string("<section class=\"panel\" id=\"") + p.id + "\" aria-labelledby=\"" + p.id +
            "-title\"><h2 id=\"" + p.id + "-title\">" + p.title + "</h2>\n" + p.render(source, charts) +
            "</section>\n";
  }
  html +=
      "</main>\n<footer>Made by Lockstep. Charts by Chart.js (MIT), inlined: this page asks the network for "
      "nothing.</footer>\n<script type=\"application/json\" id=\"data\">" +
      script_json(charts) + "</script>\n<script>";
  html += kChartJs;
  html += "</script>\n<script>";
  html += kPageJs;
  html += "</script>\n</body>\n</html>\n";
  return html;
}

}  // namespace

std::string render_report(const Store& store) {
  try {
    store.database().exec(kShown);
    const Remembered remembered(store.database());
    return render(Source(store.database()));
  } catch (const SQLite::Exception&) {
    rethrow_as_store_error(store.path());
  }
}

void write_report(const Store& store, const std::string& path) {
  write_whole(path, render_report(store));
}

}  // namespace lockstep::dashboard
