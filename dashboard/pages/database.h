// SPDX-License-Identifier: Apache-2.0
// One database of the site: opened read-only, made ready in the background, and read anew when its file
// changes.
#pragma once
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "dashboard/pages/case_index.h"
#include "dashboard/report/shown.h"
#include "dashboard/store/store.h"

namespace lockstep::dashboard {

// A store with its views computed once and its cases indexed. One page at a time reads it.
class Snapshot {
 public:
  // Opens and checks the file. @throws StoreError.
  explicit Snapshot(const std::string& path);
  // The slow part; nothing else may be called before. Another thread may interrupt it: it then throws.
  void prepare();
  void interrupt();

  // Runs `read` alone on the database, with `shown` set to this run, or to the newest build.
  // @returns false, without a call, if there is no such run.
  bool with(std::optional<int64_t> run, const std::function<void(SQLite::Database&, const CaseIndex&)>& read);

 private:
  Store store_;
  std::mutex one_reader_;
  std::unique_ptr<Remembered> views_;
  std::unique_ptr<CaseIndex> cases_;
};

class Database {
 public:
  // @throws StoreError if the file cannot be used. Begins to prepare it.
  Database(std::string name, std::string path);
  // Stops what is under way.
  ~Database();

  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  // The newest snapshot that is ready; none while the first is being made. Looks whether the file has
  // changed, and if so, begins to read it anew.
  std::shared_ptr<Snapshot> current();
  // What people should know: that a newer state is being read, or could not be; "" otherwise.
  std::string note();
  // Waits until nothing is under way. @returns the error of the last attempt, "" if it went well.
  std::string wait();

 private:
  // Changes whenever the file does, or another takes its name; looking does not open it.
  std::string stamp() const;
  void begin(std::shared_ptr<Snapshot> next, const std::string& stamp);

  const std::string name_, path_;
  std::mutex mutex_;                             // guards all below
  std::shared_ptr<Snapshot> ready_, preparing_;  // preparing_: handed over when it is done
  std::string ready_stamp_, error_;
  std::shared_future<void> reading_;  // from the beginning: the constructor begins
  std::atomic<bool> stopping_ = false;
  double last_took_ = 0;
  double last_ended_ = 0;  // steady seconds
};

}  // namespace lockstep::dashboard
