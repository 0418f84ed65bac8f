// SPDX-License-Identifier: Apache-2.0
// Breakpoints, with commands that a pipe has and answers in a text.
#include "engine/debug/breakpoint.h"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <mutex>
#include <sstream>
#include <thread>

#include "engine/debug/testing.h"
#include "engine/world/thread_world.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

// What was typed, to its end.
class Typed {
 public:
  explicit Typed(const std::string& commands) {
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], commands.data(), commands.size()) != std::ssize(commands))
      throw Error("no pipe");
    close(ends[1]);
    in = ends[0];
  }
  ~Typed() { close(in); }
  Typed(const Typed&) = delete;
  Typed& operator=(const Typed&) = delete;

  int in = -1;
};

// The answers to commands where a tensor of two ranks can be seen.
std::string answers(const std::string& commands) {
  const auto mesh = two_ranks();
  const Typed typed(commands);
  std::ostringstream out;
  debug::Console console(typed.in, out);
  const auto x = distribute_tensor(ramp({4, 3}), mesh, {Shard{0}});
  const auto cube = distribute_tensor(ramp({2, 2, 4}), mesh, {Shard{2}});
  console.ask(
      {"here", {{"x", x}, {"cube", cube}, {"plain", ramp({3})}, {"none", {}}}, {"Net", "fc1 (Linear)"}, {}});
  return out.str();
}

// Catches: a command that says nothing, or of another tensor; values of another rank.
TEST(Console, ShowsTensorsLocalsAndLayouts) {
  EXPECT_TRUE(says(answers(""), {"stopped here; help lists the commands", "(lockstep) "}));
  EXPECT_TRUE(says(answers("list"), {"x: f32[4x3]@[S0]\n", "plain: f32[3], plain\n", "none: undefined\n"}));
  EXPECT_TRUE(says(answers("show x\n"), {"shape [4x3], dtype f32, strides [3x1]",
                                         "mesh tp:2, placements [S0]", "rank 1 at (1): local shape [2x3]"}));
  const auto first = answers("local x 0\n"), second = answers("local x 1\n");
  EXPECT_TRUE(says(first, {"-7", "CPUFloatType{2,3}"})) << first;
  EXPECT_TRUE(says(second, {"-1", "4", "CPUFloatType{2,3}"})) << second;
  EXPECT_EQ(second.find("-7"), std::string::npos);
  EXPECT_TRUE(says(answers("local plain 0\n"), {"plain tensor", "-7", "CPUFloatType{3}"}));
  EXPECT_TRUE(says(answers("layout x\n"), {"rows 0-1", "rows 2-3"}));
  EXPECT_TRUE(
      says(answers("layout cube\n"), {"rank 0 holds [0:2, 0:2, 0:2]", "rank 1 holds [0:2, 0:2, 2:4]"}));
  EXPECT_TRUE(says(answers("stack\n"), {"Net\nfc1 (Linear)\n"}));
  for (const char* command :
       {"list", "show NAME", "local NAME RANK", "layout NAME", "stack", "continue", "detach", "quit", "help"})
    EXPECT_TRUE(says(answers("help\n"), {command}));
}

// Catches: a large tensor that floods the terminal.
TEST(Console, ShowsTheFirstElementsOfALargeLocal) {
  const Typed typed("local x 0\n");
  std::ostringstream out;
  debug::Console console(typed.in, out);
  console.ask({"here", {{"x", at::zeros({100, 100})}}, {}, {}});
  EXPECT_TRUE(says(out.str(), {"the first 8 along each dimension", "CPUFloatType{8,8}"}));
}

