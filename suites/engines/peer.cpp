// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/peer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "engine/values/error.h"
#include "suites/core/heartbeat.h"

namespace lockstep::suites {
namespace {

// How a process that was asked to end, or ended by itself, did; it is killed if it takes a second.
std::string end_of(pid_t child) {
  int status = 0;
  for (int i = 0; i < 100; ++i) {
    if (waitpid(child, &status, WNOHANG) == child) return how_it_ended(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(-child, SIGKILL);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return "it was stopped";
}

}  // namespace

wire::Deadline after(double seconds) {
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                std::chrono::duration<double>(seconds));
}

std::string text_of(const wire::Json& header, const char* key) {
  const auto found = header.find(key);
  return found != header.end() && found->is_string() ? found->get<std::string>() : "";
}

Peer::Peer(Spawn program) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Broken(concat("[engine] no socket: ", std::strerror(errno)));
  program.socket = ends[1];
  program.own_group = true;
  child_ = spawn(program);
  close(ends[1]);
  socket_ = ends[0];
  if (child_ < 0)
    throw Broken(concat("[engine] cannot start '", program.command[0], "': ", std::strerror(errno)));
  fcntl(socket_, F_SETFL, O_NONBLOCK);
  channel_.emplace(socket_, socket_, beat);
}

std::string Peer::stop() {
  if (socket_ >= 0) close(socket_);
  std::string end;
  if (child_ > 0) end = end_of(child_);
  child_ = -1, socket_ = -1;
  channel_.reset();
  return end;
}

void Peer::fail(EngineFailure::Kind kind, const std::string& what) {
  if (kind != EngineFailure::Kind::kDied) kill(-child_, SIGKILL);
  const auto end = stop();
  throw EngineFailure(kind, kind == EngineFailure::Kind::kDied ? end : "",
                      kind == EngineFailure::Kind::kDied ? concat("the engine ", what, ": ", end) : what);
}

template <class F>
auto Peer::guarded(F&& talk) {
  using Kind = EngineFailure::Kind;
  try {
    return talk();
  } catch (const wire::Closed& e) {
    fail(Kind::kDied, e.what());
  } catch (const wire::TimedOut&) {
    fail(Kind::kHung, "the engine did not answer in time");
  } catch (const wire::Malformed& e) {
    fail(Kind::kWire, concat("what the engine sent is no message: ", e.what()));
  }
}

void Peer::send(const wire::Message& message, wire::Deadline deadline) {
  guarded([&] { channel_->send(message, deadline); });
}

wire::Message Peer::receive(wire::Deadline deadline) {
  return guarded([&] { return channel_->receive(deadline); });
}

}  // namespace lockstep::suites
