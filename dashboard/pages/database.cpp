// SPDX-License-Identifier: Apache-2.0
#include "dashboard/pages/database.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <chrono>
#include <utility>

namespace lockstep::dashboard {

namespace {

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
    views_ = std::make_unique<Remembered>(store_.database());
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
  // An interruption between two statements is lost: it is repeated until the reading has ended.
  while (reading_.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
    const std::lock_guard lock(mutex_);
    if (preparing_) preparing_->interrupt();
  }
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
  preparing_ = std::move(next);
  const auto read = [this, stamp, snapshot = preparing_]() mutable {
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
  };
  reading_ = std::async(std::launch::async, read).share();
}

std::shared_ptr<Snapshot> Database::current() {
  const std::string seen = stamp();
  const std::lock_guard lock(mutex_);
  const bool rested = now() - last_ended_ > last_took_ * (1 / kShareOfTime - 1);
  const bool busy = reading_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  if (!busy && !stopping_ && rested && seen != ready_stamp_) begin(nullptr, seen);
  return ready_;
}

std::string Database::note() {
  const std::string seen = stamp();
  const std::lock_guard lock(mutex_);
  if (!error_.empty()) return error_;
  return ready_ && seen != ready_stamp_ ? "The file has changed; its newer state is being read." : "";
}

std::string Database::wait() {
  std::unique_lock lock(mutex_);
  const auto reading = reading_;
  lock.unlock();
  reading.wait();
  lock.lock();
  return error_;
}

}  // namespace lockstep::dashboard
