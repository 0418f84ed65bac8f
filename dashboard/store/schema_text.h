// SPDX-License-Identifier: Apache-2.0
// The schema, compiled in.
#pragma once
#include <string_view>

namespace lockstep::dashboard {

extern const std::string_view kSchema1;      // schema/001.sql
extern const std::string_view kSchema2;      // schema/002.sql
extern const std::string_view kSchema3;      // schema/003.sql
extern const std::string_view kSchema4;      // schema/004.sql
extern const std::string_view kSchema5;      // schema/005.sql
extern const std::string_view kSchemaViews;  // schema/views.sql

}  // namespace lockstep::dashboard
