// A schedule of one's own outside the catalogue: drawn at unit cost and run on the scalar chain.
#include <cstdio>
#include <memory>

#include "exec/numerics.h"
#include "schedules/registry.h"
#include "sim/simulator.h"
#include "sim/stage_costs.h"
#include "traces/draw.h"

namespace unlatch {
Method pairs_method();
}

int main() {
  using namespace unlatch;
  const auto spec = ScheduleSpec::of(std::make_shared<const Method>(pairs_method()));
  const Shape shape{.stages = 3, .micro_batches = 4};
  spec.options(shape);  // refuses what it cannot run
  const TaskGraph graph = spec.make(shape).build();
  const sim::StageCosts costs(sim::stage_times({}, shape.stages));
  std::fputs(draw(graph, sim::run(graph, costs), std::chrono::milliseconds(1)).c_str(), stdout);

  exec::ChainProblem problem{.weights = {0.9, -0.8, 1.1}};
  exec::fill_with_golden_data(problem, shape.all_micro_batches());
  const exec::ChainResult result = exec::run_chain(graph, problem);
  for (const double weight : result.final) std::printf("%.12f\n", weight);
}
