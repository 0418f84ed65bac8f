// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/case_job.h"

#include <nlohmann/json.hpp>

namespace lockstep::dashboard {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Run, id, command, seed, numerics, plan, build_hash, commit, cpu, compiler,
                                   libtorch, engine, version, replay, cores, started_ms, state)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KeptCase, token, suite, bucket, origin, since_ms, note, time_ns)

}  // namespace lockstep::dashboard

namespace lockstep::suites {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunOptions, suites, seed, cases, seconds, jobs, shard, shards, lane,
                                   library, fallback, db, required, fault, engine, world, device, ranks,
                                   chaos, resume, hang_seconds, corpus, replay_kept, fail_fast, least_rate,
                                   commit, command)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CaseJob, options, run, chosen, kept, recorded)

// CBOR: a path or a command line need not be UTF-8.
std::string bytes_of(const CaseJob& job) {
  std::string bytes;
  nlohmann::json::to_cbor(job, bytes);
  return bytes;
}

CaseJob read_job(const std::string& bytes) {
  return nlohmann::json::from_cbor(bytes).get<CaseJob>();
}

}  // namespace lockstep::suites
