// unlatch search: the best schedule, micro-batches, chunks, staleness, split and placement.
#include "schedules/error.h"
#include "tools/command.h"
#include "tools/outputs.h"
#include "tools/search_files.h"
#include "tools/search_result.h"
#include "tools/terminal.h"

namespace unlatch::tools {
namespace {

int run(const Arguments& arguments) {
  require_outputs(arguments, {"csv", "svg"});
  const int top = arguments.whole("top", 10);
  const SearchSpace space = read_search_space(arguments);
  if (progress_is_shown()) say(fmt::format("trying {} candidates", space.candidates.size()));
  SearchResult result{
      .space = space, .findings = sim::search(space.candidates, space.limits), .ranked = {}};
  result.ranked = sim::ranking(result.findings);
  require(!result.ranked.empty(), "none of the {} candidates can be run:{}", result.findings.size(),
          refusals_with_examples(result));
  const sim::Candidate& best = result.candidate(result.ranked.front());
  Workload workload;
  workload.shape = best.shape;
  workload.layers = *space.layers;
  note_assumptions(workload, best.spec);
  if (const auto path = arguments.text("csv")) write_search_csv(*path, result);
  if (const auto path = arguments.text("svg")) write_search_svg(*path, result);
  if (arguments.has("json")) {
    print_json(search_json(result, arguments));
  } else {
    print(search_text(result, top, arguments));
  }
  return 0;
}

}  // namespace

Command search_command() {
  return {.name = "search",
          .summary = "Find the best schedule, split and micro-batches under a memory limit",
          .groups = {search_flags(),
                     layer_flags(),
                     {"Output",
                      {{"top", "N", "Best ones in the table, beside the Pareto front (10)"},
                       {"csv", "FILE", "Write all candidates, refused ones too"},
                       {"svg", "FILE", "Draw time over memory, the Pareto front joined"}}}},
          .run = run};
}

}  // namespace unlatch::tools
