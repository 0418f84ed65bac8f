// SPDX-License-Identifier: Apache-2.0
// What the pages add to SQL. A function gives a text or markup; markup is a blob, and nothing else is: what
// comes from a row is escaped wherever it becomes part of markup. With a NULL among its arguments a function
// gives NULL, but for html and link.
//
//   html(a, b, …)                 the cells one after the other; NULL is nothing
//   el('td.num', a, b, …)         an element with classes
//   link(a, page, name, value, …) to a page of the site
//   panel(id, text, …)            a panel of panels.sql
//   cut(text, bytes)  grouped(n)  brief(x)  size(bytes)  took(seconds)  at(epoch)  plural(n, one, many)
//   percent(part, whole)  words(verdict)  content_id(text)  from_hex(text)  site()  href(page)
//   number(bits, dtype)  digits(bits, dtype)  double_of(bits)
//   and the templates of panels.sql
//
// and aggregates of points, whatever their order: median(x, y), slope(x, y) (drift.h), growth(x, y) (least
// squares of log2 y), levels(x, y) (change points as JSON: [{position, before, after, effect, p}, …]).
#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

namespace lockstep::dashboard {

class Source;

// @pre `source` lives as long as the queries that name a function.
void add_functions(SQLite::Database& db, const Source& source);

}  // namespace lockstep::dashboard
