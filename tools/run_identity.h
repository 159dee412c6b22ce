// RunIdentity: everything that decides the numbers of a training run, to tell whether a checkpoint
// is one of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/partition.h"
#include "schedules/graph.h"
#include "tools/arguments.h"

namespace unlatch::tools {

struct TrainingPlan;

/// Names and values in a fixed order: the settings as they were given, but for those that say where
/// and how fast, and what follows from them on this machine.
class RunIdentity {
 public:
  RunIdentity(const Arguments& arguments, const TrainingPlan& plan, const TaskGraph& graph,
              const std::vector<models::StageRange>& ranges);
  /// What to_text() gave. Throws Error for anything else.
  static RunIdentity parse(const std::string& text);

  std::string to_text() const;
  /// "--lr was 0.1, now 0.05", each difference; empty for the same run.
  std::vector<std::string> differences_from(const RunIdentity& earlier) const;

 private:
  RunIdentity() = default;
  const std::string* find(const std::string& name) const;

  std::vector<std::pair<std::string, std::string>> facts_;
};

}  // namespace unlatch::tools
