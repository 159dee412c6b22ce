// unlatch search, and the acceptance cases about splits and placements: O12, O13, O18.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// Nodes of two devices of 1 TFLOP/s, with fast links inside a node and slow ones between them.
json nodes_of_two(int nodes) {
  return {
      {"name", "pairs"},
      {"device_types",
       {{"X",
         {{"tflops", {{"fp32", 1}}}, {"memory", "1GiB"}, {"memory_bandwidth", "900000GB/s"}}}}},
      {"node",
       {{"devices", {{"type", "X"}, {"count", 2}}},
        {"switches", {"bus"}},
        {"links",
         {{{"from", "device"}, {"to", "bus"}, {"bandwidth", "50GB/s"}, {"latency", "1us"}}}}}},
      {"nodes", nodes},
      {"network",
       {{"switches", {"net"}},
        {"links",
         {{{"from", "node.bus"}, {"to", "net"}, {"bandwidth", "1GB/s"}, {"latency", "5us"}}}}}}};
}

const std::string on_pairs = "search --cluster pairs.json --data digits --batch-size 16 ";

/// What the command of a finding prints.
json again(const Folder& folder, const json& found) {
  const std::string command = found["command"];
  const std::string program = "unlatch ";
  EXPECT_EQ(command.substr(0, program.size()), program);
  return folder.json(command.substr(program.size()));
}

TEST(SearchCli, FindsWhatSimulateFindsForTheSameFlags) {
  const Folder folder;
  folder.write("pairs.json", nodes_of_two(2).dump());
  const json search = folder.json(on_pairs +
                                  "--model mlp:hidden=64/32/64/32 --microbatches 1,4 --ranks 2,4 "
                                  "--replicas 1,2 --chunks 1,2 --splits 20");
  std::set<std::string> schedules;
  double before = 0;
  ASSERT_GT(search["found"].size(), 40U);
  for (std::size_t f = 0; f < search["found"].size(); ++f) {
    const json& found = search["found"][f];
    EXPECT_GE(found["batch_period_ms"], before);
    before = found["batch_period_ms"];
    const std::string name = found["schedule"];
    if (!schedules.insert(name.substr(0, name.find(':'))).second) continue;
    SCOPED_TRACE(found["command"].get<std::string>());
    const json run = again(folder, found);
    EXPECT_EQ(run["steady_state"]["batch_period_ms"], found["batch_period_ms"]);
    EXPECT_EQ(run["steady_state"]["utilization"], found["utilization"]);
    EXPECT_EQ(run["parameters"], found["parameters"]);
    std::int64_t peak = 0;
    int staleness = 0;
    for (const json& rank : run["ranks_detail"]) {
      peak = std::max<std::int64_t>(peak, rank["peak_memory_bytes"]);
    }
    for (const json& stage : run["stages_detail"]) {
      staleness = std::max<int>(staleness, stage["forward_staleness"]);
    }
    EXPECT_EQ(peak, found["peak_memory_bytes"]);
    EXPECT_EQ(staleness, found["forward_staleness"]);
  }
  EXPECT_GT(schedules.size(), 12U);
  EXPECT_EQ(search["tried"], search["found"].size() + search["refused"].size());
}

TEST(SearchCli, IsNeverWorseThanCompareWithItsOwnSplit) {
  const Folder folder;
  const std::string costs = "--cluster 4xP40 --model resnet20 --batch-size 128 ";
  const json found = folder.json("search " + costs +
                                 "--schedule 1f1b --schedule dsp:form=queue "
                                 "--microbatches 8")["found"];
  ASSERT_EQ(found.size(), 3U);  // dsp at two stalenesses
  for (const json& one : found) {
    const json run = folder.json(fmt::format("simulate {} --schedule {} --microbatches {}", costs,
                                             one["schedule"].get<std::string>(),
                                             one["microbatches"].get<int>()));
    EXPECT_LE(one["batch_period_ms"], run["steady_state"]["batch_period_ms"]);
  }
}

