// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/process_engine.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "engine/lane/numerics.h"
#include "engine/values/error.h"
#include "suites/core/heartbeat.h"
#include "suites/core/spawn.h"
#include "suites/engines/wire_messages.h"

namespace lockstep::suites {
namespace {

using wire::Json;

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

std::string text_of(const Json& header, const char* key) {
  const auto found = header.find(key);
  return found != header.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

ProcessEngine::ProcessEngine(std::vector<std::string> command, double seconds)
    : command_(std::move(command)), seconds_(seconds) {
  try {
    start();
  } catch (const EngineFailure& e) {
    throw Error(concat("[engine] '", command_.back(), "' does not speak the wire: ", e.what(),
                       "; suites/engines/WIRE.md says how"));
  }
}

ProcessEngine::~ProcessEngine() {
  stop();
}

wire::Deadline ProcessEngine::deadline() const {
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                std::chrono::duration<double>(seconds_));
}

void ProcessEngine::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Broken(concat("[engine] no socket: ", std::strerror(errno)));
  const pid_t pid = spawn({.command = command_, .socket = ends[1], .own_group = true});
  if (pid < 0) throw Broken(concat("[engine] cannot start '", command_[0], "': ", std::strerror(errno)));
  close(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  child_ = pid, socket_ = ends[0], id_ = 0;
  channel_.emplace(socket_, socket_, beat);
  greet();
}

void ProcessEngine::greet() {
  const auto hello = ask({{{"type", "hello"},
                           {"wire", wire::kVersion},
                           {"lane", entered_lane() == Lane::kExact ? "exact" : "fast"}}});
  const auto& h = hello.header;
  if (text_of(h, "type") != "hello" || !h.contains("wire") || h["wire"] != wire::kVersion)
    fail(EngineFailure::Kind::kWire,
         concat("it greets with ", h.dump(-1, ' ', true).substr(0, 80), ", not as wire ", wire::kVersion));
  try {
    profile_ = wire::read_profile(h.value("capabilities", Json::object()));
  } catch (const std::exception& e) {
    fail(EngineFailure::Kind::kWire, concat("its capabilities cannot be read: ", e.what()));
  }
  profile_.name = text_of(h, "name");
  profile_.version = text_of(h, "version");
}

// @returns how it ended.
std::string ProcessEngine::stop() {
  if (socket_ >= 0) close(socket_);
  std::string end;
  if (child_ > 0) end = end_of(child_);
  child_ = -1, socket_ = -1;
  channel_.reset();
  return end;
}

void ProcessEngine::fail(EngineFailure::Kind kind, const std::string& what) {
  if (kind != EngineFailure::Kind::kDied) kill(-child_, SIGKILL);
  const auto end = stop();
  throw EngineFailure(kind, kind == EngineFailure::Kind::kDied ? end : "",
                      kind == EngineFailure::Kind::kDied ? concat("the engine ", what, ": ", end) : what);
}

wire::Message ProcessEngine::ask(wire::Message message) {
  using Kind = EngineFailure::Kind;
  try {
    const auto until = deadline();
    channel_->send(std::move(message), until);
    return channel_->receive(until);
  } catch (const wire::Closed& e) {
    fail(Kind::kDied, e.what());
  } catch (const wire::TimedOut&) {
    fail(Kind::kHung, concat("the engine did not answer within ", seconds_, " s"));
  } catch (const wire::Malformed& e) {
    fail(Kind::kWire, concat("what the engine sent is no message: ", e.what()));
  }
}

EngineResult ProcessEngine::run(const oracle::Case& c, bool want_timeline) {
  using Kind = EngineFailure::Kind;
  if (child_ < 0) start();
  auto request = wire::write_case(c, oracle::make_inputs(c));
  request.header["id"] = ++id_;
  request.header["want_timeline"] = want_timeline;
  const auto answer = ask(std::move(request));
  const auto type = text_of(answer.header, "type"), reason = text_of(answer.header, "reason");
  if (answer.header.value("id", Json()) != id_)
    fail(Kind::kWire, concat("the engine answers another request than number ", id_));
  if (type == "refused")
    throw EngineRefusal(text_of(answer.header, "op"), text_of(answer.header, "why"), reason);
  if (type == "error") throw EngineFailure(Kind::kError, "", reason);
  if (type != "result") fail(Kind::kWire, concat("'", type.substr(0, 40), "' is no type of an answer"));
  try {
    return wire::read_result(answer, c);
  } catch (const std::exception& e) {
    fail(Kind::kWire, concat("the engine's result cannot be read: ", e.what()));
  }
}

}  // namespace lockstep::suites
