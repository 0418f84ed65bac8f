// SPDX-License-Identifier: Apache-2.0
// kill -9 at random moments: what was committed stays, and no case is half there.
#include <fcntl.h>
#include <unistd.h>

#include <random>

#include "dashboard/store/testing.h"
#include "dashboard/store/testing_process.h"

namespace lockstep::dashboard {
namespace {

using testing::count;
using testing::sample_case;
using testing::sample_run;
using testing::TemporaryFolder;

int64_t last_number_in(const std::string& path) {
  const std::string bytes = testing::read_file(path);
  int64_t number = 0;
  if (bytes.size() >= sizeof(number)) {
    std::copy_n(bytes.end() - static_cast<std::ptrdiff_t>(bytes.size() % sizeof(number) + sizeof(number)),
                sizeof(number), reinterpret_cast<char*>(&number));
  }
  return number;
}

// Records cases for ever, writing after each commit how many are acknowledged.
void write_for_ever(const TemporaryFolder& folder, const char* worker) {
  const int acknowledged = open((folder / "acknowledged").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  Store store = Store::open_writer(folder / "a.db");
  Recorder recorder(store, sample_run(), worker);
  for (int64_t n = static_cast<int64_t>(recorder.recorded_numbers("ops").size());; ++n) {
    recorder.record(sample_case(n, Verdict::kExplained));
    if (n % 16) continue;
    recorder.flush();
    const int64_t done = n + 1;
    if (write(acknowledged, &done, sizeof(done)) != sizeof(done)) _exit(1);
  }
}

// Catches: a commit that is reported before it is durable, a case without its differences or its coverage, a
// resumed run that begins anew.
TEST(Kill, NothingCommittedIsLost) {
  const TemporaryFolder folder;
  std::mt19937 random(11);
  int64_t before = 0;
  unsigned slowness = 1;  // a writer that commits nothing before it is killed gets more time
  for (int i = 0; i < 20; ++i) {
    testing::kill_after(slowness * (3000 + static_cast<unsigned>(random() % 60000)),
                        [&] { write_for_ever(folder, "w"); });
    if (!std::filesystem::exists(folder / "a.db")) {  // killed before its name existed
      slowness = std::min(slowness * 2, 16u);
      continue;
    }
    const Store store = Store::open_reader(folder / "a.db");
    const int64_t cases = count(store, "cases");
    EXPECT_GE(cases, last_number_in(folder / "acknowledged"));
    EXPECT_GE(cases, before);
    EXPECT_EQ(count(store, "tensor_diff"), cases);
    EXPECT_EQ(count(store, "v_coverage WHERE hits = " + std::to_string(cases)), cases ? 1 : 0);
    EXPECT_EQ(store.database().execAndGet("PRAGMA integrity_check").getString(), "ok");
    if (cases == before) slowness = std::min(slowness * 2, 16u);
    before = cases;
  }
  EXPECT_GT(before, 100);
}

}  // namespace
}  // namespace lockstep::dashboard
