// SPDX-License-Identifier: Apache-2.0
// lockstep worker: one process of a run, which starts it; not for people.
#include "ci/program/commands.h"
#include "suites/harness/case_worker.h"

namespace lockstep::program {

void add_worker(CLI::App& app, Chosen& chosen) {
  app.add_subcommand("worker", "One process of lockstep run")->group("")->callback([&chosen] {
    const auto job = std::make_shared<suites::CaseJob>(suites::read_job(suites::join_pool()));
    chosen.lane = job->options.lane;
    chosen.on_cuda = job->options.device == "cuda";
    chosen.action = [job]() -> int { suites::work_on(*job); };
  });
}

}  // namespace lockstep::program
