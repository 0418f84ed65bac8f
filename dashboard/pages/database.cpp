// SPDX-License-Identifier: Apache-2.0
#include "dashboard/pages/database.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <chrono>
#include <utility>

namespace lockstep::dashboard {

namespace {

// In the order in which they build on one another.
constexpr const char* kOnce[] = {"v_verdicts",      "v_summary", "v_plan",        "v_nondeterminism",
                                 "v_failures",      "v_matrix",  "v_coverage",    "v_labels",
                                 "v_coverage_gaps", "v_commits", "v_buckets",     "v_throughput",
                                 "v_series",        "v_curves",  "v_curve_steps", "v_curve_diff"};

// A file that is being written changes all the time: reading it anew may take this share of the time.
constexpr double kShareOfTime = 0.2;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Snapshot::Snapshot(const std::string& path) : store_(Store::open_reader(path)) {}

void Snapshot::prepare() {
  const std::lock_guard lock(one_reader_);
  try {
    views_ = std::make_unique<Remembered>(store_.database(), kOnce);
    cases_ = std::make_unique<CaseIndex>(store_.database());
  } catch (const SQLite::Exception&) {
    rethrow_as_store_error(store_.path());
  }
}

void Snapshot::interrupt() {
  sqlite3_interrupt(store_.database().getHandle());
}

bool Snapshot::with(std::optional<int64_t> run,
                    const std::function<void(SQLite::Database&, const CaseIndex&)>& read) {
  const std::lock_guard lock(one_reader_);
  try {
    if (!run) show_newest_build(store_.database());
    if (run && !show_run(store_.database(), *run)) return false;
    read(store_.database(), *cases_);
    return true;
  } catch (const SQLite::Exception&) {
    rethrow_as_store_error(store_.path());
  }
}

Database::Database(std::string name, std::string path) : name_(std::move(name)), path_(std::move(path)) {
  const std::string seen = stamp();
  auto first = std::make_shared<Snapshot>(path_);
  const std::lock_guard lock(mutex_);
  begin(std::move(first), seen);
}

Database::~Database() {
  stopping_ = true;
  // An interruption between two statements is lost: it is repeated until the worker has ended.
  for (bool busy = true; busy;) {
    {
      const std::lock_guard lock(mutex_);
      busy = busy_;
      if (preparing_) preparing_->interrupt();
    }
    if (busy) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (worker_.joinable()) worker_.join();
}

std::string Database::stamp() const {
  struct stat found {};
  if (stat(path_.c_str(), &found) != 0) return "none";
  return std::to_string(found.st_dev) + ":" + std::to_string(found.st_ino) + ":" +
         std::to_string(found.st_size) + ":" + std::to_string(found.st_mtim.tv_sec) + ":" +
         std::to_string(found.st_mtim.tv_nsec);
}

// @pre mutex_ is held and nothing is under way. `next`: opened, or empty to open the file first.
void Database::begin(std::shared_ptr<Snapshot> next, const std::string& stamp) {
  if (worker_.joinable()) worker_.join();
  preparing_ = std::move(next);
  worker_ = std::thread([this, stamp, snapshot = preparing_]() mutable {
    const double began = now();
    std::string error;
    try {
      if (!snapshot) {
        snapshot = std::make_shared<Snapshot>(path_);
        const std::lock_guard lock(mutex_);
        preparing_ = snapshot;
      }
      if (!stopping_) snapshot->prepare();
    } catch (const std::exception& e) {
      error = e.what();
    }
    const std::lock_guard lock(mutex_);
    preparing_ = nullptr;
    error_ = error;
    ready_stamp_ = stamp;  // of a file that cannot be read too: it is tried again when it changes
    if (error.empty()) ready_ = snapshot;
    last_ended_ = now();
    last_took_ = last_ended_ - began;
    busy_ = false;
  });
}

std::shared_ptr<Snapshot> Database::current() {
  const std::string seen = stamp();
  const std::lock_guard lock(mutex_);
  const bool rested = now() - last_ended_ > last_took_ * (1 / kShareOfTime - 1);
  if (!busy_ && !stopping_ && rested && seen != ready_stamp_) {
    busy_ = true;
    begin(nullptr, seen);
  }
  return ready_;
}

std::string Database::note() {
  const std::string seen = stamp();
  const std::lock_guard lock(mutex_);
  if (!error_.empty()) return error_;
  return ready_ && seen != ready_stamp_ ? "The file has changed; its newer state is being read." : "";
}

std::string Database::wait() {
  std::thread worker;
  {
    const std::lock_guard lock(mutex_);
    worker.swap(worker_);
  }
  if (worker.joinable()) worker.join();
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace lockstep::dashboard
