// SPDX-License-Identifier: Apache-2.0
#include "ci/program/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lockstep::program {
namespace {

constexpr double kTerminalEvery = 0.2, kPlainEvery = 10;

std::string time_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  return whole < 100 ? std::to_string(whole) + " s"
                     : std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
}

}  // namespace

std::string progress_text(int64_t done, int64_t planned, double seconds, double limit, int width) {
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  double part = planned > 0 ? static_cast<double>(done) / static_cast<double>(planned) : 0;
  double left = planned > 0 && rate > 0 ? static_cast<double>(planned - done) / rate : -1;
  if (limit > 0) {
    part = std::max(part, std::min(1.0, seconds / limit));
    left = left < 0 ? limit - seconds : std::min(left, limit - seconds);
  }
  const int filled = static_cast<int>(part * width);
  std::string text;
  if (width > 0)
    text = "[" + std::string(static_cast<size_t>(filled), '#') +
           std::string(static_cast<size_t>(width - filled), '-') + "] ";
  text += std::to_string(done);
  if (planned > 0) text += "/" + std::to_string(planned);
  text += " cases, " + std::to_string(static_cast<int64_t>(rate)) + "/s";
  if (left >= 0) text += ", " + time_text(std::max(0.0, left)) + " left";
  return text;
}

void Progress::update(int64_t done, int64_t planned, double seconds) {
  if (seconds - last_ < (terminal_ ? kTerminalEvery : kPlainEvery)) return;
  if (!terminal_ && seconds < 1) return;
  last_ = seconds;
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n",
               progress_text(done, planned, seconds, limit_, terminal_ ? 30 : 0).c_str());
  drawn_ = terminal_;
}

void Progress::print(const std::string& text) {
  finish();
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void Progress::finish() {
  if (drawn_) std::fprintf(stderr, "\r\033[K");
  drawn_ = false;
}

}  // namespace lockstep::program
