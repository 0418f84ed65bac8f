// SPDX-License-Identifier: Apache-2.0
#include "suites/bench/serve.h"

#include <cstdio>
#include <istream>
#include <map>
#include <ostream>
#include <sstream>

// A tool that counts instructions is told to look at this function alone.
extern "C" __attribute__((noinline)) void lockstep_bench_instructions(const std::function<void()>& action,
                                                                      int calls) {
  for (int i = 0; i < calls; ++i) action();
}

namespace lockstep::suites {
namespace {

constexpr int kWarmCalls = 4, kCalls = 8;

std::string one_line(std::string text) {
  for (auto& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

class Server {
 public:
  Server(const Bodies& all, std::ostream& out) : out_(out) {
    for (const auto& body : all) bodies_[body.series.name] = &body;
  }

  // Takes what stands behind a request's first word.
  void answer(const std::string& request, std::istream& rest) {
    double seconds = 0;
    if (request == "sample") rest >> seconds;
    std::string name;
    std::getline(rest >> std::ws, name);
    const auto found = bodies_.find(name);
    if (found == bodies_.end()) {
      out_ << "unknown " << name;
      return;
    }
    try {
      answer(request, prepared(*found->second), seconds);
    } catch (const WrongBits& e) {
      out_ << "wrong " << one_line(e.what());
    } catch (const std::exception& e) {
      out_ << "failed " << one_line(e.what());
    }
  }

 private:
  const Prepared& prepared(const Body& body) {
    auto& slot = prepared_[body.series.name];
    if (!slot.sample) slot = body.prepare();
    return slot;
  }

  void answer(const std::string& request, const Prepared& body, double seconds) {
    if (request == "check") {
      body.check();
      out_ << "ok";
    } else if (request == "sample") {
      char text[64];
      std::snprintf(text, sizeof text, "value %a", body.sample(seconds));
      out_ << text;
    } else if (request == "instructions" && !body.once) {
      out_ << "none";
    } else if (request == "instructions") {
      for (int i = 0; i < kWarmCalls; ++i) body.once();
      lockstep_bench_instructions(body.once, kCalls);
      out_ << "ran " << kCalls;
    } else {
      out_ << "failed no such request: " << request;
    }
  }

  std::map<std::string, const Body*> bodies_;
  std::map<std::string, Prepared> prepared_;
  std::ostream& out_;
};

void list(const Bodies& all, std::ostream& out) {
  for (const auto& [s, prepare] : all)
    out << "series " << (s.counted ? "counted" : "timed") << (s.more_is_better ? " more " : " less ")
        << s.unit << ' ' << s.area << ' ' << s.name << '\n';
  out << "end";
}

}  // namespace

void serve(const Bodies& all, std::istream& in, std::ostream& out) {
  Server server(all, out);
  out << kBenchGreeting << std::endl;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string request;
    words >> request;
    if (request == "quit") return;
    if (request == "list")
      list(all, out);
    else
      server.answer(request, words);
    out << std::endl;
  }
}

}  // namespace lockstep::suites
