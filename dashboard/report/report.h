// SPDX-License-Identifier: Apache-2.0
// The report: one self-contained HTML page, made of the views.
#pragma once
#include <string>

#include "dashboard/store/store.h"

namespace lockstep::dashboard {

// The page opens from disk and asks the network for nothing. It speaks about the runs of the newest build;
// older ones are only listed. The same store gives the same bytes.
std::string render_report(const Store& store);

// Writes the page to a temporary file beside `path`, then renames it: a reader sees the old page or the new
// one.
// @throws StoreError(readonly, full, unreadable) if the file cannot be written.
void write_report(const Store& store, const std::string& path, const std::string& option = "--report");

}  // namespace lockstep::dashboard
