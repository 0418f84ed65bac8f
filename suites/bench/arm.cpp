// SPDX-License-Identifier: Apache-2.0
#include "suites/bench/arm.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <tuple>

#include "suites/bench/body.h"
#include "suites/bench/serve.h"

namespace lockstep::suites {
namespace {

using Clock = std::chrono::steady_clock;

std::string ending(int status) {
  if (WIFSIGNALED(status)) return concat("was ended by signal ", WTERMSIG(status));
  return concat("ended with code ", WEXITSTATUS(status));
}

// In the child: the socket is its input and its output. Not returned from.
[[noreturn]] void become(const std::vector<std::string>& command, int socket) {
  dup2(socket, 0);
  dup2(socket, 1);
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

// What follows `word` and a blank, if the answer begins with it.
std::optional<std::string> after(const std::string& answer, const std::string& word) {
  if (answer == word) return "";
  if (!answer.starts_with(word + " ")) return std::nullopt;
  return answer.substr(word.size() + 1);
}

}  // namespace

Arm::Arm(std::vector<std::string> command, double patience)
    : command_(std::move(command)), patience_(patience) {
  auto whole = command_;
  whole.insert(whole.end(), {"bench", "--serve-rounds"});
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Broken(concat("[bench] no socket pair: ", std::strerror(errno)));
  process_ = fork();
  if (process_ == 0) become(whole, ends[1]);
  close(ends[1]);
  socket_ = ends[0];
  if (process_ < 0) throw Broken(concat("[bench] cannot start a process: ", std::strerror(errno)));
  const timeval limit{static_cast<time_t>(patience), 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (const auto greeting = line(); greeting != kBenchGreeting)
    fail(concat("greets with '", greeting.substr(0, 80), "' instead of '", kBenchGreeting, "'"));
}

Arm::~Arm() {
  if (socket_ >= 0) close(socket_);
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void Arm::fail(const std::string& what) {
  throw ArmError(
      concat("[bench] ", command_.back(), " ", what,
             "; it must be a lockstep that knows `bench --serve-rounds` in this version of the protocol"));
}

std::string Arm::line() {
  const auto until = Clock::now() + std::chrono::duration<double>(patience_);
  for (;;) {
    if (const auto end = received_.find('\n'); end != std::string::npos) {
      auto text = received_.substr(0, end);
      received_.erase(0, end + 1);
      return text;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd waiting{socket_, POLLIN, 0};
    if (left <= 0 || (poll(&waiting, 1, static_cast<int>(left)) == 0))
      fail(concat("gave no answer within ", patience_, " s"));
    char bytes[4096];
    const auto n = recv(socket_, bytes, sizeof bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      int status = 0;
      waitpid(process_, &status, 0);
      process_ = -1;
      fail(ending(status));
    }
    received_.append(bytes, static_cast<size_t>(n));
  }
}

std::string Arm::ask(const std::string& request) {
  const auto text = request + "\n";
  // A process that has gone is told by the end of its answers.
  std::ignore = send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
  auto answer = line();
  if (const auto wrong = after(answer, "wrong")) throw WrongBits(*wrong);
  if (after(answer, "unknown") || after(answer, "failed"))
    fail(concat("answers '", request, "' with '", answer, "'"));
  return answer;
}

std::vector<dashboard::Series> Arm::list() {
  std::vector<dashboard::Series> all;
  for (auto answer = ask("list"); answer != "end"; answer = line()) {
    std::istringstream words(answer);
    std::string word, kind, better;
    dashboard::Series s;
    words >> word >> kind >> better >> s.unit >> s.area;
    std::getline(words >> std::ws, s.name);
    const bool known = (kind == "counted" || kind == "timed") && (better == "more" || better == "less");
    if (word != "series" || !known || s.name.empty())
      fail(concat("lists '", answer.substr(0, 80), "', which is no series"));
    s.counted = kind == "counted";
    s.more_is_better = better == "more";
    all.push_back(std::move(s));
  }
  return all;
}

void Arm::check(const std::string& series) {
  if (const auto answer = ask("check " + series); answer != "ok")
    fail(concat("answers a check with '", answer.substr(0, 80), "'"));
}

double Arm::sample(const std::string& series, double seconds) {
  const auto answer = ask(concat("sample ", seconds, " ", series));
  const auto text = after(answer, "value").value_or("");
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') fail(concat("answers a sample with '", answer.substr(0, 80), "'"));
  return value;
}

int64_t Arm::instructions(const std::string& series) {
  const auto answer = ask("instructions " + series);
  if (answer == "none") return 0;
  const auto calls = std::atoll(after(answer, "ran").value_or("0").c_str());
  if (calls <= 0) fail(concat("answers a count of instructions with '", answer.substr(0, 80), "'"));
  return calls;
}

void Arm::quit() {
  const std::string text = "quit\n";
  std::ignore = send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
  char rest[256];
  while (recv(socket_, rest, sizeof rest, 0) > 0) continue;
  kill(process_, SIGKILL);  // one that does not end by itself
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

}  // namespace lockstep::suites
