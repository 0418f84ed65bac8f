// SPDX-License-Identifier: Apache-2.0
#include "dashboard/pages/site.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "dashboard/pages/compare.h"
#include "dashboard/pages/pages.h"
#include "dashboard/report/assets.h"
#include "dashboard/report/frame.h"
#include "dashboard/report/html.h"

namespace lockstep::dashboard {

using html::escape;

namespace {

constexpr const char* kFooter =
    "Made by Lockstep. Charts by Chart.js (MIT). Nothing is loaded from elsewhere, and nothing here can be "
    "changed.";

struct Asset {
  const char *path, *type;
  const std::string_view* bytes;
};
constexpr Asset kAssets[] = {{"/page.css", "text/css; charset=utf-8", &kPageCss},
                             {"/page.js", "text/javascript; charset=utf-8", &kPageJs},
                             {"/chart.js", "text/javascript; charset=utf-8", &kChartJs},
                             {"/icon.svg", "image/svg+xml", &kIconSvg}};

Answer framed_answer(int status, const std::string& title, const std::string& navigation,
                     const std::string& main, const nlohmann::json& charts = nlohmann::json::object()) {
  return {.status = status,
          .body = framed({.title = title + " · Lockstep",
                          .home = "/",
                          .navigation = navigation,
                          .main = main,
                          .footer = kFooter},
                         charts)};
}

// A name for a path and for people: the file's name without ".db", in plain characters.
std::string name_of(const std::string& path, const std::vector<std::unique_ptr<Database>>& taken) {
  std::string stem = std::filesystem::path(path).stem().string(), name;
  for (const char c : stem) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    name += plain ? c : '-';
  }
  name = name.substr(0, 60);
  if (name.empty()) name = "db";
  const auto used = [&](const std::string& text) {
    return std::any_of(taken.begin(), taken.end(), [&](const auto& d) { return d->name() == text; });
  };
  if (!used(name)) return name;
  for (int n = 2;; ++n)
    if (const std::string more = name + "-" + std::to_string(n); !used(more)) return more;
}

// What the page speaks about, and how to see something else.
std::string scope_line(const Source& source, const Database& database, bool one_run,
                       const std::string& note) {
  const std::string about = source.rows(panel("scope").parts[0], {one_run ? "1" : "0"});
  const std::string site = "<a href=\"/db/" + database.name();
  return "<p class=\"scope\"><b>" + escape(database.name()) + "</b> · " + about + " · " + site +
         (one_run ? "/\">show the newest build</a></p>" : "/runs\">choose a run</a></p>") +
         (note.empty() ? "" : html::element("p.scope.note role=\"status\"", escape(note)));
}

}  // namespace

Site::Site(const std::vector<std::string>& paths) {
  for (const std::string& path : paths)
    databases_.push_back(std::make_unique<Database>(name_of(path, databases_), path));
}

void Site::wait_until_ready() {
  for (const auto& database : databases_)
    if (const std::string error = database->wait(); !error.empty())
      throw StoreError(StoreError::Kind::kUnreadable, error);
}

std::vector<std::string> Site::names() const {
  std::vector<std::string> list;
  for (const auto& database : databases_) list.push_back(database->name());
  return list;
}

std::string Site::links(const Database* here, const std::string& page, const Parameters& scope) const {
  std::string s;
  const auto add = [&](const std::string& href, const std::string& words, bool current) {
    s += "<a href=\"" + href + "\"" + (current ? " class=\"here\" aria-current=\"page\"" : "") + ">" + words +
         "</a>";
  };
  if (databases_.size() > 1) add("/", "Databases", here == nullptr);
  if (here == nullptr) return s;
  const std::string base = "/db/" + here->name();
  for (const PageDefinition& p : pages()) {
    if (!p.in_navigation) continue;
    std::string href = base + "/" + p.path;
    for (const auto& [name, value] : scope) href += "?" + name + "=" + html::url_encode(value);
    add(escape(href), p.title, page == p.path);
  }
  return s;
}

Answer Site::answer(const std::string& path, const Query& query) {
  const auto began = std::chrono::steady_clock::now();
  Answer answer;
  const auto refuse = [&](int status, const std::string& headline, const std::string& words) {
    answer = framed_answer(status, headline, links(nullptr, "", {}) + "<a href=\"/\">Home</a>",
                           answered("Something is not as asked", "warn " + headline, escape(words)));
  };
  try {
    answer = page_of(path, query);
  } catch (const NotFound& e) {
    refuse(404, "Not found", e.what());
  } catch (const BadQuery& e) {
    refuse(400, "This address is not understood", e.what());
  } catch (const StoreError& e) {
    refuse(500, "The store cannot be read", e.what());
  } catch (const std::exception& e) {
    refuse(500, "This page could not be made", e.what());
  }
  answer.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return answer;
}

