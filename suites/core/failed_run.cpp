// SPDX-License-Identifier: Apache-2.0
// What comes of a run in which the engine threw, or did not answer.
#include "suites/core/facts.h"
#include "suites/core/judge.h"

namespace lockstep::suites {

// Every exception of an engine begins with who throws it: "[aten::mm] …". Two of them are not one finding.
static std::string who_throws(const std::string& text) {
  const auto end = text.find(']');
  return text.starts_with('[') && end != std::string::npos ? text.substr(1, end - 1) : "";
}

Failed failed_run(const oracle::Case& c, const EngineFailure& e) {
  using Kind = EngineFailure::Kind;
  const auto verdict = e.kind == Kind::kError  ? "exception"
                       : e.kind == Kind::kWire ? "wire"
                       : e.kind == Kind::kHung ? "hang"
                                               : e.end;
  auto f = failed(c.suite, verdict, who_throws(e.what()), placement_pattern(c), "", e.what());
  if (e.kind == Kind::kHung) f.kind = dashboard::Verdict::kHung;
  if (e.kind == Kind::kDied) f.kind = dashboard::Verdict::kCrashed;
  return f;
}

Failed thrown_run(const oracle::Case& c, const std::exception& e) {
  return failed(c.suite, "exception", who_throws(e.what()), placement_pattern(c), "", e.what());
}

std::optional<Failed> fails_to_run(const oracle::Case& c, EngineUnderTest& engine, EngineResult& result) {
  try {
    result = engine.run(c, false);
    return std::nullopt;
  } catch (const EngineFailure& e) {
    return failed_run(c, e);
  } catch (const c10::AcceleratorError&) {
    throw;
  } catch (const NotBuilt&) {
    throw;
  } catch (const std::exception& e) {
    return thrown_run(c, e);
  }
}

}  // namespace lockstep::suites