// Catches: a mistake that ends the program, or is told without what may have been meant.
TEST(Console, NamesMistakesAndGoesOn) {
  const std::pair<const char*, std::vector<std::string>> mistakes[] = {
      {"shw x", {"no command 'shw'", "did you mean 'show'?"}},
      {"l x", {"several begin with 'l'"}},
      {"show", {"0 words after show; write: show NAME"}},
      {"stack x", {"1 words after stack; write: stack"}},
      {"show plan", {"no tensor 'plan'", "did you mean 'plain'?"}},
      {"local x one", {"'one' is no rank; write for example: local x 0"}},
      {"local x 7", {"rank 7 is not in the mesh tp:2", "which has the ranks 0,1"}},
      {"local none 0", {"'none' is undefined"}},
      {"layout plain", {"'plain' is no DTensor"}},
  };
  for (const auto& [typed, parts] : mistakes) {
    const auto said = answers(concat(typed, "\nstack\n"));
    for (const auto& part : parts) EXPECT_NE(said.find(part), std::string::npos) << part << "\n" << said;
    EXPECT_TRUE(says(said, {"fc1 (Linear)"})) << typed;
  }
}

// Catches: an end of input that blocks, ends the program, or stops again; commands that are lost when several
// are read at once; a line without its end that is not heard.
TEST(Console, EndsAsItIsTold) {
  const std::pair<const char*, debug::GoOn> ends[] = {
      {"continue\n", debug::GoOn::kContinue},
      {"c\n", debug::GoOn::kContinue},
      {"\n\nq", debug::GoOn::kQuit},
      {"quit\n", debug::GoOn::kQuit},
      {"", debug::GoOn::kDetach},
      {"stack", debug::GoOn::kDetach},
  };
  for (const auto& [commands, end] : ends) {
    const Typed typed(commands);
    std::ostringstream out;
    EXPECT_EQ(debug::Console(typed.in, out).ask({"here", {}, {}, {}}), end) << commands;
  }
  const Typed typed("c\nq\n");
  std::ostringstream out;
  debug::Console console(typed.in, out);
  EXPECT_EQ(console.ask({"here", {}, {}, {}}), debug::GoOn::kContinue);
  EXPECT_EQ(console.ask({"there", {}, {}, {}}), debug::GoOn::kQuit);
}

// Catches: a stop after the forward, or once only; other inputs than the module is given; a stop that changes
// bits.
TEST(BreakAt, StopsBeforeEachCallOfTheModule) {
  const auto mesh = two_ranks();
  Net net, other;
  place(net, mesh);
  place(other, mesh);
  const Typed typed("show inputs.0\nstack\nc\nlist\ndetach\n");
  std::ostringstream out;
  debug::Console console(typed.in, out);
  break_at(net, "fc2", console);
  for (int i = 0; i < 3; ++i) step(net, rows(mesh)), step(other, rows(mesh));
  const auto said = out.str();
  EXPECT_TRUE(says(said, {"stopped before fc2 (Linear)", "inputs.0: f32[8x6]@[S0]", "Net\nfc2 (Linear)\n",
                          "fc1.weight: f32[6x4]@[S0]\n"}))
      << said;
  size_t stops = 0;
  for (size_t at = said.find("stopped"); at != std::string::npos; at = said.find("stopped", at + 1)) ++stops;
  EXPECT_EQ(stops, 2U);
  EXPECT_TRUE(at::equal(full_tensor(net.fc1->parameter("weight").grad()),
                        full_tensor(other.fc1->parameter("weight").grad())));
}

// Catches: ranks that go on while one stops, ask on a terminal of their own, or give another one's local; a
// rank that does not hear `quit`.
TEST(BreakAt, AllRanksStopAndOneAsks) {
  const Typed typed("local fc1.weight 1\nlocal fc1.weight 0\nlocal fc2.weight 1\nnosuch\nquit\n");
  std::mutex together;
  int64_t quits = 0;
  std::string expected, said;
  run_on_threads(2, std::chrono::seconds(20), [&](const WorldPtr& world) {
    const auto mesh = two_ranks(world);
    Net net;
    place(net, mesh);
    std::ostringstream out;
    debug::Console console(typed.in, out);
    break_at(net, "fc1", console);
    bool quit = false;
    try {
      net(rows(mesh));
    } catch (const QuitAtBreakpoint&) {
      quit = true;
    }
    const std::scoped_lock lock(together);
    quits += quit ? 1 : 0;
    if (world->hosted()[0] == 0) {
      said = out.str();
    } else {
      std::ostringstream local;
      local << local_tensors(net.fc1->parameter("weight"))[0].detach();
      expected = local.str();
      EXPECT_EQ(out.str(), "");
    }
  });
  EXPECT_EQ(quits, 2);
  EXPECT_TRUE(says(said, {expected.c_str(), "CPUFloatType{4,6}", "there is no command 'nosuch'"})) << said;
}

