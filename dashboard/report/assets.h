// SPDX-License-Identifier: Apache-2.0
// What the pages are described by and what they carry, compiled in.
#pragma once
#include <string_view>

namespace lockstep::dashboard {

extern const std::string_view kTemplatesSql, kPanelsSql, kPagesSql;  // templates.sql, panels.sql, pages.sql
extern const std::string_view kPageCss;                              // page.css
extern const std::string_view kPageJs;                               // page.js
extern const std::string_view kIconSvg;                              // icon.svg
extern const std::string_view kChartJs;  // Chart.js (MIT), of the installed package

}  // namespace lockstep::dashboard
