// SPDX-License-Identifier: Apache-2.0
#include "dashboard/report/functions.h"

#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>

#include "dashboard/report/drift.h"
#include "dashboard/report/html.h"
#include "dashboard/report/panels.h"
#include "dashboard/report/source.h"
#include "dashboard/statistics/change_points.h"
#include "dashboard/store/bits.h"
#include "dashboard/store/hash.h"

namespace lockstep::dashboard {
namespace {

class Arguments {
 public:
  Arguments(int count, sqlite3_value** values) : values_(values, values + count) {}
  size_t size() const { return values_.size(); }
  bool null(size_t i) const { return sqlite3_value_type(values_[i]) == SQLITE_NULL; }
  int64_t integer(size_t i) const { return sqlite3_value_int64(values_[i]); }
  double number(size_t i) const { return sqlite3_value_double(values_[i]); }
  std::string text(size_t i) const {
    const void* bytes = sqlite3_value_type(values_[i]) == SQLITE_BLOB ? sqlite3_value_blob(values_[i])
                                                                      : sqlite3_value_text(values_[i]);
    return bytes ? std::string(static_cast<const char*>(bytes),
                               static_cast<size_t>(sqlite3_value_bytes(values_[i])))
                 : "";
  }
  // As a cell shows it, but nothing for NULL.
  std::string markup(size_t i) const {
    switch (sqlite3_value_type(values_[i])) {
      case SQLITE_INTEGER:
        return html::grouped(integer(i));
      case SQLITE_FLOAT:
        return html::brief(number(i));
      case SQLITE_TEXT:
        return html::escape(text(i));
      default:
        return text(i);
    }
  }
  // Those from here on, one after the other.
  std::string joined(size_t first) const {
    std::string all;
    for (size_t i = first; i < size(); ++i) all += markup(i);
    return all;
  }
  Texts texts(size_t first) const {
    Texts all;
    for (size_t i = first; i < size(); ++i) all.push_back(text(i));
    return all;
  }

