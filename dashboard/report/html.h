// SPDX-License-Identifier: Apache-2.0
// Text of the pages: escaping, numbers for people, and the pieces that pages are made of.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::dashboard::html {

// Law: the result is valid UTF-8, holds no < > & " ', and no control character but newline and tab; what is
// not UTF-8, and other control characters, become U+FFFD. Safe between tags and in quoted attributes.
std::string escape(std::string_view text);

// The text; of a longer one the first `most` bytes, at a boundary of UTF-8, and "…".
std::string shortened(std::string_view text, size_t most);
// The same, escaped.
std::string cut(std::string_view text, size_t most);

// "1,234,567"
std::string grouped(int64_t n);
// "12.3 MiB"
std::string bytes(double n);
// "1 min 5 s", "3.2 s", "14 ms"
std::string duration(double seconds);
// Three significant digits: "0.0123", "1,234", "6.2e-05"
std::string brief(double value);
// "12.3 %"; never rounded up to 100 or down to 0: what remains is what one looks for.
std::string percent(int64_t part, int64_t whole);
// "1 case", "2 cases"
std::string plural(int64_t n, std::string_view singular, std::string_view many);
// "2026-01-02 03:04 UTC"
std::string time(int64_t epoch_seconds);
// The word for people: "explained: local kernel".
std::string verdict_words(std::string_view verdict);
// Only letters, digits and -._~ stay: safe in a path, in a query and, without escaping, in an attribute.
std::string url_encode(std::string_view text);

// All below take markup as `inner` and texts elsewhere.

// "td.num.wide data-x" is an element with two classes and an attribute; nothing in it may come from a row.
std::string element(std::string_view what, std::string_view inner);
// A place for a chart of page.js, named for those who do not see it.
std::string figure(const std::string& id, const std::string& caption);
// A notice in a box; `kind`: "good" or "".
std::string notice(std::string_view inner, std::string_view kind = "");
}  // namespace lockstep::dashboard::html
