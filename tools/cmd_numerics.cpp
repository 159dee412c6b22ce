// unlatch numerics: a schedule run on a scalar chain by the threaded executor.
#include <algorithm>
#include <cmath>

#include "exec/numerics.h"
#include "schedules/error.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/shape_options.h"
#include "tools/table.h"
#include "tools/terminal.h"
#include "tools/training.h"
#include "tools/workload.h"

namespace unlatch::tools {
namespace {

void read_data(const Arguments& arguments, exec::ChainProblem& problem) {
  require(arguments.has("x") == arguments.has("y"),
          "{} needs --{} beside it: they belong together, one value a micro-batch",
          arguments.place(arguments.has("x") ? "x" : "y"), arguments.has("x") ? "y" : "x");
  problem.x = arguments.reals("x");
  problem.y = arguments.reals("y");
  require(problem.x.size() == problem.y.size(),
          "--x has {} values and --y has {}; they need one each a micro-batch", problem.x.size(),
          problem.y.size());
}

/// Stages and batches follow from the lists where they are not given.
Shape read_chain_shape(const Arguments& arguments, const ScheduleSpec& spec,
                       const exec::ChainProblem& problem) {
  const auto weights = problem.weights.size();
  constexpr int usual_batches = 12, most = 10'000'000;
  const Shape usual = usual_shape(spec, static_cast<int>(weights), usual_batches);
  Shape shape;
  read_stages(arguments, spec.pipeline().chunks.usual, usual.stages, shape);
  if (arguments.has("stages") && static_cast<std::size_t>(shape.stages) > weights) {
    arguments.refuse("stages", *arguments.text("stages"),
                     fmt::format("must be in 1..{}, the number of weights", weights));
  }
  shape.replicas = arguments.whole("replicas", usual.replicas, 1, 1 << 10);
  shape.micro_batches = arguments.whole("microbatches", usual.micro_batches);
  require(shape.micro_batches == 1 || spec.pipeline().uses_micro_batches,
          "--microbatches {}: {} runs a batch in one piece, and a piece of the scalar chain is one "
          "sample; leave --microbatches out",
          shape.micro_batches, spec.method().name);
  shape.drain = arguments.yes("drain", usual.drain);
  if (problem.x.empty()) {
    shape.batches = arguments.whole("batches", usual.batches, 1, most);
  } else {
    require(!arguments.has("batches"),
            "--batches contradicts --x and --y: their {} values give the batches",
            problem.x.size());
    const int entries = static_cast<int>(problem.x.size());
    const int parts = shape.micro_batches * shape.replicas;
    require(entries % parts == 0,
            "--x has {} values, no multiple of {}: --microbatches {} x --replicas {}", entries,
            parts, shape.micro_batches, shape.replicas);
    shape.batches = entries / parts;
  }
  require_buildable(shape, spec);
  return shape;
}

exec::ChainProblem read_problem(const Arguments& arguments) {
  exec::ChainProblem problem;
  problem.weights = arguments.reals("weights");
  require(!problem.weights.empty(), "--weights LIST is needed: w_0,w_1,.., one or more a stage");
  problem.activation = arguments.choice("activation", {"tanh", "identity"}) == "tanh"
                           ? exec::Activation::tanh
                           : exec::Activation::identity;
  problem.rate = arguments.real("lr", 0.1, 0);
  problem.optimizer = asked_optimizer(arguments);
  read_data(arguments, problem);
  return problem;
}

Json rows_json(const std::vector<std::vector<double>>& rows) {
  Json json = Json::array();
  for (const auto& row : rows) {
    Json values = Json::array();
    for (double value : row) values.push_back(number_json(value));
    json.push_back(std::move(values));
  }
  return json;
}

std::string to_text(const exec::ChainResult& result) {
  std::vector<std::string> columns{"update"};
  std::size_t updates = 0;
  for (std::size_t j = 0; j < result.weights_by_update.size(); ++j) {
    columns.push_back(fmt::format("w{}", j));
    updates = std::max(updates, result.weights_by_update[j].size());
  }
  Table weights(columns);
  for (std::size_t u = 0; u < updates; ++u) {
    std::vector<std::string> cells{fmt::format("{}", u)};
    for (const auto& history : result.weights_by_update) {
      cells.push_back(u < history.size() ? fmt::format("{:.12f}", history[u]) : "");
    }
    weights.add(std::move(cells));
  }
  Table losses({"micro-batch", "loss"});
  for (std::size_t i = 0; i < result.losses.size(); ++i) {
    losses.add({fmt::format("{}", i), fmt::format("{:.12f}", result.losses[i])});
  }
  return fmt::format("{}\n{}", weights.text(), losses.text());
}

int run(const Arguments& arguments) {
  const ScheduleSpec spec = asked_schedules(arguments, 1).front();
  exec::ChainProblem problem = read_problem(arguments);
  const Shape shape = read_chain_shape(arguments, spec, problem);
  if (problem.x.empty())
    exec::fill_with_golden_data(problem, spec.effective(shape).all_micro_batches());
  const TaskGraph graph = spec.make(shape).build();
  require_optimizer_fits(problem.optimizer, graph.learning());
  const int threads = asked_threads(arguments);
  warn_of_too_many_threads(threads, graph);
  const exec::ChainResult result = exec::run_chain(graph, problem, {.workers = threads});
  if (arguments.has("json")) {
    Json json{{"schedule", spec.method().name},
              {"parameters", parameters_json(spec.options(spec.effective(shape)))},
              {"weights_by_update", rows_json(result.weights_by_update)},
              {"losses", rows_json({result.losses})[0]},
              {"final", rows_json({result.final})[0]}};
    if (!result.heads.empty()) json["heads"] = rows_json(result.heads);
    print_json(json);
  } else {
    print(to_text(result));
  }
  const bool finite =
      std::ranges::all_of(result.final, [](double weight) { return std::isfinite(weight); });
  if (!finite) throw RunError("the chain diverged: its last weights are not finite; lower --lr");
  return 0;
}

}  // namespace

Command numerics_command() {
  return {
      .name = "numerics",
      .summary = "Run a schedule for real on a chain of scalars, every weight printed",
      .groups = {{"Schedule",
                  {{"schedule", "SPEC", "NAME[:key=value[,key=value...]]", Flag::Kind::repeated},
                   {"stages", "S", "Stages (one a weight)"},
                   {"ranks", "P", "Ranks of the pipeline: stages / chunks"},
                   {"chunks", "V", "Stages a rank (the schedule's usual number)"},
                   {"replicas", "R", "Data-parallel replicas (1)"},
                   {"microbatches", "M", "Micro-batches a batch (1)"},
                   {"batches", "N", "Batches (12), x(n) = sin(n+1) and y(n) = 0.5 cos(n)"},
                   {"drain", "yes|no", "Apply every batch on every stage (yes), or stop early"},
                   {"threads", "T", "Worker threads (as many as lanes or cores)"}}},
                 {"Chain h_{j+1} = act(w_j h_j), loss 0.5 (h_last - y)^2",
                  {{"weights", "LIST", "Initial weights w_0,w_1,.."},
                   {"activation", "tanh|identity", "act (tanh)"},
                   {"x", "LIST", "Inputs, one a micro-batch"},
                   {"y", "LIST", "Targets, one a micro-batch"},
                   {"lr", "RATE", "Learning rate (0.1)"},
                   {"optimizer", "SPEC", optimizer_help},
                   {"weight-decay", "L", "Weight decay (0)"}}}},
      .run = run};
}

}  // namespace unlatch::tools
