// SPDX-License-Identifier: Apache-2.0
// The one list of panels.
#include "dashboard/panels.h"

namespace lockstep::dashboard {

std::span<const Panel> panels() {
  static constexpr Panel kPanels[] = {
      {"verdicts", "What ran, and how it came out", "Verdicts", render_verdicts},
      {"failures", "Failures", "Failures", render_failures},
      {"matrix", "Ops and placements", "Matrix", render_matrix},
      {"curves", "Training curves", "Curves", render_curves},
      {"throughput", "Throughput", "Throughput", render_throughput},
      {"coverage", "Coverage and its gaps", "Coverage", render_coverage},
      {"goldens", "Goldens of the random stream", "Goldens", render_goldens},
      {"faults", "Planted faults", "Faults", render_faults},
      {"exceptions", "Expected exceptions", "Exceptions", render_exceptions},
      {"environment", "Environment", "Environment", render_environment},
  };
  return kPanels;
}

}  // namespace lockstep::dashboard
