// SPDX-License-Identifier: Apache-2.0
// The summary for a terminal.
#include <algorithm>

#include "ci/output/counts.h"
#include "ci/output/output.h"
#include "ci/output/text.h"

namespace lockstep::output {
namespace {

constexpr size_t kMostShown = 20, kMostLine = 400;

std::string safe(const std::string& text, size_t most = kMostLine) {
  return one_line(cut(utf8(text), most));
}

std::string more(size_t shown, size_t all) {
  return shown < all ? "  … and " + std::to_string(all - shown) + " more\n" : "";
}

}  // namespace

std::string render_text(const ReportModel& p) {
  const Headline whole = headline(p);
  std::string out = (whole.red ? "RED: " : "green: ") + whole.text + "\n";
  const auto codes = exit_codes(p);
  for (size_t i = 0; i < codes.size(); ++i)
    out += (i == 0 ? "exit codes: " : ", ") + std::to_string(codes[i]);
  if (!codes.empty()) out += "\n";
  for (const auto& [key, n] : listed(p.counts)) {
    const std::string name = safe(key);
    out += "  " + name + std::string(name.size() < 28 ? 28 - name.size() : 1, ' ') + std::to_string(n) + "\n";
  }
  const auto live = live_buckets(p);
  if (!live.empty()) out += "failing buckets:\n";
  for (size_t i = 0; i < std::min(live.size(), kMostShown); ++i) {
    const size_t f = live[i].failure;
    out += "  " + safe(p.buckets.text(live[i].bucket, "state")) + ", " +
           plural(p.failures.integer(f, "cases"), "case", "cases") + ": " +
           safe(p.failures.text(f, "bucket")) + "\n    " + safe(p.failures.text(f, "replay"), 4'000) + "\n";
  }
  out += more(kMostShown, live.size());
  if (!p.findings.rows.empty()) out += "findings of the gate:\n";
  for (size_t i = 0; i < std::min(p.findings.rows.size(), kMostShown); ++i)
    out += "  " + safe(p.findings.text(i, "effect")) + " " + safe(p.findings.text(i, "rule")) + ": " +
           safe(p.findings.text(i, "subject")) + ": " + safe(p.findings.text(i, "detail")) + "\n";
  return out + more(kMostShown, p.findings.rows.size());
}

}  // namespace lockstep::output
