// SPDX-License-Identifier: Apache-2.0
// The one list of panels.
#include "dashboard/report/panels.h"

#include "dashboard/store/hash.h"

namespace lockstep::dashboard {

std::span<const Panel> panels() {
  static constexpr Panel kPanels[] = {
      {"verdicts", "What ran, and how it came out", "Verdicts", render_verdicts},
      {"failures", "Failures", "Failures", render_failures},
      {"buckets", "Failures by bucket, and their life", "Buckets", render_buckets},
      {"judgement", "What the gate decided", "Gate", render_judgement},
      {"matrix", "Ops and placements", "Matrix", render_matrix},
      {"curves", "Training curves", "Curves", render_curves},
      {"drift", "Drift from one device", "Drift", render_drift},
      {"divergence", "Where logged runs part", "Divergence", render_divergence},
      {"series", "Performance series", "Series", render_series},
      {"levels", "Where series changed their level", "Levels", render_levels},
      {"throughput", "Throughput", "Throughput", render_throughput},
      {"coverage", "Coverage and its gaps", "Coverage", render_coverage},
      {"goldens", "Goldens of the random stream", "Goldens", render_goldens},
      {"faults", "Planted faults", "Faults", render_faults},
      {"exceptions", "Expected exceptions", "Exceptions", render_exceptions},
      {"refusals", "What gave up, and what is forgiven", "Refusals", render_refusals},
      {"environment", "Environment", "Environment", render_environment},
  };
  return kPanels;
}

std::string content_id(std::string_view text) {
  std::string out;
  for (const uint8_t byte : Hasher().add(text).key()) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

}  // namespace lockstep::dashboard