TEST(SearchCli, PutsWhatIsLargeInsideANode) {
  const Folder folder;
  folder.write("pairs.json", nodes_of_two(2).dump());
  const auto placement = [&](const std::string& model, const std::string& more) {
    const json search =
        folder.json(on_pairs + "--schedule gpipe:recompute=never --microbatches 1 " +
                    "--replicas 2 --ranks 2 --model " + model + more);
    return search["found"].at(0);
  };
  // Weights of 2 MB, outputs of 16 KB: the replicas of a stage share a node.
  const json heavy = placement("mlp:hidden=512/512/512", "");
  EXPECT_EQ(heavy["placement"], json({0, 2, 1, 3}));
  EXPECT_EQ(heavy["ranks_on_nodes"], "nodes in turn");
  // Outputs of 512 KB, weights of 300 KB: the stages of a pipeline do.
  const json light = placement("resnet8", " --partition 4/7");
  EXPECT_EQ(light["placement"], json({0, 1, 2, 3}));
  const json run = again(folder, heavy);
  EXPECT_EQ(run["steady_state"]["batch_period_ms"], heavy["batch_period_ms"]);
}

/// One node: device 1 is slow, device 3 behind a slow link.
json odd_node() {
  const auto type = [](double tflops) {
    return json{
        {"tflops", {{"fp32", tflops}}}, {"memory", "1GiB"}, {"memory_bandwidth", "9e5GB/s"}};
  };
  const auto link = [](const char* from, const char* rate) {
    return json{{"from", from}, {"to", "bus"}, {"bandwidth", rate}, {"latency", "1us"}};
  };
  return {{"name", "odd"},
          {"device_types", {{"S", type(0.3)}, {"X", type(1)}}},
          {"node",
           {{"devices",
             {{{"type", "X"}, {"count", 1}},
              {{"type", "S"}, {"count", 1}},
              {{"type", "X"}, {"count", 2}}}},
            {"switches", {"bus"}},
            {"links", {link("device0-2", "50GB/s"), link("device3", "0.1GB/s")}}}}};
}

/// The least period of all orders of the devices.
double best_of_all_orders(const Folder& folder, const std::string& simulate, int devices,
                          int ranks) {
  double best = INFINITY;
  std::set<std::vector<int>> tried;
  std::vector<int> order(static_cast<std::size_t>(devices));
  std::iota(order.begin(), order.end(), 0);
  do {
    const std::vector<int> placed(order.begin(), order.begin() + ranks);
    if (!tried.insert(placed).second) continue;
    const json run =
        folder.json(fmt::format("{} --placement {}", simulate, fmt::join(placed, ",")));
    best = std::min(best, run["steady_state"]["batch_period_ms"].get<double>());
  } while (std::ranges::next_permutation(order).found);
  return best;
}

TEST(SearchCli, NoPlacementIsBetterThanTheOneFound) {
  const Folder folder;
  folder.write("odd.json", odd_node().dump());
  const std::string costs =
      "--cluster odd.json --data digits --model resnet8 --batch-size 16 --partition ";
  for (const auto& [split, ranks] : {std::pair{"3/4/4", 3}, {"3/3/3/2", 4}}) {
    SCOPED_TRACE(split);
    const std::string flags = fmt::format("{}{} --schedule 1f1b --microbatches 4", costs, split);
    const json found = folder.json(fmt::format("search {} --ranks {}", flags, ranks))["found"][0];
    const double best =
        best_of_all_orders(folder, fmt::format("simulate {} --stages {}", flags, ranks), 4, ranks);
    EXPECT_EQ(found["batch_period_ms"], best);
    EXPECT_EQ(found["all_placements"], true);
    EXPECT_EQ(again(folder, found)["steady_state"]["batch_period_ms"], best);
  }
}

