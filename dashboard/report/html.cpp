// SPDX-License-Identifier: Apache-2.0
#include "dashboard/report/html.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <utility>

namespace lockstep::dashboard::html {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// The length of the UTF-8 sequence that begins here, 0 if there is none.
size_t sequence(std::string_view s) {
  const auto at = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0; };
  const auto tail = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  const int a = at(0), b = at(1);
  if (a < 0x80) return 1;
  if (a >= 0xc2 && a < 0xe0) return tail(1) ? 2 : 0;
  if (a >= 0xe0 && a < 0xf0) {
    const bool overlong = a == 0xe0 && b < 0xa0, surrogate = a == 0xed && b >= 0xa0;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (a >= 0xf0 && a < 0xf5) {
    const bool overlong = a == 0xf0 && b < 0x90, beyond = a == 0xf4 && b >= 0x90;
    return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

constexpr std::string_view kSpecial = "<>&\"'", kNames[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"};

std::string escaped_ascii(char c) {
  if (const size_t at = kSpecial.find(c); at != std::string_view::npos) return std::string(kNames[at]);
  const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
  return control ? std::string(kReplacement) : std::string(1, c);
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = sequence(text);
    out += length == 1 ? escaped_ascii(text[0]) : length == 0 ? kReplacement : text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return std::string(text.substr(0, most)) + "…";
}

std::string cut(std::string_view text, size_t most) {
  return escape(shortened(text, most));
}

std::string grouped(int64_t n) {
  const std::string digits = std::to_string(n);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t left = digits.size() - i;
    if (i > (n < 0 ? 1u : 0u) && left % 3 == 0) out.push_back(',');
    out.push_back(digits[i]);
  }
  return out;
}

std::string bytes(double n) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; n >= 1024 && unit + 1 < kUnits.size(); ++unit) n /= 1024;
  return brief(n) + " " + kUnits[unit];
}

std::string duration(double seconds) {
  if (seconds < 60) return seconds >= 1 ? brief(seconds) + " s" : brief(seconds * 1e3) + " ms";
  const bool hours = seconds >= 3600;
  const auto smaller = static_cast<int64_t>(hours ? seconds / 60 : seconds);
  return std::to_string(smaller / 60) + (hours ? " h " : " min ") + std::to_string(smaller % 60) +
         (hours ? " min" : " s");
}

std::string brief(double value) {
  if (std::isfinite(value) && std::abs(value) >= 1000 && std::abs(value) < 1e15) {
    return grouped(static_cast<int64_t>(std::llround(value)));
  }
  char text[40];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

std::string percent(int64_t part, int64_t whole) {
  if (whole == 0) return "–";
  const double value = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (part != whole && value > 99.9) return "> 99.9 %";
  if (part != 0 && value < 0.1) return "< 0.1 %";
  return brief(value) + " %";
}

std::string plural(int64_t n, std::string_view singular, std::string_view many) {
  return grouped(n) + " " + std::string(n == 1 ? singular : many);
}

std::string time(int64_t epoch_seconds) {
  const std::time_t at = epoch_seconds;
  std::tm parts{};
  gmtime_r(&at, &parts);
  char text[40];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

std::string verdict_words(std::string_view verdict) {
  constexpr std::pair<std::string_view, const char*> kWords[] = {
      {"explained", "explained: order"},
      {"explained_local_kernel", "explained: local kernel"},
      {"explained_overflow", "explained: overflow"},
      {"expected_exception", "listed exception"},
      {"gave_up", "gave up"},
      {"nondeterministic", "not deterministic"},
      {"broken", "harness broken"},
  };
  for (const auto& [name, words] : kWords)
    if (name == verdict) return words;
  return std::string(verdict);
}

std::string url_encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || c == '-' || c == '.' || c == '_' || c == '~') {
      out += c;
      continue;
    }
    char code[4];
    std::snprintf(code, sizeof(code), "%%%02X", static_cast<unsigned char>(c));
    out += code;
  }
  return out;
}

std::string element(std::string_view what, std::string_view inner) {
  const size_t end = std::min(what.find(' '), what.size()), dot = std::min(what.find('.'), end);
  const std::string name(what.substr(0, dot));
  std::string out = "<" + name, classes(what.substr(dot, end - dot));
  std::replace(classes.begin(), classes.end(), '.', ' ');
  if (!classes.empty()) out += " class=\"" + classes.substr(1) + "\"";
  out.append(what.substr(end)).append(">").append(inner);
  return name == "br" || name == "input" ? out : out + "</" + name + ">";
}

std::string figure(const std::string& id, const std::string& caption) {
  return "<figure><figcaption>" + escape(caption) + "</figcaption><div class=\"canvas\"><canvas id=\"" + id +
         "\" role=\"img\" aria-label=\"" + escape(caption) +
         "; the table on this page has the numbers\"></canvas></div></figure>";
}

std::string notice(std::string_view inner, std::string_view kind) {
  return element(kind.empty() ? "p.empty" : "p.empty." + std::string(kind), inner);
}

}  // namespace lockstep::dashboard::html
