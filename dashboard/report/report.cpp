// SPDX-License-Identifier: Apache-2.0
#include "dashboard/report/report.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include "dashboard/report/frame.h"
#include "dashboard/report/panels.h"
#include "dashboard/report/shown.h"
#include "dashboard/store/output_file.h"

namespace lockstep::dashboard {

namespace {

std::string render(const Source& source) {
  nlohmann::json charts = nlohmann::json::object();
  Frame frame{.title = "Lockstep report", .home = "#top", .alone = true};
  frame.main = render_hero(source, true);
  for (const Panel& p : panels()) {
    if (p.short_title.empty()) continue;
    frame.navigation += "<a href=\"#" + p.id + "\">" + p.short_title + "</a>";
    frame.main += section(p.id, p.title, body(p, source, charts));
  }
  frame.footer =
      "Made by Lockstep. Charts by Chart.js (MIT), inlined: this page asks the network for nothing.";
  return framed(frame, charts);
}

}  // namespace

std::string render_report(const Store& store) {
  try {
    show_newest_build(store.database());
    const Remembered remembered(store.database());
    return render(Source(store.database()));
  } catch (const SQLite::Exception&) {
    rethrow_as_store_error(store.path());
  }
}

void write_report(const Store& store, const std::string& path, const std::string& option) {
  write_whole(path, render_report(store), option);
}

}  // namespace lockstep::dashboard