TEST(SearchCli, NodesAlikeCountOnceWhereRanksMove) {
  const Folder folder;
  json cluster = nodes_of_two(4);
  cluster["node"]["devices"] = {{{"type", "S"}, {"count", 1}}, {{"type", "X"}, {"count", 1}}};
  cluster["device_types"]["S"] = cluster["device_types"]["X"];
  cluster["device_types"]["S"]["tflops"]["fp32"] = 0.25;
  cluster["network"]["links"][0]["bandwidth"] = "50GB/s";
  folder.write("slow.json", cluster.dump());
  const std::string flags =
      "--cluster slow.json --data digits --batch-size 16 --model resnet8 --schedule 1f1b "
      "--microbatches 4 ";
  const json found = folder.json("search --ranks 4 " + flags)["found"][0];
  EXPECT_EQ(found["all_placements"], true);
  // Of 8 x 7 x 6 x 5: with one node full and then others, 36; with no pair before the last
  // rank, 40.
  EXPECT_EQ(found["placements_tried"], 76);
  EXPECT_EQ(again(folder, found)["steady_state"]["batch_period_ms"], found["batch_period_ms"]);
  const std::vector<int> split = found["partition"];
  const std::string with_split = fmt::format("{}--partition {} ", flags, fmt::join(split, "/"));
  for (const char* fixed : {"0,1,2,3", "0,2,4,6", "0,2,1,3"}) {
    const json run = folder.json("simulate --stages 4 " + with_split + "--placement " + fixed);
    EXPECT_LT(found["batch_period_ms"], run["steady_state"]["batch_period_ms"]) << fixed;
  }
}

