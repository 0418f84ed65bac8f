// SPDX-License-Identifier: Apache-2.0
#include "dashboard/report/html.h"

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

void append_ascii(std::string& out, char c) {
  switch (c) {
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '&':
      out += "&amp;";
      break;
    case '"':
      out += "&quot;";
      break;
    case '\'':
      out += "&#39;";
      break;
    case '\n':
    case '\t':
      out += c;
      break;
    default:
      static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? out += kReplacement : out += c;
  }
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = sequence(text);
    if (length == 1) append_ascii(out, text[0]);
    if (length > 1) out += text.substr(0, length);
    if (length == 0) out += kReplacement;
    text.remove_prefix(length ? length : 1);
  }
  return out;
}

std::string cut(std::string_view text, size_t most) {
  if (text.size() <= most) return escape(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return escape(text.substr(0, most)) + "…";
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
  if (seconds >= 3600) {
    const auto minutes = static_cast<int64_t>(seconds / 60);
    return std::to_string(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
  }
  if (seconds >= 60) {
    const auto whole = static_cast<int64_t>(seconds);
    return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  }
  return seconds >= 1 ? brief(seconds) + " s" : brief(seconds * 1e3) + " ms";
}

std::string brief(double value) {
  if (std::isfinite(value) && std::abs(value) >= 1000 && std::abs(value) < 1e15) {
    return grouped(static_cast<int64_t>(std::llround(value)));
  }
  char text[40];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
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
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kWords = {{
      {"equal", "equal"},
      {"explained", "explained: order"},
      {"explained_local_kernel", "explained: local kernel"},
      {"explained_overflow", "explained: overflow"},
      {"bounded", "bounded"},
      {"expected_exception", "listed exception"},
      {"gave_up", "gave up"},
      {"nondeterministic", "not deterministic"},
      {"different", "different"},
      {"hung", "hung"},
      {"crashed", "crashed"},
      {"broken", "harness broken"},
  }};
  for (const auto& [name, words] : kWords) {
    if (name == verdict) return std::string(words);
  }
  return escape(verdict);
}

std::string verdict_chip(std::string_view verdict) {
  return "<span class=\"chip v-" + escape(verdict) + "\">" + verdict_words(verdict) + "</span>";
}

std::string copy_button(std::string_view id, std::string_view what) {
  return "<button type=\"button\" class=\"copy\" data-copy=\"" + std::string(id) +
         "\" aria-label=\"Copy the " + std::string(what) + "\">Copy</button>";
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

std::string code_block(std::string_view id, std::string_view label, std::string_view text) {
  std::string out = "<div class=\"codeblock\"><span class=\"label\">";
  out.append(label).append("</span>").append(copy_button(id, label)).append("<pre id=\"").append(id);
  out.append("\" tabindex=\"0\" aria-label=\"").append(label).append("\" role=\"group\">");
  return out.append(escape(text)).append("</pre></div>");
}

std::string figure(const std::string& id, const std::string& caption) {
  return "<figure><figcaption>" + escape(caption) + "</figcaption><div class=\"canvas\"><canvas id=\"" + id +
         "\" role=\"img\" aria-label=\"" + escape(caption) +
         "; the table on this page has the numbers\"></canvas></div></figure>";
}

std::string notice(std::string_view words, std::string_view kind) {
  std::string out = "<p class=\"empty";
  if (!kind.empty()) out.append(" ").append(kind);
  return out.append("\">").append(words).append("</p>");
}

std::string yes_no(bool yes, std::string_view yes_word, std::string_view no_word) {
  std::string out = yes ? "<span class=\"yes\">✓ " : "<span class=\"no\">✗ ";
  out += yes ? yes_word : no_word;
  return out + "</span>";
}

Table::Table(std::string caption, std::vector<Column> columns, std::string classes)
    : caption_(std::move(caption)), classes_(std::move(classes)), columns_(std::move(columns)) {}

void Table::row(const std::vector<std::string>& cells) {
  body_ += "<tr>";
  for (size_t i = 0; i < columns_.size(); ++i) {
    const std::string_view kind = columns_[i].kind;
    if (kind == "key") {
      body_ += "<th scope=\"row\">" + cells[i] + "</th>";
      continue;
    }
    body_ += "<td";
    if (!kind.empty()) body_ += " class=\"" + std::string(kind) + "\"";
    if (kind != "wide") body_ += std::string(" data-l=\"") + columns_[i].title + "\"";
    body_ += ">" + cells[i] + "</td>";
  }
  body_ += "</tr>";
  ++rows_;
}

std::string Table::html() const {
  if (rows_ == 0) return "";
  std::string head;
  for (const Column& c : columns_) {
    head += std::string("<th scope=\"col\" class=\"") + c.kind + "\">" + c.title + "</th>";
  }
  return "<div class=\"scroll\"><table class=\"" + classes_ + "\"><caption class=\"hidden\">" + caption_ +
         "</caption><thead><tr>" + head + "</tr></thead><tbody>" + body_ + "</tbody></table></div>";
}

std::string Table::html_or(std::string_view words, std::string_view kind) const {
  return rows_ == 0 ? notice(words, kind) : html();
}

}  // namespace lockstep::dashboard::html

namespace lockstep::dashboard {

int64_t Source::each(const std::string& query, const std::function<void(const Row&)>& use,
                     const std::vector<std::string>& texts) const {
  SQLite::Statement statement(db_, query);
  for (size_t i = 0; i < texts.size(); ++i) statement.bind(static_cast<int>(i + 1), texts[i]);
  int64_t rows = 0;
  for (; statement.executeStep(); ++rows) use(Row(statement));
  return rows;
}

std::string Source::href(std::string_view page, const Parameters& parameters) const {
  std::string out = site_ + "/" + std::string(page);
  char joint = '?';
  for (const Parameters* list : {&parameters, &scope_}) {
    for (const auto& [name, value] : *list) {
      if (value.empty()) continue;
      out += joint + html::url_encode(name) + "=" + html::url_encode(value);
      joint = '&';
    }
  }
  return html::escape(out);
}

std::string Source::link(std::string_view inner, std::string_view page, const Parameters& parameters) const {
  if (!has_site()) return std::string(inner);
  return "<a href=\"" + href(page, parameters) + "\">" + std::string(inner) + "</a>";
}

std::string Source::text(const std::string& query, const std::vector<std::string>& texts) const {
  SQLite::Statement statement(db_, query);
  for (size_t i = 0; i < texts.size(); ++i) statement.bind(static_cast<int>(i + 1), texts[i]);
  return statement.executeStep() && !statement.isColumnNull(0) ? statement.getColumn(0).getString() : "";
}

}  // namespace lockstep::dashboard
