// Builder: turns the programs of a schedule into a graph, or says which rules they break.
#pragma once

#include <span>
#include <vector>

#include "schedules/program_checks.h"
#include "schedules/program_facts.h"
#include "schedules/program_runner.h"
#include "schedules/violation.h"

namespace unlatch {

/// Runs the programs; where they do not come to a good end, finds out why.
class Builder {
 public:
  explicit Builder(const Schedule& schedule) : schedule_(schedule), facts_(schedule) {}

  /// Every broken rule; empty when build() succeeds.
  std::vector<Violation> violations() const;
  /// Throws Error with the first broken rule.
  TaskGraph build() const;

 private:
  std::vector<Violation> violations_of(const ProgramRunner& stopped) const;
  Violation deadlock(const ProgramChecks& checks, const std::vector<std::int64_t>& progress) const;
  std::vector<bool> first_of_each(const ProgramRunner& regardless,
                                  const std::vector<std::int64_t>& progress) const;
  Violation blocked(std::span<const Task> tasks, const std::vector<bool>& has_run) const;

  const Schedule& schedule_;
  const ProgramFacts facts_;
};

}  // namespace unlatch