TEST(SearchCli, RanksMoveWhereThereAreTooManyPlacementsToTryAll) {
  const Folder folder;
  json cluster = nodes_of_two(7);
  cluster["node"]["devices"] = {{{"type", "S"}, {"count", 1}}, {{"type", "X"}, {"count", 1}}};
  cluster["device_types"]["S"] = cluster["device_types"]["X"];
  cluster["device_types"]["S"]["tflops"]["fp32"] = 0.02;
  folder.write("slow.json", cluster.dump());
  const std::string flags =
      "--cluster slow.json --data digits --batch-size 16 --model resnet8 --schedule 1f1b "
      "--microbatches 16 ";
  const json found = folder.json("search --ranks 7 " + flags)["found"][0];
  EXPECT_EQ(found["all_placements"], false);
  EXPECT_EQ(again(folder, found)["steady_state"]["batch_period_ms"], found["batch_period_ms"]);
  for (const char* fixed : {"1,3,5,7,9,11,13", "0,1,2,3,4,5,6", "0,2,4,6,8,10,12"}) {
    const json run = folder.json("simulate --stages 7 " + flags + "--placement " + fixed);
    EXPECT_LT(found["batch_period_ms"], run["steady_state"]["batch_period_ms"]) << fixed;
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(SearchCli, WritesTableCsvAndPictureOfTheSameFront) {
  const Folder folder;
  const std::string flags =
      "search --cluster 4xP40 --model resnet20 --batch-size 128 --microbatches 1,3,8 --top 1 "
      "--memory-limit 64MiB --staleness-limit 5 --splits 20 --csv all.csv --svg front.svg ";
  const json search = folder.json(flags);
  int on_front = 0;
  for (const json& found : search["found"]) {
    on_front += found["pareto"].get<bool>();
    EXPECT_LE(found["peak_memory_bytes"], 64 << 20);
    EXPECT_LE(found["forward_staleness"], 5);
    int layers = 0;
    for (const int size : found["partition"]) layers += size;
    EXPECT_EQ(layers, 23);
  }
  EXPECT_GT(on_front, 2);
  std::set<std::string> kinds;
  for (const json& refused : search["refused"]) {
    EXPECT_NE(refused["reason"], "");
    kinds.insert(refused["kind"]);
  }
  EXPECT_GE(kinds.size(), 3U) << "memory, staleness, and 128 samples in 3 micro-batches";

  const std::vector<std::string> csv = lines_of(folder.read("all.csv"));
  ASSERT_EQ(csv.size(), 1 + search["tried"].get<std::size_t>());
  const auto columns = std::ranges::count(csv.front(), ',');
  int marked = 0;
  for (const std::string& line : csv) {
    bool quoted = false;
    int commas = 0;
    for (const char c : line) {
      quoted ^= c == '"';
      commas += c == ',' && !quoted;
    }
    EXPECT_EQ(commas, columns) << line;
    marked += line.find(",yes,") != std::string::npos;
  }
  EXPECT_EQ(marked, on_front);

  const std::string svg = folder.read("front.svg");
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
  EXPECT_GE(count(svg, "<circle"), on_front);

  const Outcome table = folder.run(flags);
  EXPECT_EQ(table.code, 0) << table.err;
  int stars = 0;
  for (const std::string& line : lines_of(table.out)) stars += line.starts_with("*  ");
  EXPECT_EQ(stars, on_front) << "with --top 1 too";
  EXPECT_THAT(table.out, AllOf(HasSubstr("over the memory limit"), HasSubstr("why "),
                               HasSubstr("again: unlatch simulate --schedule")));
  EXPECT_EQ(folder.run(flags).out, table.out) << "the same on every run";
}

TEST(SearchCli, TakesMeasuredCosts) {
  const Folder folder;
  const Outcome profile = folder.run(
      "profile --model mlp:hidden=32/32 --data digits --batch-size 8,16 --samples 20 --save "
      "p.json");
  ASSERT_EQ(profile.code, 0) << profile.err;
  const json search = folder.json(
      "search --profile p.json --batch-size 16 --ranks 2 --microbatches 1,2,4 --schedule gpipe "
      "--schedule fdg");
  ASSERT_FALSE(search["found"].empty());
  EXPECT_EQ(search["memory_limit_bytes"], nullptr);
  const json run = again(folder, search["found"][0]);
  EXPECT_EQ(run["steady_state"]["batch_period_ms"], search["found"][0]["batch_period_ms"]);
  for (const json& refused : search["refused"]) {
    EXPECT_EQ(refused["microbatches"], 4);
    EXPECT_THAT(refused["reason"].get<std::string>(), HasSubstr("pieces of 4 samples are outside"));
  }
  EXPECT_FALSE(search["refused"].empty());
}

TEST(SearchCli, RefusesWhatCannotBe) {
  const Folder folder;
  const std::string cluster = "search --cluster 4xP40 --model mlp --batch-size 32 ";
  for (const auto& [flags, message] : std::vector<std::pair<std::string, std::string>>{
           {"search", "search needs costs of layers: --cluster"},
           {"search --cluster 4xP40 --model mlp", "needs --batch-size B"},
           {"search --cluster 4xP40 --profile p.json --batch-size 4", "leave one of them out"},
           {cluster + "--microbatches 0", "--microbatches"},
           {cluster + "--microbatches 2,2", "names 2 twice"},
           {cluster + "--chunks 1.5", "--chunks"},
           {cluster + "--schedule 1f2b", "Did you mean '1f1b'"},
           {cluster + "--schedule 1f1b:x=1", "no keys"},
           {cluster + "--partition 3-4", "--partition '3-4'"},
           {cluster + "--placement 0,9", "there is no device 9"},
           {cluster + "--placement 0,0", "names 0 twice"},
           {cluster + "--top 0", "--top"},
           {cluster + "--csv a --svg a", "both write 'a'"},
           {cluster + "--csv no/such/folder/a.csv", "no/such/folder"},
           {cluster + "--uneven yes", "--uneven yes is not available"},
           {cluster + "--ranks 9 --schedule gpipe:recompute=never",
            "9 ranks, but the cluster 4x P40, PCIe has places for 4"},
           {"search --cluster 8xA100 --model mlp --batch-size 32 --schedule gpipe:recompute=never",
            "5 layers cannot fill 8 stages"},
           {cluster + "--staleness 0", "--staleness"},
           {cluster + "--replicas 3", "3 replicas do not divide the 4 devices"},
           {cluster + "--schedule 1f1b --memory-limit 1KiB",
            "none of the 4 candidates can be run:\n  4 over the memory limit; the first: 1f1b, 1 "
            "micro-batch: of"},
           {cluster + "--schedule 1f1b --partition 2/1", "2 sizes for 4 stages"}}) {
    SCOPED_TRACE(flags);
    const Outcome outcome = folder.run(flags);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
  EXPECT_EQ(folder.files(), 0);
  folder.write("one.csv", "0F0,0B0\n");
  const Outcome file = folder.run(cluster + "--schedule file:one.csv");
  expect_refused(file);
  EXPECT_THAT(file.err, HasSubstr("a schedule file has its shape"));
}

// 20 layers, "the last stage has 1": on one stage, and on two with 15 in the first.
TEST(O12, SizesThatContradictTheLayersAreNamed) {
  const Folder folder;
  const std::string twenty = "partition --layer-costs 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1 ";
  const Outcome one = folder.run(twenty + "--stages 1 --partition 1");
  expect_refused(one);
  EXPECT_THAT(one.err,
              AllOf(HasSubstr("partition '1'"), HasSubstr("sum to 1,"), HasSubstr("20 layers")));
  const Outcome two = folder.run(twenty + "--stages 2 --partition 15/1");
  expect_refused(two);
  EXPECT_THAT(two.err, AllOf(HasSubstr("partition '15/1'"), HasSubstr("sum to 16,"),
                             HasSubstr("20 layers")));
  // Of a model too, wherever its costs are used: resnet20 has 23 layers that can be cut.
  for (const char* command : {"simulate", "compare", "search"}) {
    const Outcome model = folder.run(
        fmt::format("{} --cluster 4xP40 --model resnet20 --batch-size 8 --schedule 1f1b "
                    "--partition 15/1 {}",
                    command, command == std::string("search") ? "--ranks 2" : "--stages 2"));
    expect_refused(model);
    EXPECT_THAT(model.err,
                AllOf(HasSubstr("partition '15/1'"), HasSubstr("16"), HasSubstr("23 layers")));
  }
}

// Embedding and head weigh two blocks each.
TEST(O13, WeightsOfLayersDecideTheSplit) {
  const Folder folder;
  const auto loads = [&](const std::string& split) {
    return folder.json("partition --layer-costs 2,1,1,1,1,2 --stages 4 --partition " + split);
  };
  const auto cost = [](const json& split) {
    std::vector<double> costs;
    for (const json& stage : split["stages"]) costs.push_back(stage["cost"]);
    return costs;
  };
  const json best = loads("auto");
  EXPECT_THAT(cost(best), ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(best["stages"][1]["layers"], 2);
  const json blocks = loads("2/1/1/2");
  EXPECT_THAT(cost(blocks), ElementsAre(3, 1, 1, 3));
  EXPECT_EQ(blocks["bottleneck_stage"], 0);
  EXPECT_EQ(blocks["total_layers"], 6);
  const auto makespan = [&](const std::string& stages) {
    return folder.json("simulate --schedule 1f1b --microbatches 8 --forward " +
                       stages)["makespan_ms"];
  };
  EXPECT_EQ(makespan("2,2,2,2"), 66);
  EXPECT_EQ(makespan("3,1,1,3"), 87);
}

std::vector<double> gigabytes(const json& run) {
  std::vector<double> peaks;
  for (const json& rank : run["ranks_detail"]) {
    peaks.push_back(rank["peak_memory_bytes"].get<double>() / 1e9);
  }
  return peaks;
}

// 2 GB of activations and 6 GB of weights a stage of eight; 3 GB more for embedding and for head.
TEST(O18, AVPlacementPutsEmbeddingAndHeadOnRankZero) {
  const Folder folder;
  const json straight = folder.json(
      "simulate --schedule 1f1b --ranks 8 --microbatches 16 --activation-size 2GB "
      "--weight-size 9GB,6GB,6GB,6GB,6GB,6GB,6GB,9GB");
  EXPECT_THAT(gigabytes(straight), ElementsAre(25, 20, 18, 16, 14, 12, 10, 11));
  const json v = folder.json(
      "simulate --schedule zb-v --ranks 8 --microbatches 16 --activation-size 1GB "
      "--weight-size 6GB,3GB,3GB,3GB,3GB,3GB,3GB,3GB,3GB,3GB,3GB,3GB,3GB,3GB,3GB,6GB");
  std::vector<double> peaks = gigabytes(v);
  EXPECT_EQ(peaks.front(), 28);
  peaks.erase(peaks.begin());
  EXPECT_THAT(peaks, Each(22));
}

TEST(SearchCli, LeavesNoFileWhereAnotherCannotBeWritten) {
  const Folder folder;
  const Outcome outcome = folder.run(
      "search --cluster 4xP40 --model mlp --batch-size 8 --microbatches 1 --schedule bp --csv "
      "ok.csv "
      "--svg none/x.svg");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("cannot write 'none/x.svg'"));
  EXPECT_EQ(folder.files(), 0);
}

}  // namespace
}  // namespace unlatch::test