// Catches: ranks that wait longer than a World's patience for somebody who thinks, and are called lost.
TEST(BreakAt, OthersWaitForAsLongAsItTakes) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::thread slow([end = ends[1]] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    close(end);
  });
  run_on_threads(2, std::chrono::seconds(1), [&](const WorldPtr& world) {
    const auto mesh = two_ranks(world);
    Net net;
    place(net, mesh);
    std::ostringstream out;
    debug::Console console(ends[0], out);
    break_at(net, "", console);
    EXPECT_NO_THROW(net(rows(mesh)));
  });
  slow.join();
  close(ends[0]);
}

struct Stops : nn::Module {
  Stops() { inner = add_child("inner", std::make_shared<nn::Linear>(4, 4, false)); }
  at::Tensor forward(const nn::Tensors& in) override {
    const auto h = (*inner)(in.at(0));
    breakpoint({{"h", h}});
    return h;
  }
  std::shared_ptr<nn::Linear> inner;
};

// While alive, the process's standard input is what was typed, and its output a text.
class Terminal {
 public:
  explicit Terminal(const std::string& commands) : typed_(commands), was_(dup(STDIN_FILENO)) {
    dup2(typed_.in, STDIN_FILENO);
    cout_ = std::cout.rdbuf(out.rdbuf());
  }
  ~Terminal() {
    std::cout.rdbuf(cout_);
    dup2(was_, STDIN_FILENO);
    close(was_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::ostringstream out;

 private:
  Typed typed_;
  int was_;
  std::streambuf* cout_;
};

// Catches: a stop without what the program named, or what the model has; one that goes on after `detach`; a
// `quit` that does not end the forward.
TEST(Breakpoint, StopsAForwardThatCallsIt) {
  const auto mesh = two_ranks();
  Stops model;
  distribute_module(model, mesh, {});
  manual_seed(3);
  nn::reset_parameters(model);
  const auto calls = [&](int64_t n) {
    int64_t done = 0;
    // A thread of its own, since `detach` is of one.
    std::thread([&] {
      try {
        for (; done < n; ++done) model(rows(mesh));
      } catch (const QuitAtBreakpoint&) {
      }
    }).join();
    return done;
  };
  {
    Terminal terminal("list\nstack\nc\nshow h\ndetach\nquit\n");
    EXPECT_EQ(calls(3), 3);
    EXPECT_TRUE(says(terminal.out.str(), {"at a breakpoint in Stops", "h: f32[8x4]@[R]\n",
                                          "inner.weight: f32[4x4]@[R]\n", "mesh tp:2, placements [R]"}))
        << terminal.out.str();
  }
  // The console has read `quit` already.
  Terminal terminal("");
  EXPECT_EQ(calls(3), 0);
}

// Catches: a module that is none, found when it is too late; breakpoint() without anything to stop.
TEST(BreakAt, NamesMistakes) {
  Net net;
  EXPECT_TRUE(says(error_of([&] { break_at(net, "fc3"); }), {"no module 'fc3'", "fc1"}));
  EXPECT_TRUE(
      says(error_of([] { breakpoint(); }), {"no DTensor is given", "write breakpoint({{\"x\", x}})"}));
}

}  // namespace
}  // namespace lockstep
