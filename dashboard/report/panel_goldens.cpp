// SPDX-License-Identifier: Apache-2.0
// Which draws were compared with a golden, and which have none yet: from the labels "golden STATE: OP DTYPE"
// of the suite golden.
#include <array>
#include <map>

#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

namespace {

constexpr std::array<const char*, 4> kStates = {"recorded", "published", "computed", "not recorded"};
using Counts = std::array<int64_t, 4>;  // in the order of kStates

// What -> state -> draws. A run that was repeated counts once.
std::map<std::string, Counts> goldens(const Source& source) {
  std::map<std::string, Counts> found;
  source.each(
      "SELECT label, max(hits) FROM v_labels WHERE run_id IN shown AND label LIKE 'golden %: %' GROUP BY "
      "label",
      [&](const Row& r) {
        for (size_t k = 0; k < kStates.size(); ++k) {
          const std::string start = std::string("golden ") + kStates[k] + ": ", label = r.text(0);
          if (label.starts_with(start)) found[label.substr(start.size())][k] += r.integer(1);
        }
      });
  return found;
}

}  // namespace

std::string render_goldens(const Source& source, nlohmann::json&) {
  html::Table table("Draws by operator and dtype", {{"Operator", "key"},
                                                    {"Recorded", "num"},
                                                    {"Published", "num"},
                                                    {"Computed", "num"},
                                                    {"Not recorded", "num"}});
  Counts all{};
  for (const auto& [what, counts] : goldens(source)) {
    std::vector<std::string> cells = {html::escape(what)};
    for (size_t k = 0; k < kStates.size(); ++k) {
      cells.push_back(counts[k] == 0 ? "–" : html::grouped(counts[k]));
      all[k] += counts[k];
    }
    table.row(cells);
  }
  if (table.rows() == 0)
    return "<p class=\"empty\">The suite golden did not run. <code>lockstep run --suite golden</code> "
           "compares "
           "with what stock libtorch drew on GPUs.</p>";
  return "<p>Of the draws of this run, <b>" + html::grouped(all[0]) +
         "</b> were compared with what stock libtorch drew on a GPU and <code>golden/record</code> recorded, "
         "<b>" +
         html::grouped(all[1]) + "</b> with values that others published, <b>" + html::grouped(all[2]) +
         "</b> with an independent computation. <b>" + html::grouped(all[3]) +
         "</b> are not recorded: closed form and simulation agree on them, and no GPU was asked. "
         "<code>golden/README.md</code> says how to ask one.</p>" +
         table.html();
}

}  // namespace lockstep::dashboard
