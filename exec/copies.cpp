#include "exec/copies.h"

#include <algorithm>
#include <utility>

namespace unlatch::exec {
namespace {

using Kind = Agreement::Kind;

class CopiesOfStages : public Copies {
 public:
  CopiesOfStages(const TaskGraph& graph, std::vector<StageState>& stages)
      : graph_(graph), stages_(stages), copies_(stages.size()) {
    for (const Stage k : up_to<Stage>(shape().stages)) start_copy(k);
    if (!has_server()) return;
    for (const Stage k : up_to<Stage>(shape().stages_a_copy())) {
      servers_.push_back({.weights = module_of(k).initial_weights()});
      if (agreement().compensation.adaptive) servers_.back().mean_square = zeros(k);
    }
    if (agreement().kind == Kind::server) find_readers();
  }

  bool has_server() const override { return agreement().has_server(); }
  const Tensor& server_weights(Stage model_stage) const override {
    return servers_[model_stage.value].weights;
  }
  /// Brought to the copy's device by its first reader.
  const Tensor& sent(const Task& task) override {
    Tensor& weights = copies_[task.stage.value].sent[task.version];
    Tensor here = module_of(task.stage).received(weights);
    const bool came = here.data<std::byte>() != weights.data<std::byte>();
    if (came) weights = std::move(here);
    return weights;
  }

  Tensor& gradient_of(Stage k, int batch) override {
    if (agreement().kind != Kind::delayed) return stages_[k.value].gradient;
    Slot& slot = copies_[k.value].slots[batch % 2];
    if (std::exchange(slot.batch, batch) != batch) math_of(k).clear(slot.gradient);
    return slot.gradient;
  }

  void all_reduce(const Task& task, double rate) override {
    switch (agreement().kind) {
      case Kind::sum:
        return sum_gradients(task);
      case Kind::average:
        return average_weights(task);
      case Kind::delayed:
        return update_server(task, rate);
      case Kind::server:
        return;  // its graphs hold no AR
    }
  }

  void update(const Task& task, double rate) override {
    StageState& stage = stages_[task.stage.value];
    if (agreement().kind == Kind::server) return serve(task, rate);
    if (agreement().kind == Kind::delayed) return step_alone(task, rate);
    stage.module->update(stage.weights, stage.gradient, rate);
  }

  void visit_state(StateVisitor& visitor) override {
    for (std::size_t k = 0; k < copies_.size(); ++k) {
      const StateVisitor::Scope scope(visitor, fmt::format("copy of stage {}", k));
      visit_copy(visitor, copies_[k]);
    }
    for (std::size_t k = 0; k < servers_.size(); ++k) {
      const StateVisitor::Scope scope(visitor, fmt::format("server of stage {}", k));
      visitor.parameters("weights", servers_[k].weights);
      visitor.parameters("mean square", servers_[k].mean_square);
    }
  }

 private:
  /// delayed: of the batches of one parity.
  struct Slot {
    Tensor gradient;
    int batch = -1;
    Tensor pulled;  ///< the server's weights after that batch, where the copy pulls them
  };
  struct Copy {
    Slot slots[2];
    Tensor earlier;  ///< w_pre of the local step
    int local_steps = 0;
    std::vector<Tensor> sent;  ///< server: by version, while the copy reads it
    ParameterMath::Gathered gathered;
  };
  struct Server {
    Tensor weights;
    Tensor mean_square = {};                       ///< of adaptive compensation
    std::vector<std::vector<Stage>> readers = {};  ///< by version: copies that it is sent to
  };

  const Shape& shape() const { return graph_.shape(); }
  const Agreement& agreement() const { return graph_.learning().agreement; }
  bool compresses() const { return agreement().compression.ratio < 1; }
  StageModule& module_of(Stage k) { return *stages_[k.value].module; }
  ParameterMath& math_of(Stage k) { return module_of(k).math(); }
  Tensor zeros(Stage k) { return module_of(k).zero_gradient(); }
  Server& server_of(Stage k) { return servers_[shape().model_stage(k).value]; }

  void start_copy(Stage k) {
    Copy& copy = copies_[k.value];
    if (agreement().kind == Kind::delayed) {
      for (Slot& slot : copy.slots) slot.gradient = zeros(k);
    }
    if (compresses()) copy.gathered = {.momentum = zeros(k), .sum = zeros(k)};
  }

  static void visit_copy(StateVisitor& visitor, Copy& copy) {
    for (int parity = 0; parity < 2; ++parity) {
      const StateVisitor::Scope scope(visitor, parity == 0 ? "even batches" : "odd batches");
      Slot& slot = copy.slots[parity];
      visitor.number(slot.batch);
      visitor.parameters("gradient", slot.gradient);
      visitor.parameters("pulled", slot.pulled);
    }
    visitor.parameters("earlier", copy.earlier);
    visitor.number(copy.local_steps);
    visitor.parameters("gathered momentum", copy.gathered.momentum);
    visitor.parameters("gathered sum", copy.gathered.sum);
    const StateVisitor::Scope scope(visitor, "sent");
    if (visitor.restores()) std::ranges::fill(copy.sent, Tensor{});  // but for the first ones
    const auto in_use = [&](int version) { return !copy.sent[version].empty(); };
    visit_places(visitor, static_cast<int>(copy.sent.size()), in_use, [&](int version) {
      visitor.parameters(std::to_string(version), copy.sent.at(version));
    });
  }

