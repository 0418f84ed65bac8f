// SPDX-License-Identifier: Apache-2.0
// Peer: a process behind the wire of WIRE.md. Whatever it does, whoever asks it has an answer or an
// EngineFailure within the time, and after one it is gone.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "suites/core/engine_under_test.h"
#include "suites/core/spawn.h"
#include "suites/engines/wire.h"

namespace lockstep::suites {

class Peer {
 public:
  // Starts it, with its socket and a process group of its own. Throws Broken if it cannot.
  explicit Peer(Spawn program);
  ~Peer() { stop(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool gone() const { return child_ < 0; }
  void send(const wire::Message& message, wire::Deadline deadline);
  wire::Message receive(wire::Deadline deadline);
  // It did what no engine may: kills it and throws.
  [[noreturn]] void fail(EngineFailure::Kind kind, const std::string& what);
  // Asks it to end, waits, kills it if it takes a second. @returns how it ended.
  std::string stop();

 private:
  template <class F>
  auto guarded(F&& talk);

  pid_t child_ = -1;
  int socket_ = -1;
  std::optional<wire::Channel> channel_;
};

wire::Deadline after(double seconds);
// A text of a message's header; "": it has none of this name.
std::string text_of(const wire::Json& header, const char* key);

}  // namespace lockstep::suites
