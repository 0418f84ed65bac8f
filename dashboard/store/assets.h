// SPDX-License-Identifier: Apache-2.0
// Text that is compiled in: the schema, the page's style and script, and the installed chart library.
#pragma once
#include <string_view>

namespace lockstep::dashboard {

extern const std::string_view kSchema1;      // schema/001.sql
extern const std::string_view kSchema2;      // schema/002.sql
extern const std::string_view kSchemaViews;  // schema/views.sql
extern const std::string_view kPageCss;      // page.css
extern const std::string_view kPageJs;       // page.js
extern const std::string_view kIconSvg;      // icon.svg
extern const std::string_view kChartJs;      // Chart.js (MIT), of the installed package

}  // namespace lockstep::dashboard
