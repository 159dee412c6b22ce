#include "tests/exec/model_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "exec/data_feed.h"
#include "exec/dnn_threads.h"
#include "exec/evaluate.h"
#include "schedules/registry.h"
#include "tests/support/variants.h"

namespace unlatch::exec {
namespace {

bool has_replicas_by_itself(const Method& method) {
  return std::ranges::find(method.keys, inside_key, &Key::name) != method.keys.end();
}

/// Local heads belong to one copy of the model.
bool can_have_replicas(const Method& method) {
  return !has_replicas_by_itself(method) && method.name != "dgl" && method.name != "dni";
}

/// Micro-batches a replica; 0 if the schedule does not run there.
int parts_for(const ScheduleSpec& spec, const Shape& shape) {
  for (const int parts : {4, 2, 8, 1}) {
    Shape asked = shape;
    asked.micro_batches = parts;
    if (!testing_support::runs(spec, asked)) continue;
    if (case_batch % spec.effective(asked).micro_batches == 0) return parts;
  }
  return 0;
}

/// What a method runs on: so many ranks a replica.
struct Site {
  int ranks, replicas;
};
constexpr Site sites[] = {{1, 1}, {2, 1}, {3, 1}, {2, 2}};

Shape shape_at(const Site& site, const Method& method) {
  const int chunks = method.chunks.usual;
  return {.stages = site.ranks * chunks,
          .chunks = chunks,
          .replicas = has_replicas_by_itself(method) ? 2 : site.replicas};
}

/// Nothing where the schedule does not run.
std::optional<NetworkRun> run_at(const Site& site, const Method& method, const std::string& text,
                                 const ModelCase& model, int layers) {
  const Shape shape = shape_at(site, method);
  if (site.replicas > 1 && !can_have_replicas(method)) return std::nullopt;
  const ScheduleSpec spec = ScheduleSpec::parse(text);
  const int parts = shape.stages > layers ? 0 : parts_for(spec, shape);
  if (parts == 0) return std::nullopt;
  return NetworkRun{.schedule = text,
                    .model = model.model,
                    .data = model.data,
                    .stages = shape.stages,
                    .chunks = shape.chunks,
                    .micro_batches = spec.pipeline().uses_micro_batches ? parts : 1,
                    .replicas = shape.replicas,
                    .batches = 1,
                    .optimizer = "sgd",
                    .batch_size = case_batch};
}

/// On the first site that it runs on, from the one whose turn it is.
std::optional<NetworkRun> run_in_turn(std::size_t turn, const Method& method,
                                      const std::string& text, const ModelCase& model, int layers) {
  std::optional<NetworkRun> run;
  for (std::size_t n = 0; n < std::size(sites) && !run; ++n) {
    run = run_at(sites[(turn + n) % std::size(sites)], method, text, model, layers);
  }
  return run;
}

/// Lists of a number a stage are as long as 2 ranks have stages.
std::vector<std::string> texts_of(const Method& method, const ModelCase& model) {
  if (model.schedules != ModelCase::Schedules::all_keys) return {std::string(method.name)};
  const int chunks = method.chunks.usual;
  return testing_support::variants(method, 2 * chunks, chunks);
}

std::vector<models::StageRange> whole(const models::Model& model) {
  return models::uniform_partition(static_cast<int>(model.layers.size()), 1);
}

}  // namespace

const std::vector<ModelCase>& model_cases() {
  using enum ModelCase::Schedules;
  const std::string files = UNLATCH_SOURCE_DIR "/tests/exec/data/";
  static const std::vector<ModelCase> cases{
      {files + "dropout_mlp.json", "digits", all_keys},
      {"mlp:hidden=12/10/8", "digits", all_shapes},
      {"lenet:dropout=0.4"},
      {"resnet8:input=data,width=8"},
      {"resnet20:input=data,width=8", "digits", some},
      {"vgg11:width=4,norm=no,dropout=0.3", "synthetic:3x32x32,samples=40"},
      {"wrn-10-1:input=data,width=8,dropout=0.3"},
      {"resnext11:input=data,width=4,cardinality=2", "digits", some},
      {"preresnet11:input=data,width=8"},
      {"transformer:layers=2,width=8,heads=2,sequence=8", "text"},
      {files + "dropout_transformer.json", "text"},
      {files + "branches.json"},
  };
  return cases;
}

models::Model model_of(const ModelCase& model) {
  const models::Dataset& data = loaded_data(model.data).train;
  return models::make_model(model.model, data.shape, data.classes);
}

std::vector<NetworkRun> runs_of_every_schedule(const ModelCase& model) {
  using enum ModelCase::Schedules;
  const auto layers = static_cast<int>(model_of(model).layers.size());
  auto turn = static_cast<std::size_t>(
      std::ranges::find(model_cases(), model.model, &ModelCase::model) - model_cases().begin());
  std::vector<NetworkRun> runs;
  const auto add = [&](const std::optional<NetworkRun>& run) {
    if (run) runs.push_back(*run);
  };
  for (const Method& method : methods()) {
    for (const std::string& text : texts_of(method, model)) {
      ++turn;
      if (model.schedules == some && turn % 3 != 0) continue;
      if (model.schedules == all_shapes) {
        for (const Site& site : sites) add(run_at(site, method, text, model, layers));
        continue;
      }
      const auto run = run_in_turn(turn, method, text, model, layers);
      EXPECT_TRUE(run) << text << " runs nowhere";
      add(run);
    }
  }
  return runs;
}

std::string described(const NetworkRun& run) {
  return fmt::format("{}, {}, {} stages, {} a rank, {} parts, {} replicas", run.model, run.schedule,
                     run.stages, run.chunks, run.micro_batches, run.replicas);
}

int for_every_run(const std::function<bool(const ModelCase&, NetworkRun)>& visit) {
  int visits = 0;
  for (const ModelCase& model : model_cases()) {
    for (const NetworkRun& run : runs_of_every_schedule(model)) {
      SCOPED_TRACE(described(run));
      visits += visit(model, run) ? 1 : 0;
    }
  }
  testing::Test::RecordProperty("runs", visits);
  return visits;
}

Shape shape_of(const NetworkRun& run) {
  return {.stages = run.stages,
          .chunks = run.chunks,
          .micro_batches = run.micro_batches,
          .replicas = run.replicas};
}

ByHand::ByHand(const ModelCase& model, int parts)
    : data_(loaded_data(model.data).train),
      model_(model_of(model)),
      parts_(parts),
      order_(models::BatchSizes(data_.samples(), {.batch_size = case_batch}), network_seed),
      stage_(
          std::move(make_dnn_stages(model_, whole(model_),
                                    {.micro_batch_size = case_batch / parts, .seed = network_seed})
                        .front())),
      initial_(joined_weights(std::vector{stage_->initial_weights()})) {}

const ByHand::Batch& ByHand::batch(int number) {
  const auto found = batches_.find(number);
  if (found != batches_.end()) return found->second;
  return batches_.emplace(number, computed(number)).first->second;
}

ByHand::Batch ByHand::computed(int number) {
  const OneMathsThread one_thread;
  Batch batch;
  const Tensor weights = stage_->initial_weights();
  Tensor gradient = stage_->zero_gradient();
  for (int part = 0; part < parts_; ++part) {
    const int size = case_batch / parts_;
    const std::vector<int> samples = order_.indices(number, part * size, size);
    std::unique_ptr<StageModule::Tape> tape;
    const Tensor output =
        stage_->forward(weights, input_of(data_, samples, model_.input, pool_),
                        {StageModule::Pass::normal, number, part * size}, &tape, workspace_);
    Tensor error;
    batch.losses.push_back(
        stage_->loss(output, target_of(data_, samples, pool_), 1.0 / parts_, &error, workspace_)
            .loss);
    stage_->backward(weights, *tape, error, 1, false, gradient, workspace_);
  }
  batch.gradient = joined_weights(std::vector{gradient});
  return batch;
}

std::vector<float> ByHand::stepped(const std::vector<float>& gradient, double rate) {
  Tensor weights = stage_->initial_weights();
  Tensor step = stage_->zero_gradient();
  std::ranges::copy(gradient, step.data<float>());
  stage_->update(weights, step, rate);
  return joined_weights(std::vector{weights});
}

ByHand& by_hand(const ModelCase& model, int parts) {
  static std::map<std::pair<std::string, int>, ByHand> all;
  return all.try_emplace({model.model, parts}, model, parts).first->second;
}

ByHand& at_once_by_hand(const ModelCase& model, int parts) {
  return by_hand(model, by_hand(model, parts).is_normed() ? parts : 1);
}

Schedule in_opposite_order(const Schedule& schedule) {
  const Shape& shape = schedule.shape();
  Schedule opposite(schedule.specification(), shape);
  opposite.learning() = schedule.learning();
  for (const Stage k : up_to<Stage>(shape.stages)) opposite.place(k, schedule.rank_of(k));
  const int share = shape.micro_batches / shape.copies;
  for (const Rank r : up_to<Rank>(shape.ranks())) {
    for (ProgramItem item : schedule.programs()[r.value].items()) {
      const int place = item.micro_batch.value % share;
      const bool is_update = item.kind == ProgramItem::Kind::task && item.op == Op::update;
      if (!is_update) item.micro_batch = item.micro_batch + (share - 1 - 2 * place);
      opposite.on(r).append(item);
    }
  }
  return opposite;
}

}  // namespace unlatch::exec
