// SPDX-License-Identifier: Apache-2.0
// What every page carries, compiled in: its style, its script and the installed chart library.
#pragma once
#include <string_view>

namespace lockstep::dashboard {

extern const std::string_view kPageCss;  // page.css
extern const std::string_view kPageJs;   // page.js
extern const std::string_view kIconSvg;  // icon.svg
extern const std::string_view kChartJs;  // Chart.js (MIT), of the installed package

}  // namespace lockstep::dashboard
