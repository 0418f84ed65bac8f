// SPDX-License-Identifier: Apache-2.0
#include "dashboard/report/frame.h"

#include "dashboard/report/assets.h"
#include "dashboard/store/hash.h"

namespace lockstep::dashboard {

namespace {

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
)";

// Nothing may be loaded from anywhere, whatever the values on the page try.
constexpr std::string_view kLoadNothing = R"(<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
)";

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

std::string style_and_scripts(const Frame& frame) {
  if (frame.alone) return "<style>" + std::string(kPageCss) + "</style>\n";
  const std::string v = "?v=" + assets_version();
  return "<link rel=\"icon\" href=\"/icon.svg" + v + "\">\n<link rel=\"stylesheet\" href=\"/page.css" + v +
         "\">\n<script defer src=\"/chart.js" + v + "\"></script>\n<script defer src=\"/page.js" + v +
         "\"></script>\n";
}

}  // namespace

const std::string& assets_version() {
  static const std::string version = [] {
    const Key key = Hasher().add(kPageCss).add(kPageJs).add(kChartJs).key();
    std::string text;
    for (size_t i = 0; i < 6; ++i) text += "0123456789abcdef"[key[i] & 15];
    return text;
  }();
  return version;
}

std::string section(const std::string& id, const std::string& title, const std::string& body) {
  return "<section class=\"panel\" id=\"" + id + "\" aria-labelledby=\"" + id + "-title\"><h2 id=\"" + id +
         "-title\">" + title + "</h2>\n" + body + "</section>\n";
}

std::string framed(const Frame& frame, const nlohmann::json& charts) {
  std::string html(kHead);
  if (frame.alone) html += kLoadNothing;
  html += "<title>" + frame.title + "</title>\n" + style_and_scripts(frame) +
          "</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header "
          "class=\"bar\"><a class=\"brand\" href=\"" +
          frame.home + "\">";
  html += kLogo;
  html += "<span>Lockstep</span></a><nav aria-label=\"Pages\">" + frame.navigation +
          "</nav><button type=\"button\" id=\"theme\" aria-label=\"Switch between light and "
          "dark\"></button></header>\n<main id=\"main\" tabindex=\"-1\">\n" +
          frame.main + "</main>\n<footer>" + frame.footer +
          "</footer>\n<script type=\"application/json\" id=\"data\">" + script_json(charts) + "</script>\n";
  if (frame.alone) {
    for (const std::string_view script : {kChartJs, kPageJs})
      html.append("<script>").append(script) += "</script>\n";
  }
  return html + "</body>\n</html>\n";
}

}  // namespace lockstep::dashboard