  void find_readers() {
    const int updates = shape().copies * shape().batches;
    for (Copy& copy : copies_) copy.sent.resize(updates + 1);
    for (Server& server : servers_) server.readers.resize(updates + 1);
    for (const Task& task : graph_.tasks()) {
      if (task.op != Op::forward) continue;
      std::vector<Stage>& readers = server_of(task.stage).readers[task.version];
      if (std::ranges::find(readers, task.stage) == readers.end()) readers.push_back(task.stage);
    }
    for (const Stage k : up_to<Stage>(shape().stages)) {
      copies_[k.value].sent[0] = server_of(k).weights;
    }
  }

  std::vector<Tensor*> all_copies(Stage model_stage, Tensor StageState::*part) {
    std::vector<Tensor*> tensors;
    for (const Stage k : shape().in_all_copies(model_stage)) {
      tensors.push_back(&(stages_[k.value].*part));
    }
    return tensors;
  }

  void sum_gradients(const Task& task) {
    for (const Stage k : shape().in_all_copies(task.stage)) {
      if (!compresses()) break;
      math_of(k).compress(agreement().compression, task.version, copies_[k.value].gathered,
                          stages_[k.value].gradient);
    }
    const auto gradients = all_copies(task.stage, &StageState::gradient);
    module_of(task.stage).all_reduce(gradients, 1.0);
  }

  void average_weights(const Task& task) {
    const auto weights = all_copies(task.stage, &StageState::weights);
    module_of(task.stage).all_reduce(weights, 1.0 / shape().copies);
  }

  /// One copy's gradient steps the server's weights, which go to the copies that read them next.
  void serve(const Task& task, double rate) {
    StageState& stage = stages_[task.stage.value];
    Server& server = server_of(task.stage);
    Tensor& last_sent = copies_[task.stage.value].sent[stage.version];
    server.weights = stage.module->received(std::move(server.weights));
    if (agreement().compensation.lambda != 0) {
      stage.module->math().compensate(agreement().compensation, server.mean_square, stage.gradient,
                                      server.weights, last_sent);
    }
    last_sent = {};
    step_server(task, stage.gradient, rate);
    const int version = task.version + 1;
    for (const Stage reader : server.readers[version]) {
      copies_[reader.value].sent[version] = server.weights;
    }
  }

  /// Those who were sent the weights of before keep them: the step is taken on a copy.
  void step_server(const Task& task, Tensor& gradient, double rate) {
    Server& server = server_of(task.stage);
    StageModule& module = module_of(shape().model_stage(task.stage));
    server.weights = module.copy_of(server.weights);
    module.update(server.weights, gradient, rate);
  }

  /// The sum of all copies' gradients of a batch steps the server's weights.
  void update_server(const Task& task, double rate) {
    const int batch = task.version;
    const auto gradient = [&](Stage k) { return copies_[k.value].slots[batch % 2].gradient; };
    Tensor sum = module_of(task.stage).copy_of(gradient(task.stage));
    for (const Stage k : shape().in_all_copies(task.stage)) {
      if (k != task.stage) math_of(task.stage).add(gradient(k), sum);  // AR has the first copy's
    }
    step_server(task, sum, rate);
    if (!agreement().pulls(batch)) return;
    for (const Stage k : shape().in_all_copies(task.stage)) {
      copies_[k.value].slots[batch % 2].pulled = server_of(task.stage).weights;
    }
  }

  /// Warm-up: the server's weights. Then the local step, from weights pulled since the last one.
  void step_alone(const Task& task, double rate) {
    const int batch = task.version;
    StageState& stage = stages_[task.stage.value];
    Copy& copy = copies_[task.stage.value];
    const auto take = [&](Slot& slot) {
      if (!slot.pulled.empty())
        stage.weights = stage.module->copy_of(std::exchange(slot.pulled, {}));
    };
    if (batch < agreement().warm_up) return take(copy.slots[batch % 2]);
    take(copy.slots[(batch + 1) % 2]);
    if (copy.local_steps++ % agreement().period == 0) {
      copy.earlier = stage.module->copy_of(stage.weights);
    }
    const LocalStep& step = agreement().local_step;
    stage.module->math().local_step(step, stage.weights, copy.slots[batch % 2].gradient,
                                    copy.earlier,
                                    rate * (step.rate > 0 ? step.rate : shape().copies));
  }

  const TaskGraph& graph_;
  std::vector<StageState>& stages_;
  std::vector<Copy> copies_;     ///< by stage
  std::vector<Server> servers_;  ///< by stage of the model
};

}  // namespace

std::unique_ptr<Copies> make_copies(const TaskGraph& graph, std::vector<StageState>& stages) {
  if (graph.shape().copies == 1) return nullptr;
  return std::make_unique<CopiesOfStages>(graph, stages);
}

}  // namespace unlatch::exec