 private:
  std::vector<sqlite3_value*> values_;
};

std::string link(const Source& source, const Arguments& a) {
  Parameters parameters;
  for (size_t i = 2; i + 1 < a.size(); i += 2) parameters.emplace_back(a.text(i), a.text(i + 1));
  return source.link(a.markup(0), a.text(1), parameters);
}

std::string from_hex(const std::string& text) {
  const bool hex = text.size() % 2 == 0 && text.find_first_not_of("0123456789abcdefABCDEF") == text.npos;
  std::string bytes;
  for (size_t i = 0; hex && i < text.size(); i += 2)
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return bytes;
}

// The panel with this id, which has no charts.
std::string of_panel(const Source& source, const Arguments& a) {
  nlohmann::json charts;
  return body(panel(a.text(0)), source, charts, a.texts(1));
}

using S = const Source&;
using A = const Arguments&;

struct Function {
  const char* name = nullptr;
  std::string (*call)(S source, A arguments) = nullptr;
  bool nulls = false;  // it is called with NULLs too
};

constexpr Function kMarkup[] = {
    {"html", [](S, A a) { return a.joined(0); }, true},
    {"el", [](S, A a) { return html::element(a.text(0), a.joined(1)); }},
    {"link", [](S s, A a) { return link(s, a); }, true},
    {"panel", [](S s, A a) { return of_panel(s, a); }},
    {"from_hex", [](S, A a) { return from_hex(a.text(0)); }},
};

constexpr Function kTexts[] = {
    {"cut", [](S, A a) { return html::shortened(a.text(0), static_cast<size_t>(a.integer(1))); }},
    {"grouped", [](S, A a) { return html::grouped(a.integer(0)); }},
    {"brief", [](S, A a) { return html::brief(a.number(0)); }},
    {"size", [](S, A a) { return html::bytes(a.number(0)); }},
    {"took", [](S, A a) { return html::duration(a.number(0)); }},
    {"at", [](S, A a) { return html::time(a.integer(0)); }},
    {"plural", [](S, A a) { return html::plural(a.integer(0), a.text(1), a.text(2)); }},
    {"percent", [](S, A a) { return html::percent(a.integer(0), a.integer(1)); }},
    {"words", [](S, A a) { return html::verdict_words(a.text(0)); }},
    {"double_of", [](S, A a) { return html::brief(value_of(from_column(a.integer(0)), "f64")); }},
    {"number", [](S, A a) { return shortest(from_column(a.integer(0)), a.text(1)); }},
    {"digits", [](S, A a) { return hex(from_column(a.integer(0)), a.text(1)); }},
    {"content_id", [](S, A a) { return hex(Hasher().add(a.text(0)).key()); }},
    {"href", [](S s, A a) { return s.href(a.text(0)); }},
    {"site", [](S s, A) { return s.site(); }},
};

using Points = std::vector<DriftPoint>;

struct Aggregate {
  const char* name;
  std::optional<double> (*number)(const Points&);  // of points in the order of x; or
  std::string (*json)(const Points&) = nullptr;
};

std::optional<double> median(const Points& points) {
  std::vector<double> values;
  for (const DriftPoint& p : points) values.push_back(p.distance);
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

// Nothing with fewer than three points, or all at one x.
std::optional<double> growth(const Points& points) {
  if (points.size() < 3) return std::nullopt;
  const auto n = static_cast<double>(points.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const DriftPoint& p : points) {
    const double log = std::log2(p.distance);
    x += p.step, y += log, xx += p.step * p.step, xy += p.step * log;
  }
  const double width = n * xx - x * x;
  if (width <= 0) return std::nullopt;
  return (n * xy - x * y) / width;
}

std::string levels(const Points& points) {
  std::vector<double> values;
  for (const DriftPoint& p : points) values.push_back(p.distance);
  nlohmann::json all = nlohmann::json::array();
  for (const ChangePoint& c : change_points(values).points)
    all.push_back({{"position", c.position},
                   {"before", c.before},
                   {"after", c.after},
                   {"effect", c.effect},
                   {"p", c.p}});
  return all.dump();
}

constexpr Aggregate kAggregates[] = {
    {"median", median},
    {"slope", [](const Points& p) { return drift(p); }},
    {"growth", growth},
    {"levels", nullptr, levels},
};

void give(sqlite3_context* context, const std::string& result, bool markup) {
  const int size = static_cast<int>(result.size());
  markup ? sqlite3_result_blob(context, result.data(), size, SQLITE_TRANSIENT)
         : sqlite3_result_text(context, result.data(), size, SQLITE_TRANSIENT);
}

// What sqlite3 keeps of a function: what it is, or the template that stands for it, and of which source.
struct Bound {
  Function function;
  const std::string* text;
  S source;
  bool markup;

  std::string operator()(A arguments) const {
    if (!text) return function.call(source, arguments);
    return source.fill(*text, arguments.texts(0), 0,
                       [&](int i) { return arguments.markup(static_cast<size_t>(i - 1)); });
  }
};

void call(sqlite3_context* context, int count, sqlite3_value** values) {
  const auto& bound = *static_cast<const Bound*>(sqlite3_user_data(context));
  const Arguments arguments(count, values);
  for (size_t i = 0; i < arguments.size() && !bound.function.nulls; ++i)
    if (arguments.null(i)) return;  // which leaves NULL
  try {
    give(context, bound(arguments), bound.markup);
  } catch (const std::exception& e) {
    sqlite3_result_error(context, e.what(), -1);
  }
}

// A point without a y is none.
void step(sqlite3_context* context, int count, sqlite3_value** values) {
  auto& points = *static_cast<Points**>(sqlite3_aggregate_context(context, sizeof(Points*)));
  if (!points) points = new Points;
  const Arguments a(count, values);
  if (!a.null(1)) points->push_back({a.number(0), a.number(1)});
}

void finish(sqlite3_context* context) {
  auto** kept = static_cast<Points**>(sqlite3_aggregate_context(context, 0));
  const std::unique_ptr<Points> points(kept ? *kept : nullptr);
  if (!points || points->empty()) return;
  std::stable_sort(points->begin(), points->end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
  const auto& aggregate = *static_cast<const Aggregate*>(sqlite3_user_data(context));
  if (aggregate.json) return give(context, aggregate.json(*points), false);
  if (const auto result = aggregate.number(*points)) sqlite3_result_double(context, *result);
}

}  // namespace

void add_functions(SQLite::Database& db, const Source& source) {
  const auto add = [&](const Bound& bound, const char* name) {
    sqlite3_create_function_v2(db.getHandle(), name, -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, new Bound(bound),
                               call, nullptr, nullptr, [](void* b) { delete static_cast<Bound*>(b); });
  };
  for (const Function& f : kMarkup) add({f, nullptr, source, true}, f.name);
  for (const Function& f : kTexts) add({f, nullptr, source, false}, f.name);
  for (const auto& [name, text] : page_functions()) add({{}, &text, source, true}, name.c_str());
  for (const Aggregate& a : kAggregates)
    sqlite3_create_function_v2(db.getHandle(), a.name, 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                               const_cast<Aggregate*>(&a), nullptr, step, finish, nullptr);
}

}  // namespace lockstep::dashboard
