// SPDX-License-Identifier: Apache-2.0
#include "engine/context/context.h"

#include <ATen/ThreadLocalState.h>
#include <gtest/gtest.h>

#include <thread>

namespace lockstep {
namespace {

// Catches: a scope that libtorch does not carry to its own threads, where CUDA's backward passes run; one
// that outlives itself there.
TEST(ContextTest, GoesWithWhatLibtorchCarries) {
  const auto mine = std::make_shared<Context>();
  std::optional<at::ThreadLocalState> carried;
  {
    const ContextScope scope(mine);
    carried.emplace();
  }
  EXPECT_NE(current_context(), mine);
  std::thread([&] {
    {
      const at::ThreadLocalStateGuard as_in_the_engine(*carried);
      EXPECT_EQ(current_context(), mine);
    }
    EXPECT_NE(current_context(), mine);
  }).join();
}

// Catches: one Context for all threads; one that is made anew.
TEST(ContextTest, EachThreadHasItsOwn) {
  const auto mine = current_context();
  EXPECT_EQ(current_context(), mine);
  std::thread([&] { EXPECT_NE(current_context(), mine); }).join();
}

// Catches: a value that is not put back; one that is put back into another Context.
TEST(ContextTest, ASettingEndsWhereItBegan) {
  const auto outer = current_context();
  {
    const Within<bool> on(&Context::explicit_redistribution, true);
    const ContextScope elsewhere(std::make_shared<Context>());
    EXPECT_TRUE(outer->explicit_redistribution);
    EXPECT_FALSE(current_context()->explicit_redistribution);
  }
  EXPECT_FALSE(outer->explicit_redistribution);
}

// Catches: a program that names no device and draws as on another than an H100.
TEST(ContextTest, DrawsAsAnH100) {
  EXPECT_EQ(Context().generator.device, (DeviceModel{132, 2048}));
}

// Catches: a rank's thread that draws by another policy, or writes into the timeline of all.
TEST(ContextTest, AChildDrawsAsItsParentAndHasRecordedNothing) {
  Timeline timeline;
  Context parent;
  parent.generator.state = {7, 12};
  parent.policy = static_cast<RandomPolicy>(2);
  parent.timeline = &timeline;
  parent.counters.ops = 3;
  const auto child = child_of(parent);
  EXPECT_EQ(child->generator.state, parent.generator.state);
  EXPECT_EQ(child->policy, parent.policy);
  EXPECT_EQ(child->timeline, nullptr);
  EXPECT_EQ(child->counters.ops, 0);
}

// Catches: a thread that holds a Context when its operator has ended.
TEST(ContextTest, OneThreadAfterTheOtherMayUseIt) {
  Context context;
  { const ContextUse use(context); }
  EXPECT_EQ(context.user.load(), std::thread::id());
  std::thread([&] { EXPECT_NO_THROW(ContextUse{context}); }).join();
}

// Catches: two threads in one Context, whose caches and numbers they would race for.
TEST(ContextTest, TwoThreadsAtOnceAreAnError) {
  Context context;
  const ContextUse use(context);
  EXPECT_NO_THROW(ContextUse{context});
  std::string error;
  std::thread([&] {
    try {
      const ContextUse too(context);
    } catch (const std::exception& e) {
      error = e.what();
    }
  }).join();
  EXPECT_NE(error.find("two threads"), std::string::npos) << error;
  EXPECT_EQ(context.user.load(), std::this_thread::get_id());
}

}  // namespace
}  // namespace lockstep
