// SPDX-License-Identifier: Apache-2.0
// Progress of a run: a bar with rate and time left on a terminal, a plain line now and then elsewhere.
#pragma once
#include <cstdint>
#include <string>

namespace lockstep::program {

class Progress {
 public:
  // Writes to stderr. `seconds` is the time limit, 0 for none.
  explicit Progress(bool terminal, double seconds = 0) : terminal_(terminal), limit_(seconds) {}

  // planned 0: how many is not known.
  void update(int64_t done, int64_t planned, double seconds);
  // Clears the bar, prints the text on stdout; the bar comes back with the next update.
  void print(const std::string& text);
  void finish();

 private:
  bool terminal_;
  double limit_;
  double last_ = -1e9;
  bool drawn_ = false;
};

// "[####----] 1200/6000 cases, 410/s, 12 s left"
std::string progress_text(int64_t done, int64_t planned, double seconds, double limit, int width);

}  // namespace lockstep::program