Answer Site::page_of(const std::string& path, const Query& query) {
  for (const Asset& asset : kAssets)
    if (path == asset.path)
      return {.type = asset.type,
              .body = std::string(*asset.bytes),
              .for_ever = query.text("v") == assets_version()};
  if (path == "/") return home();
  if (path == "/compare") return compare(query);
  for (const auto& database : databases_) {
    const std::string base = "/db/" + database->name();
    if (path == base) return {.status = 302, .location = base + "/"};
    if (path.starts_with(base + "/")) return database_page(*database, path.substr(base.size() + 1), query);
  }
  throw NotFound("There is no page at " + path.substr(0, 200) + ".");
}

Answer Site::home() {
  if (databases_.size() == 1) return {.status = 302, .location = "/db/" + databases_[0]->name() + "/"};
  nlohmann::json rows = nlohmann::json::array(), charts;
  for (const auto& database : databases_) {
    nlohmann::json commit = nullptr, equal = nullptr, cases = nullptr;
    const auto snapshot = database->current();
    if (snapshot)
      snapshot->with(std::nullopt, [&](SQLite::Database& db, const CaseIndex&) {
        Source(db).each(
            "SELECT commit_id, failures = 0 AND nondeterministic = 0, cases FROM v_commits "
            "ORDER BY position DESC LIMIT 1",
            [&](const Row& r) { commit = r.json(0), equal = r.json(1), cases = r.json(2); });
      });
    rows.push_back(
        {database->name(), database->path(), commit, equal, cases, snapshot ? "no run yet" : "being read"});
  }
  SQLite::Database none(":memory:");
  const std::string table = body(panel("databases"), Source(none), charts,
                                 {rows.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)});
  const std::string said = " " + html::plural(static_cast<int64_t>(rows.size()), "database", "databases");
  return framed_answer(
      200, "Databases", links(nullptr, "", {}),
      answered("Which databases are shown here?", said) + section("databases", "Databases", table));
}

namespace {

Answer being_read(const Database& database, const std::string& note) {
  const std::string words =
      html::element("b", escape(database.name())) +
      " is opened and checked; its cases are being counted. This page comes back by itself.";
  return framed_answer(503, "Being read", "<a href=\"/\">Home</a>",
                       note.empty()
                           ? answered("Is it ready?", "warn The database is being read.", words)
                           : answered("Is it ready?", "warn The database cannot be read.", escape(note)));
}

}  // namespace

Answer Site::database_page(Database& database, const std::string& name, const Query& query) {
  const auto list = pages();
  const auto page =
      std::find_if(list.begin(), list.end(), [&](const PageDefinition& p) { return name == p.path; });
  if (page == list.end())
    throw NotFound("There is no page \"" + name.substr(0, 200) + "\" about a database.");
  const auto snapshot = database.current();
  const std::string note = database.note();
  if (!snapshot) return being_read(database, note);
  const auto run = query.number("run", 1, INT64_MAX);
  const Parameters scope = run ? Parameters{{"run", std::to_string(*run)}} : Parameters{};
  std::string main;
  nlohmann::json charts = nlohmann::json::object();
  const bool known = snapshot->with(run, [&](SQLite::Database& db, const CaseIndex& cases) {
    const Source source(db, "/db/" + database.name(), scope);
    main = scope_line(source, database, run.has_value(), note) +
           main_of(*page, {.source = source, .cases = cases, .query = query, .charts = charts});
  });
  if (!known) throw NotFound("No run of this store has the number " + std::to_string(*run) + ".");
  return framed_answer(200, page->title + " · " + database.name(), links(&database, name, scope), main,
                       charts);
}

// "main:3": run 3 of the database main.
Answer Site::compare(const Query& query) {
  if (query.text("a").empty() && query.text("b").empty())
    return {.status = 302,
            .location = databases_.size() == 1 ? "/db/" + databases_[0]->name() + "/runs" : "/"};
  Comparison comparison;
  for (const char* side : {"a", "b"}) {
    const std::string chosen = query.text(side);
    const size_t colon = chosen.find(':');
    const Query number({{side, colon == std::string::npos ? "" : chosen.substr(colon + 1)}});
    const auto run = number.number(side, 1, INT64_MAX);
    if (!run)
      throw BadQuery(std::string("\"") + side +
                     "\" names a run: the database, a colon and the number of the run");
    const std::string name = chosen.substr(0, colon);
    const auto database =
        std::find_if(databases_.begin(), databases_.end(), [&](const auto& d) { return d->name() == name; });
    if (database == databases_.end())
      throw NotFound("There is no database " + name.substr(0, 200) + " here.");
    const auto snapshot = (*database)->current();
    if (!snapshot) return being_read(**database, (*database)->note());
    if (!snapshot->with(
            run, [&](SQLite::Database& db, const CaseIndex&) { comparison.add(Source(db, "/db/" + name)); }))
      throw NotFound("Database " + name + " has no run " + std::to_string(*run) + ".");
  }
  return framed_answer(200, "Comparison",
                       links(databases_.size() == 1 ? databases_[0].get() : nullptr, "compare", {}),
                       comparison.html());
}

}  // namespace lockstep::dashboard
