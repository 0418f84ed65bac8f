// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "dashboard/store/output_file.h"
#include "dashboard/store/store.h"

namespace lockstep::dashboard {

namespace {

using Kind = StoreError::Kind;

// The file: 8 bytes of magic, then records of 24 bytes in the processor's byte order.
constexpr char kMagic[8] = {'L', 'O', 'C', 'K', 'J', 'N', 'L', '1'};
constexpr off_t kMagicSize = sizeof(kMagic);

struct Packed {
  uint8_t kind, verdict;
  uint16_t suite;
  uint32_t checksum;
  int64_t number;
  uint64_t hash;
};
static_assert(sizeof(Packed) == 24);

// FNV-1a over all other bytes.
uint32_t checksum_of(Packed p) {
  p.checksum = 0;
  unsigned char bytes[sizeof(Packed)];
  std::memcpy(bytes, &p, sizeof(p));
  uint32_t hash = 0x811c9dc5;
  for (unsigned char b : bytes) hash = (hash ^ b) * 0x01000193;
  return hash;
}

[[noreturn]] void fail(Kind kind, const std::string& path, const std::string& what) {
  throw StoreError(kind, "[journal] " + path + ": " + what);
}

void put(int descriptor, const void* data, size_t size, const std::string& path) {
  if (!write_all(descriptor, {static_cast<const char*>(data), size}))
    fail(kind_of_errno(errno), path,
         std::string(std::strerror(errno)) + "; make room, or choose another folder");
}

}  // namespace

JournalWriter::JournalWriter(const std::string& path) : path_(path) {
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    fail(kind_of_errno(errno), path,
         std::string(std::strerror(errno)) + "; choose a folder that may be written");
  }
  try {
    const off_t size = lseek(descriptor_, 0, SEEK_END);
    const size_t records = read_journal(path).records.size();
    const off_t whole = size < kMagicSize ? 0 : kMagicSize + static_cast<off_t>(records * sizeof(Packed));
    if (size != whole && ftruncate(descriptor_, whole) != 0)
      fail(kind_of_errno(errno), path, std::strerror(errno));
    if (whole == 0) put(descriptor_, kMagic, sizeof(kMagic), path);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

JournalWriter::~JournalWriter() {
  close(descriptor_);
}

void JournalWriter::append(const JournalRecord& r) {
  Packed p{static_cast<uint8_t>(r.kind), static_cast<uint8_t>(r.verdict), r.suite, 0, r.number, r.hash};
  p.checksum = checksum_of(p);
  put(descriptor_, &p, sizeof(p), path_);
}

void JournalWriter::started(uint16_t suite, int64_t number, uint64_t hash) {
  append({JournalRecord::Kind::kStarted, Verdict::kEqual, suite, number, hash});
}

void JournalWriter::finished(uint16_t suite, int64_t number, Verdict verdict, uint64_t hash) {
  append({JournalRecord::Kind::kFinished, verdict, suite, number, hash});
}

std::optional<JournalRecord> Journal::open_case() const {
  if (records.empty() || records.back().kind != JournalRecord::Kind::kStarted) return std::nullopt;
  return records.back();
}

Journal read_journal(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad())
    fail(Kind::kUnreadable, path, "cannot be read; check the name and its permissions");
  Journal journal;
  if (bytes.size() < sizeof(kMagic) && std::memcmp(bytes.data(), kMagic, bytes.size()) == 0) {
    journal.torn = !bytes.empty();  // killed while it was created
    return journal;
  }
  if (std::memcmp(bytes.data(), kMagic, std::min(bytes.size(), sizeof(kMagic))) != 0) {
    fail(Kind::kForeign, path, "is no journal; name another file");
  }
  size_t at = sizeof(kMagic);
  for (; at + sizeof(Packed) <= bytes.size(); at += sizeof(Packed)) {
    Packed p;
    std::memcpy(&p, bytes.data() + at, sizeof(p));
    const bool last = at + sizeof(Packed) >= bytes.size();
    if (p.checksum != checksum_of(p) || p.verdict >= kVerdicts || p.kind < 1 || p.kind > 2) {
      if (last) break;
      fail(Kind::kCorrupt, path, "is damaged at byte " + std::to_string(at) + "; delete it and run again");
    }
    journal.records.push_back({static_cast<JournalRecord::Kind>(p.kind), static_cast<Verdict>(p.verdict),
                               p.suite, p.number, p.hash});
  }
  journal.torn = at != bytes.size();
  return journal;
}

}  // namespace lockstep::dashboard
