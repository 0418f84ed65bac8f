// SPDX-License-Identifier: Apache-2.0
// The append-only journal of one worker: which case it began and which it ended. A supervisor reads it to
// learn which case took the process along.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dashboard/store/rows.h"

namespace lockstep::dashboard {

struct JournalRecord {
  enum class Kind : uint8_t { kStarted = 1, kFinished = 2 };
  Kind kind = Kind::kStarted;
  Verdict verdict = Verdict::kEqual;  // of a finished case
  uint16_t suite = 0;                 // index in the plan
  int64_t number = 0;                 // of the case in its suite
  uint64_t hash = 0;                  // of the token; 0 if the caller has none

  bool operator==(const JournalRecord&) const = default;
};

// Each record is one write(2) of 24 bytes, with a checksum and without fsync: a killed process loses nothing,
// a power failure may lose the end. Opening an existing journal continues it, after cutting off a torn last
// record.
class JournalWriter {
 public:
  explicit JournalWriter(const std::string& path);
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  void started(uint16_t suite, int64_t number, uint64_t hash = 0);
  void finished(uint16_t suite, int64_t number, Verdict verdict, uint64_t hash = 0);

 private:
  void append(const JournalRecord& record);
  std::string path_;
  int descriptor_ = -1;
};

struct Journal {
  std::vector<JournalRecord> records;
  bool torn = false;  // the last record was cut; it is not among `records`

  // The case that was started and never finished, if the last record is a start.
  std::optional<JournalRecord> open_case() const;
};

// @throws StoreError(unreadable) if the file cannot be read, (foreign) if it is no journal, (corrupt) if a
// record before the last has a wrong checksum.
Journal read_journal(const std::string& path);

}  // namespace lockstep::dashboard
