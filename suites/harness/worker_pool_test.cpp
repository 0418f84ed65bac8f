// SPDX-License-Identifier: Apache-2.0
// Each test states which fault it would catch. Real processes that really die.
#include "suites/harness/worker_pool.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <set>

#include "suites/core/heartbeat.h"

namespace lockstep::suites {
namespace {

// What workers did, visible to the test.
struct Ledger {
  std::atomic<int> runs[64];
  std::atomic<int> lost[64];
  std::atomic<int> hung;
};

Ledger* new_ledger() {
  void* memory = mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (memory) Ledger{};
}

PoolWork work_on(Ledger* ledger, std::function<void(int64_t)> body) {
  PoolWork work;
  work.begin = [](int) {};
  work.run = [ledger, body](int64_t n) {
    body(n);
    ++ledger->runs[n];
  };
  work.lost = [ledger](const Lost& l) {
    ++ledger->lost[l.number];
    ledger->hung += l.hung;
  };
  work.end = [] {};
  work.tick = [](int64_t, double) {};
  work.message = [](const std::string&) {};
  return work;
}

// Catches: a case run twice, never, or counted both as run and as lost after a crash.
TEST(WorkerPool, EveryCaseOnceThoughSomeCrash) {
  for (const int jobs : {1, 2, 3}) {
    auto* ledger = new_ledger();
    const auto result = run_pool({jobs, 40, 0, 30}, work_on(ledger, [](int64_t n) {
                                   if (n % 7 == 3) kill(getpid(), SIGSEGV);
                                   if (n == 11) _exit(0);  // a library that exits takes the case along, too
                                 }));
    EXPECT_EQ(result.claimed, 40);
    for (int n = 0; n < 40; ++n) {
      const bool dies = n % 7 == 3;
      if (n == 11) continue;
      EXPECT_EQ(ledger->runs[n], dies ? 0 : 1) << n;
      EXPECT_EQ(ledger->lost[n], dies ? 1 : 0) << n;
    }
    EXPECT_EQ(ledger->lost[11], 1);
    EXPECT_EQ(result.lost, 7);
  }
}

// Catches: a watchdog that never fires, that kills a worker which beats, or that reports a hang as a crash.
TEST(WorkerPool, KillsAHangButNotASlowCaseThatBeats) {
  auto* ledger = new_ledger();
  const auto result = run_pool({2, 6, 0, 0.6}, work_on(ledger, [](int64_t n) {
                                 if (n == 2)
                                   for (;;) usleep(1000);
                                 if (n == 4)
                                   for (int i = 0; i < 10; ++i) {
                                     usleep(120000);
                                     beat();
                                   }
                               }));
  EXPECT_EQ(result.lost, 1);
  EXPECT_EQ(ledger->lost[2], 1);
  EXPECT_EQ(ledger->hung, 1);
  EXPECT_EQ(ledger->runs[4], 1);
}

// Catches: a time limit that leaves holes in the sequence, or cuts a case.
TEST(WorkerPool, TimeRunsAPrefix) {
  auto* ledger = new_ledger();
  const auto result = run_pool({2, 64, 0.3, 30}, work_on(ledger, [](int64_t) { usleep(30000); }));
  EXPECT_GT(result.claimed, 2);
  EXPECT_LT(result.claimed, 64);
  for (int n = 0; n < 64; ++n) EXPECT_EQ(ledger->runs[n], n < result.claimed ? 1 : 0) << n;
}

// Catches: an error that a worker reports by code (full disk) being taken for a crash, or lost.
TEST(WorkerPool, AWorkersOwnCodeEndsThePool) {
  auto* ledger = new_ledger();
  std::set<std::string> messages;
  auto work = work_on(ledger, [](int64_t n) {
    if (n == 5) throw WorkerExit{7, "disk full"};
  });
  work.message = [&](const std::string& text) { messages.insert(text); };
  const auto result = run_pool({2, 64, 0, 30}, work);
  EXPECT_EQ(result.worker_code, 7);
  EXPECT_TRUE(messages.contains("disk full"));
  EXPECT_EQ(result.lost, 0);
}

// Catches: messages torn or joined on their way to the parent.
TEST(WorkerPool, MessagesArriveWhole) {
  auto* ledger = new_ledger();
  std::multiset<std::string> messages;
  auto work = work_on(ledger, [](int64_t n) { say(std::string(9000, static_cast<char>('a' + n % 26))); });
  work.message = [&](const std::string& text) { messages.insert(text); };
  run_pool({3, 26, 0, 30}, work);
  EXPECT_EQ(messages.size(), 26u);
  for (int n = 0; n < 26; ++n)
    EXPECT_EQ(messages.count(std::string(9000, static_cast<char>('a' + n))), 1u) << n;
}

}  // namespace
}  // namespace lockstep::suites
