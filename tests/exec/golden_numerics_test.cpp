// The golden traces of the decoupled methods: every weight of the scalar chain after 1, 2, 3, 6
// and 12 updates, through the threaded executor, to 1e-11.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "exec/numerics.h"
#include "schedules/registry.h"

namespace unlatch::exec {
namespace {

struct Run {
  std::string schedule;
  std::string optimizer = "sgd";
  double weight_decay = 0;
  double rate = 0.1;
  bool drain = true;
  int batches = 12;
  int micro_batches = 1;
};

ChainResult golden_run(const Run& run) {
  const Shape shape{
      .stages = 3, .micro_batches = run.micro_batches, .batches = run.batches, .drain = run.drain};
  ChainProblem problem{.weights = {0.9, -0.8, 1.1}, .rate = run.rate};
  problem.optimizer = models::OptimizerSpec::parse(run.optimizer);
  problem.optimizer.weight_decay = run.weight_decay;
  fill_with_golden_data(problem, shape.all_micro_batches());
  return run_chain(ScheduleSpec::parse(run.schedule).make(shape).build(), problem);
}

struct Trace {
  Run run;
  /// [weight][after 1, 2, 3, 6 and 12 updates]
  std::vector<std::vector<double>> weights;
};

class GoldenTrace : public testing::TestWithParam<Trace> {};

TEST_P(GoldenTrace, ComesOutOfTheExecutor) {
  const ChainResult result = golden_run(GetParam().run);
  const int updates[] = {1, 2, 3, 6, 12};
  for (int k = 0; k < 3; ++k) {
    ASSERT_EQ(result.weights_by_update[k].size(), 13U);
    for (int j = 0; j < 5; ++j) {
      EXPECT_NEAR(result.weights_by_update[k][updates[j]], GetParam().weights[k][j], 1e-11)
          << "weight " << k << " after " << updates[j] << " updates";
    }
  }
}

const std::vector<std::vector<double>> ddg_exact{
    {0.874299530479, 0.855828221423, 0.856999940032, 0.814113230488, 0.736212789341},
    {-0.758692158823, -0.727308867542, -0.728713816834, -0.657211117341, -0.525707004866},
    {1.064434594569, 1.036000007707, 1.037035204557, 0.978802462572, 0.884178103681}};
const std::vector<std::vector<double>> ddg_in_place{
    {0.874299530479, 0.856781983799, 0.857905234283, 0.815982075455, 0.740247174556},
    {-0.758692158823, -0.727308867542, -0.728713816834, -0.657191968387, -0.525455676909},
    {1.064434594569, 1.036000007707, 1.037035204557, 0.978780409581, 0.883967161282}};
const std::vector<std::vector<double>> fr{
    {0.874299530479, 0.855735046676, 0.856859564082, 0.813637885188, 0.736092311003},
    {-0.758692158823, -0.726455200857, -0.727861220896, -0.655593410630, -0.523118946314},
    {1.064434594569, 1.036000007707, 1.037035204557, 0.978872144401, 0.884632789511}};
const std::vector<std::vector<double>> fdg_exact{
    {0.874299530479, 0.855828221423, 0.857001413198, 0.815247210720, 0.738048881828},
    {-0.758692158823, -0.727308867542, -0.728642947748, -0.656181878645, -0.521667679579},
    {1.064434594569, 1.036000007707, 1.037037214526, 0.975954216275, 0.875548100716}};
const std::vector<std::vector<double>> dsp{
    {0.874299530479, 0.855735046676, 0.856803934904, 0.813768837525, 0.736565258302},
    {-0.758692158823, -0.726455200857, -0.727791665958, -0.653918983481, -0.517680242811},
    {1.064434594569, 1.036000007707, 1.037037214526, 0.975988923076, 0.876109390669}};

INSTANTIATE_TEST_SUITE_P(
    Section13, GoldenTrace,
    testing::Values(
        Trace{
            {"bp"},
            {{0.874299530479, 0.855631888491, 0.856849526338, 0.813628459062, 0.735956209389},
             {-0.758692158823, -0.726898694429, -0.728345946953, -0.657298151828, -0.527763839639},
             {1.064434594569, 1.037775113212, 1.038793989970, 0.983059923253, 0.893546547355}}},
        Trace{{"ddg"}, ddg_exact}, Trace{{"ddg:form=mailbox"}, ddg_exact},
        Trace{{"ddg:weights=in_place"}, ddg_in_place},
        Trace{{"ddg:form=mailbox,weights=in_place"}, ddg_in_place}, Trace{{"fr"}, fr},
        Trace{{"fr:form=mailbox"}, fr}, Trace{{"fdg"}, fdg_exact},
        Trace{{"fdg:form=queue"}, fdg_exact},
        Trace{
            {"fdg:shrink=0.5"},
            {{0.893574882620, 0.888957055356, 0.889250353299, 0.878536761637, 0.858046298071},
             {-0.779346079411, -0.763654433771, -0.764321473874, -0.728520005246, -0.659898201414},
             {1.064434594569, 1.036000007707, 1.037037214526, 0.973656222078, 0.853244464438}}},
        Trace{
            {"fdg:order=bf,weights=in_place"},
            {{0.874299530479, 0.856781983799, 0.857905234283, 0.817186800210, 0.743225172800},
             {-0.758692158823, -0.727308867542, -0.728713816834, -0.656350065555, -0.522681206697},
             {1.064434594569, 1.036000007707, 1.037035204557, 0.977814615408, 0.881411461152}}},
        Trace{{"dsp"}, dsp}, Trace{{"dsp:form=lockstep"}, dsp},
        Trace{{"dsp:queues=unbounded"}, dsp}, Trace{{"dsp:queues=2/0/0"}, dsp},
        Trace{{"dsp", "sum:momentum=0.9,s=1"},
              {{0.851169107910, 0.796173171199, 0.764617440469, 0.588115343420, 0.359610843194},
               {-0.721515101764, -0.627343762476, -0.573877808779, -0.240351709327, 0.336863534564},
               {1.032425729681, 0.949668527417, 0.902879303685, 0.619786928872, 0.180873343720}}}));

struct Final {
  Run run;
  std::vector<double> weights;
};

class GoldenFinal : public testing::TestWithParam<Final> {};

TEST_P(GoldenFinal, ComesOutOfTheExecutor) {
  const ChainResult result = golden_run(GetParam().run);
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(result.final[k], GetParam().weights[k], 1e-11) << "weight " << k;
  }
}

const std::string heavy_ball = "momentum:momentum=0.9";
const std::string snag = "nesterov:momentum=0.9";
const std::vector<double> mini_batch{0.808322569963, -0.651959448811, 0.980463468554};

INSTANTIATE_TEST_SUITE_P(
    Section13, GoldenFinal,
    testing::Values(
        Final{{"bp", heavy_ball}, {0.332735918395, 0.220004538528, 0.368553228403}},
        Final{{"bp", snag}, {0.351556454104, 0.227164610300, 0.402916056589}},
        Final{{"bp", "sum:momentum=0.9,s=1"}, {0.351556454104, 0.227164610300, 0.402916056589}},
        Final{{"bp", "sum:momentum=0.9,s=10", 0, 0.01},
              {0.735956209389, -0.527763839639, 0.893546547355}},
        Final{{"gpipe", "sgd", 0, 0.1, true, 6, 2}, mini_batch},
        Final{{"gpipe:recompute=always", "sgd", 0, 0.1, true, 6, 2}, mini_batch},
        Final{{"gpipe:recompute=except_last,backward=ascending", "sgd", 0, 0.1, true, 6, 2},
              mini_batch},
        Final{{"1f1b", "sgd", 0, 0.1, true, 6, 2}, mini_batch},
        Final{{"ddg", "sgd", 0, 0.1, false}, {0.758040831035, -0.531767669176, 0.884178103681}},
        Final{{"ddg:form=mailbox", "sgd", 0, 0.1, false},
              {0.758040831035, -0.531767669176, 0.884178103681}},
        Final{{"fr", "sgd", 0, 0.1, false}, {0.757564833945, -0.529195470134, 0.884632789511}},
        Final{{"ddg", snag}, {0.333151648898, 0.263516576975, 0.281786851027}},
        Final{{"fdg:weights=in_place"}, {0.745155482212, -0.521433383659, 0.875351435173}},
        Final{{"fdg:weights=in_place,shrink=0.5"},
              {0.858908394472, -0.659886057200, 0.853217917870}},
        Final{{"fdg:order=bf"}, {0.739300716277, -0.522866931131, 0.881558416741}},
        Final{{"fdg:order=bf,form=queue"}, {0.739300716277, -0.522866931131, 0.881558416741}},
        Final{{"fdg:order=bf,shrink=0.5"}, {0.858270570898, -0.659868303111, 0.855977372492}},
        Final{{"dsp", "sgd", 0, 0.1, false}, {0.775133691040, -0.559414019588, 0.876109390669}},
        Final{{"dsp", "sum:momentum=0.9,s=0"}, {0.333326203686, 0.325052860889, 0.164273898096}},
        Final{{"bp", snag, 0.01}, {0.317737410984, 0.231474762875, 0.363865249414}},
        Final{{"dsp", snag, 0.01}, {0.325007866663, 0.342328457166, 0.142901018622}},
        Final{{"ddg", snag, 0.01}, {0.300101991353, 0.269793572458, 0.243542433787}}));

}  // namespace
}  // namespace unlatch::exec
