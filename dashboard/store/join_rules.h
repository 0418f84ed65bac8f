// SPDX-License-Identifier: Apache-2.0
// Which of two rows with the same key stays: the ON CONFLICT clauses that recorder and merge share. Each rule
// is a minimum or maximum in a total order, so that joining is commutative, associative and idempotent.
#pragma once

namespace lockstep::dashboard {

// The smallest minimal case: fewest ops, then the shortest token, then the rest to break ties.
inline constexpr const char* kJoinFailure = R"(ON CONFLICT (run, bucket) DO UPDATE SET
  ops = excluded.ops, token = excluded.token, suite = excluded.suite, law = excluded.law,
  verdict = excluded.verdict, program = excluded.program,
  shrink_steps = excluded.shrink_steps, budget_ended = excluded.budget_ended
  WHERE (excluded.ops, length(excluded.token), excluded.token, excluded.suite, excluded.law, excluded.verdict,
         excluded.program, excluded.shrink_steps, excluded.budget_ended)
      < (ops, length(token), token, suite, law, verdict, program, shrink_steps, budget_ended))";

// Found before not found, then by the fewest cases.
inline constexpr const char* kJoinFault = R"(ON CONFLICT (run, name) DO UPDATE SET
  klass = excluded.klass, found = excluded.found, cases = excluded.cases, shrunk_ops = excluded.shrunk_ops,
  suite = excluded.suite, token = excluded.token, note = excluded.note
  WHERE (-excluded.found, excluded.cases, excluded.shrunk_ops, excluded.suite, excluded.token, excluded.note,
         excluded.klass) < (-found, cases, shrunk_ops, suite, token, note, klass))";

// The same step with the same bits: the better rate, the higher peak, the worse verdict.
inline constexpr const char* kJoinPoint = R"(ON CONFLICT DO UPDATE SET
  tokens_per_second = max(tokens_per_second, excluded.tokens_per_second),
  peak_bytes = max(peak_bytes, excluded.peak_bytes),
  verdict = (SELECT name FROM verdict WHERE name IN (curve_point.verdict, excluded.verdict)
             ORDER BY severity DESC LIMIT 1))";

// The same case with the same outcome.
inline constexpr const char* kJoinCase = R"(ON CONFLICT (key, run, outcome) DO UPDATE SET
  number = min(number, excluded.number), self_check = min(self_check, excluded.self_check),
  ops = min(ops, excluded.ops), mesh = min(mesh, excluded.mesh),
  mesh_rank = min(mesh_rank, excluded.mesh_rank), evenness = min(evenness, excluded.evenness),
  dtype = min(dtype, excluded.dtype), how = min(how, excluded.how), time_ns = min(time_ns, excluded.time_ns),
  bytes_moved = min(bytes_moved, excluded.bytes_moved),
  explanation = min(explanation, excluded.explanation))";

// The row that ended last speaks for the run; a run that has not ended says the least.
inline constexpr const char* kJoinRun = R"(ON CONFLICT (key) DO UPDATE SET
  started_ms = min(started_ms, excluded.started_ms), version = max(version, excluded.version),
  (ended_ms, state, exit_code) = (
    SELECT e, s, x FROM (SELECT run.ended_ms AS e, run.state AS s, run.exit_code AS x
                         UNION ALL SELECT excluded.ended_ms, excluded.state, excluded.exit_code)
    ORDER BY e DESC, s DESC, x DESC LIMIT 1))";

// Gates are written once, by the process that decides; of two, the failed one stays.
inline constexpr const char* kJoinGate = R"(ON CONFLICT (run, rule) DO UPDATE SET
  passed = excluded.passed, required = excluded.required, got = excluded.got
  WHERE (excluded.passed, excluded.required, excluded.got) < (passed, required, got))";

// The case that was kept first.
inline constexpr const char* kJoinKept = R"(ON CONFLICT (token) DO UPDATE SET
  suite = excluded.suite, bucket = excluded.bucket, origin = excluded.origin, since_ms = excluded.since_ms,
  note = excluded.note
  WHERE (excluded.since_ms, excluded.bucket, excluded.origin, excluded.suite, excluded.note)
      < (since_ms, bucket, origin, suite, note))";

// The first blessing stays.
inline constexpr const char* kJoinBlessing = R"(ON CONFLICT (rule, subject, got) DO UPDATE SET
  reason = excluded.reason, blessed_by = excluded.blessed_by, blessed_ms = excluded.blessed_ms
  WHERE (excluded.blessed_ms, excluded.blessed_by, excluded.reason) < (blessed_ms, blessed_by, reason))";

}  // namespace lockstep::dashboard
