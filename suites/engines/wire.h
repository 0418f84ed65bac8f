// SPDX-License-Identifier: Apache-2.0
// The wire to an engine in another process, below what its messages mean: one line of JSON, then as many raw
// bytes as it says. WIRE.md is the document.
#pragma once
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace lockstep::suites::wire {

inline constexpr int kVersion = 1;
inline constexpr size_t kMostHeader = size_t{64} << 20;
inline constexpr size_t kMostPayload = size_t{1} << 30;

using Json = nlohmann::json;
struct Message {
  Json header;
  std::string payload{};
};

// What was read is no message of this wire.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The other side is gone.
struct Closed : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct TimedOut : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNever = Deadline::max();

// Two file descriptors that it does not own. `waiting` is called about once a second while it waits.
class Channel {
 public:
  Channel(
      int in, int out, std::function<void()> waiting = [] {})
      : in_(in), out_(out), waiting_(std::move(waiting)) {}
  // Each throws Closed or TimedOut; receive also Malformed, and Closed only between messages or within one.
  void send(Message message, Deadline deadline);
  Message receive(Deadline deadline);

 private:
  void write_all(const std::string& bytes, Deadline deadline);
  void read_some(Deadline deadline);
  void wait(int fd, short events, Deadline deadline) const;
  std::string line(Deadline deadline);

  int in_, out_;
  std::function<void()> waiting_;
  std::string buffer_;  // read, not yet used
};

}  // namespace lockstep::suites::wire
