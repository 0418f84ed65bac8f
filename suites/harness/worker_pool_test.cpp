// SPDX-License-Identifier: Apache-2.0
// Each test states which fault it would catch. Real processes that really die: this program once more, in
// which the test Worker runs instead of the others.
#include "suites/harness/worker_pool.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "engine/values/error.h"
#include "suites/core/heartbeat.h"
#include "suites/core/spawn.h"

namespace lockstep::suites {
namespace {

// What workers did, visible to the test.
struct Ledger {
  std::atomic<int> begun[64];
  std::atomic<int> runs[64];
  std::atomic<int> saved[64];  // became durable
  std::atomic<int> lost[64];
  std::atomic<int> hung;
};

Ledger* map(int file) {
  void* memory = mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  LOCKSTEP_CHECK(memory != MAP_FAILED, "no ledger");
  return static_cast<Ledger*>(memory);
}

// A pool whose workers do what `body` names below.
struct Trial {
  Trial(const PoolOptions& options, const std::string& body) {
    const int file = memfd_create("ledger", 0);
    LOCKSTEP_CHECK(file >= 0 && ftruncate(file, sizeof(Ledger)) == 0, "no ledger");
    ledger = map(file);
    const auto job = concat(body, " /proc/", getpid(), "/fd/", file);
    const PoolListener listener{[&](int64_t n, double) { done = n; },
                                [&](const std::string& text) { messages.insert(text); }};
    result = run_pool(options, {kThisProgram, "--gtest_filter=*Worker", "--gtest_also_run_disabled_tests"},
                      job, listener);
    close(file);
  }
  Ledger* ledger;
  std::multiset<std::string> messages;
  PoolResult result;
  int64_t done = 0;
};

int touched = 0;  // by the parent
Ledger* seen;     // in a worker
std::vector<int64_t> open_batch;

void save() {
  for (const auto n : open_batch) ++seen->saved[n];
  open_batch.clear();
}

void record(int64_t n, bool saved) {
  open_batch.push_back(n);
  if (saved) save();
  settled(saved);
}

// 6 takes 1 to 6 along, in the place of which 5 is saved.
void leaves_six(int64_t n) {
  const bool first = seen->begun[n] == 1;
  record(n, n % 8 == 0 || (n == 5 && !first));
  if (n == 6 && first) kill(getpid(), SIGKILL);
}

using Body = void (*)(int64_t);
const std::map<std::string, Body> kBodies = {
    {"crash",
     [](int64_t n) {
       if (n % 7 == 3) kill(getpid(), SIGSEGV);
       if (n == 11) _exit(0);  // a library that exits takes the case along, too
     }},
    {"hang",
     [](int64_t n) {
       if (n == 2)
         for (;;) usleep(1000);
       if (n == 4)
         for (int i = 0; i < 10; ++i) {
           usleep(120000);
           beat();
         }
     }},
    {"cannot be told",
     [](int64_t n) {
       if (n == 3 || n == 4) kill(getpid(), SIGSEGV);
     }},
    {"slow", [](int64_t) { usleep(200000); }},
    {"full disk",
     [](int64_t n) {
       if (n == 5) throw WorkerExit{7, "disk full"};
     }},
    {"unsaved",
     [](int64_t n) {
       record(n, n % 4 == 0);
       if (n == 10 && seen->begun[n] == 1) kill(getpid(), SIGKILL);
     }},
    {"hangs again",
     [](int64_t n) {
       const bool again = seen->begun[n] > 1;
       if (n == 4 && again) usleep(3000000);
       leaves_six(n);
     }},
    {"dies again",
     [](int64_t n) {
       const bool again = seen->begun[n] > 1;
       leaves_six(n);
       if ((n == 5 || n == 2) && again) kill(getpid(), SIGKILL);
     }},
    {"stop",
     [](int64_t n) {
       if (n == 3) stop_pool();
     }},
    {"talk", [](int64_t n) { say(std::string(9000, static_cast<char>('a' + n % 26))); }},
    {"nested",
     [](int64_t) {
       try {
         run_pool({1, 1, 0, 30}, {"/bin/true"}, "", {[](auto&&...) {}, [](auto&&...) {}});
       } catch (const Broken& e) {
         say(e.what());
       }
     }},
    {"fresh",
     [](int64_t) {
       std::ifstream status("/proc/self/status");
       for (std::string line; std::getline(status, line);)
         if (line.starts_with("Threads:")) say(concat(touched, " ", line));
     }},
};

// Not a test: what a worker of a Trial does.
TEST(WorkerPool, DISABLED_Worker) {
  if (!called_to_pool()) GTEST_SKIP() << "not started as a worker";
  const auto job = join_pool();
  const auto space = job.rfind(' ');
  auto* file = std::fopen(job.substr(space + 1).c_str(), "r+");
  auto* ledger = seen = map(fileno(file));
  const auto body = kBodies.at(job.substr(0, space));
  work_in_pool({.begin = [](int, bool) {},
                .run =
                    [&](int64_t n) {
                      ++ledger->begun[n];
                      body(n);
                      ++ledger->runs[n];
                    },
                .lost =
                    [&](const Lost& l) {
                      if (job.starts_with("cannot be told") && !l.again) kill(getpid(), SIGSEGV);
                      ++ledger->lost[l.number];
                      if (job.starts_with("cannot be told") && l.number == 4) {
                        settled(true);
                        kill(getpid(), SIGSEGV);
                      }
                      ledger->hung += l.hung;
                    },
                .save = save});
}

// Catches: a worker's word that is not heard, or that costs the case in which it fell.
TEST(WorkerPool, StopsWhereAWorkerSaysSo) {
  const Trial trial({1, 40, 0, 30}, "stop");
  EXPECT_TRUE(trial.result.stopped);
  EXPECT_EQ(trial.result.claimed, 4);
  for (int n = 0; n < 40; ++n) EXPECT_EQ(trial.ledger->runs[n], n < 4 ? 1 : 0) << n;
}

// Catches: a case run twice, never, or counted both as run and as lost after a crash.
TEST(WorkerPool, EveryCaseOnceThoughSomeCrash) {
  for (const int jobs : {1, 2, 3}) {
    const Trial trial({jobs, 40, 0, 30}, "crash");
    EXPECT_EQ(trial.result.claimed, 40);
    for (int n = 0; n < 40; ++n) {
      const bool dies = n % 7 == 3;
      if (n == 11) continue;
      EXPECT_EQ(trial.ledger->runs[n], dies ? 0 : 1) << n;
      EXPECT_EQ(trial.ledger->lost[n], dies ? 1 : 0) << n;
    }
    EXPECT_EQ(trial.ledger->lost[11], 1);
    EXPECT_EQ(trial.result.lost, 7);
  }
}

// Catches: a case that takes along who is to tell of it too, so that nobody does, and the run is green
// without it; one that was recorded before its teller died, told twice.
TEST(WorkerPool, ALossIsToldThoughItTakesItsTellerAlong) {
  for (const int jobs : {1, 2}) {
    const Trial trial({jobs, 40, 0, 30}, "cannot be told");
    EXPECT_EQ(trial.result.claimed, 40);
    EXPECT_EQ(trial.result.lost, 2);
    for (int n = 0; n < 40; ++n) EXPECT_EQ(trial.ledger->lost[n], n == 3 || n == 4 ? 1 : 0) << n;
  }
}

// Catches: a recorded case that is gone with its worker, or that counts as lost; one that is run again
// although it was durable.
TEST(WorkerPool, WhatWasNotSavedIsRunAgain) {
  const Trial trial({1, 14, 0, 30}, "unsaved");
  for (int n = 0; n < 14; ++n) EXPECT_EQ(trial.ledger->runs[n], n == 9 ? 2 : 1) << n;
  EXPECT_EQ(trial.result.lost, 0);
}

// Catches: a case that hangs or dies when it is run again, and nobody is told; one that is gone with the
// worker that ran it again; one that is done twice, lost though it was durable, or run a third time.
TEST(WorkerPool, WhatIsRunAgainMayTakeItsWorkerAlong) {
  for (const auto& [body, victim] : {std::pair("hangs again", 4), std::pair("dies again", 2)}) {
    const Trial trial({1, 12, 0, 0.6}, body);
    for (int n = 0; n < 12; ++n) {
      EXPECT_EQ(trial.ledger->lost[n], n == victim ? 1 : 0) << body << " " << n;
      EXPECT_EQ(trial.ledger->saved[n], n == victim ? 0 : 1) << body << " " << n;
    }
    EXPECT_EQ(trial.ledger->begun[5], 2) << body;
    EXPECT_EQ(trial.ledger->begun[6], 2) << body;
    EXPECT_EQ(trial.ledger->hung, victim == 4 ? 1 : 0);
    EXPECT_EQ(trial.result.lost, 1);
    EXPECT_EQ(trial.done, 12);
  }
}

// Catches: a watchdog that never fires, that kills a worker which beats, or that reports a hang as a crash.
TEST(WorkerPool, KillsAHangButNotASlowCaseThatBeats) {
  const Trial trial({2, 6, 0, 0.6}, "hang");
  EXPECT_EQ(trial.result.lost, 1);
  EXPECT_EQ(trial.ledger->lost[2], 1);
  EXPECT_EQ(trial.ledger->hung, 1);
  EXPECT_EQ(trial.ledger->runs[4], 1);
}

// Catches: a time limit that leaves holes in the sequence, or cuts a case.
TEST(WorkerPool, TimeRunsAPrefix) {
  const Trial trial({2, 64, 5, 30}, "slow");
  EXPECT_GT(trial.result.claimed, 2);
  EXPECT_LT(trial.result.claimed, 64);
  for (int n = 0; n < 64; ++n) EXPECT_EQ(trial.ledger->runs[n], n < trial.result.claimed ? 1 : 0) << n;
}

// Catches: an error that a worker reports by code (full disk) being taken for a crash, or lost.
TEST(WorkerPool, AWorkersOwnCodeEndsThePool) {
  const Trial trial({2, 64, 0, 30}, "full disk");
  EXPECT_EQ(trial.result.worker_code, 7);
  EXPECT_TRUE(trial.messages.contains("disk full"));
  EXPECT_EQ(trial.result.lost, 0);
}

// Catches: messages torn or joined on their way to the parent.
TEST(WorkerPool, MessagesArriveWhole) {
  const Trial trial({3, 26, 0, 30}, "talk");
  EXPECT_EQ(trial.messages.size(), 26u);
  for (int n = 0; n < 26; ++n)
    EXPECT_EQ(trial.messages.count(std::string(9000, static_cast<char>('a' + n))), 1u) << n;
}

// Catches: a worker that has what this process made of itself: its threads' state, its statics, its devices.
TEST(WorkerPool, AWorkerIsAFreshProcess) {
  touched = 1;
  std::atomic<bool> done = false;
  std::jthread other([&] {
    while (!done) usleep(1000);
  });
  const Trial trial({1, 1, 0, 30}, "fresh");
  done = true;
  EXPECT_EQ(trial.messages, std::multiset<std::string>{"0 Threads:\t1"});
}

// Catches: a pool that waits for, or starts forever, a program that is no worker.
TEST(WorkerPool, AProgramThatDoesNotJoinIsAnError) {
  const PoolListener deaf{[](int64_t, double) {}, [](const std::string&) {}};
  EXPECT_THROW(run_pool({1, 1, 0, 30}, {"/bin/true"}, "", deaf), Broken);
  EXPECT_THROW(run_pool({1, 1, 0, 30}, {"/nosuch"}, "", deaf), Broken);
}

// Catches: a program that is started as a worker, does not know it, and starts workers that do not know it.
TEST(WorkerPool, AWorkerStartsNoPool) {
  const Trial trial({1, 1, 0, 30}, "nested");
  ASSERT_EQ(trial.messages.size(), 1u);
  EXPECT_NE(trial.messages.begin()->find("must call join_pool"), std::string::npos)
      << *trial.messages.begin();
}

// Catches: a process that takes any place for one, and writes into what it happens to have open.
TEST(WorkerPool, AWrongPlaceIsAnError) {
  EXPECT_FALSE(called_to_pool());
  EXPECT_THROW(join_pool(), Error);
  for (const auto* place : {"", "0", "x y z", "0 999 1", "-1 0 1", "0 0 1", "256 0 1"}) {
    setenv("LOCKSTEP_POOL", place, 1);
    EXPECT_THROW(join_pool(), Error) << place;
  }
  unsetenv("LOCKSTEP_POOL");
}

}  // namespace
}  // namespace lockstep::suites
