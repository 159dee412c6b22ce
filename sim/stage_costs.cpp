#include "sim/stage_costs.h"

#include <cstdlib>
#include <utility>

#include "schedules/error.h"
#include "sim/units.h"

namespace unlatch::sim {

namespace {

using Times = std::vector<nanoseconds>;

std::optional<Times> given_times(std::string_view setting, const std::optional<std::string>& text,
                                 int wanted, std::string_view noun) {
  if (!text) return std::nullopt;
  return parse_list(setting, *text, wanted, noun, parse_duration);
}

Times doubled(Times times) {
  for (nanoseconds& t : times) t *= 2;
  return times;
}

/// The half that was not given; B may not be shorter than the other.
Times remainder(const Times& backward, const Times& half, std::string_view setting) {
  Times rest;
  for (std::size_t k = 0; k < half.size(); ++k) {
    require(half[k] <= backward[k],
            "{} {} of stage {} is longer than its whole backward, {}; B = I + W", setting,
            format_duration(half[k]), k, format_duration(backward[k]));
    rest.push_back(backward[k] - half[k]);
  }
  return rest;
}

/// Each was rounded to whole nanoseconds by itself, so that thirds may miss their sum by one.
void require_sum(const CostSettings& settings, const Times& backward, const StageTimes& times) {
  for (std::size_t k = 0; k < backward.size(); ++k) {
    const nanoseconds sum = times.backward_input[k] + times.backward_weight[k];
    require(std::abs((backward[k] - sum).count()) <= 1,
            "{} {} of stage {} contradicts {} {} and {} {}, which sum to {}; B = I + W, so leave "
            "'backward' out",
            settings.place("backward"), format_duration(backward[k]), k,
            settings.place("input-grad"), format_duration(times.backward_input[k]),
            settings.place("weight-grad"), format_duration(times.backward_weight[k]),
            format_duration(sum));
  }
}

void fill_backward(const CostSettings& settings, StageTimes& times) {
  const int stages = times.stages();
  const auto whole = given_times(settings.place("backward"), settings.backward, stages, "stage");
  const auto input =
      given_times(settings.place("input-grad"), settings.input_grad, stages, "stage");
  const auto weight =
      given_times(settings.place("weight-grad"), settings.weight_grad, stages, "stage");
  times.backward = whole.value_or(doubled(times.forward));
  if (input && weight) {
    times.backward_input = *input;
    times.backward_weight = *weight;
    if (whole) require_sum(settings, *whole, times);
    for (int k = 0; k < stages; ++k) times.backward[k] = (*input)[k] + (*weight)[k];
  } else if (input) {
    times.backward_input = *input;
    times.backward_weight = remainder(times.backward, *input, settings.place("input-grad"));
  } else if (weight) {
    times.backward_weight = *weight;
    times.backward_input = remainder(times.backward, *weight, settings.place("weight-grad"));
  } else {
    for (const nanoseconds b : times.backward) times.backward_input.push_back(b / 2);
    times.backward_weight = remainder(times.backward, times.backward_input, "I");
  }
}

void fill_transfers(const CostSettings& settings, StageTimes& times) {
  const int boundaries = times.stages() - 1;
  require(
      !settings.transfer || (!settings.activation_transfer && !settings.gradient_transfer),
      "{} '{}' sets both directions, so {} contradicts it; give either the one or the other two",
      settings.place("transfer"), settings.transfer.value_or(""),
      settings.place(settings.activation_transfer ? "activation-transfer" : "gradient-transfer"));
  const Times none(boundaries, nanoseconds{0});
  const Times both =
      given_times(settings.place("transfer"), settings.transfer, boundaries, "boundary")
          .value_or(none);
  times.activation_transfer = given_times(settings.place("activation-transfer"),
                                          settings.activation_transfer, boundaries, "boundary")
                                  .value_or(both);
  times.gradient_transfer = given_times(settings.place("gradient-transfer"),
                                        settings.gradient_transfer, boundaries, "boundary")
                                .value_or(both);
}

CostTable table_of(const StageTimes& times) {
  CostTable table(times.stages());
  for (const Stage k : up_to<Stage>(times.stages())) {
    table.set(Op::forward, k, times.forward[k.value]);
    table.set(Op::backward, k, times.backward[k.value]);
    table.set(Op::backward_input, k, times.backward_input[k.value]);
    table.set(Op::backward_weight, k, times.backward_weight[k.value]);
    table.set(Op::recompute, k, times.recompute[k.value]);
    table.set(Op::update, k, times.update[k.value]);
    const auto set_if_given = [&](Op op, const Times& given) {
      if (!given.empty()) table.set(op, k, given[k.value]);
    };
    set_if_given(Op::all_reduce, times.all_reduce);
    set_if_given(Op::push_gradients, times.push);
    set_if_given(Op::pull_weights, times.pull);
    if (k.value + 1 < times.stages()) {  // boundary k: activations leave k, gradients leave k+1
      table.set(Op::send_forward, k, times.activation_transfer[k.value]);
      table.set(Op::send_backward, k + 1, times.gradient_transfer[k.value]);
    }
  }
  return table;
}

}  // namespace

StageTimes StageTimes::in_one_piece(int parts) const {
  StageTimes times = *this;
  for (Times* each :
       {&times.forward, &times.backward, &times.backward_input, &times.backward_weight,
        &times.recompute, &times.activation_transfer, &times.gradient_transfer}) {
    for (nanoseconds& t : *each) t *= parts;
  }
  return times;
}

StageTimes StageTimes::for_copies(int copies) const {
  StageTimes times = *this;
  for (int c = 1; c < copies; ++c) {
    const auto append = [](auto& all, const auto& one) {
      all.insert(all.end(), one.begin(), one.end());
    };
    append(times.forward, forward);
    append(times.backward, backward);
    append(times.backward_input, backward_input);
    append(times.backward_weight, backward_weight);
    append(times.recompute, recompute);
    append(times.update, update);
    append(times.all_reduce, all_reduce);
    append(times.push, push);
    append(times.pull, pull);
    append(times.overlap, overlap);
    // Nothing crosses from the last stage of a copy to the first of the next.
    for (auto [all, one] : {std::pair(&times.activation_transfer, &activation_transfer),
                            {&times.gradient_transfer, &gradient_transfer}}) {
      all->emplace_back(0);
      append(*all, *one);
    }
  }
  return times;
}

void StageTimes::take_stage(int k, const StageTimes& other) {
  for (const auto work :
       {&StageTimes::forward, &StageTimes::backward, &StageTimes::backward_input,
        &StageTimes::backward_weight, &StageTimes::recompute, &StageTimes::update}) {
    (this->*work)[k] = (other.*work)[k];
  }
}

StageTimes stage_times(const CostSettings& settings, int stages) {
  const Times one_ms(stages, std::chrono::milliseconds{1});
  StageTimes times;
  times.forward =
      given_times(settings.place("forward"), settings.forward, stages, "stage").value_or(one_ms);
  fill_backward(settings, times);
  times.recompute = given_times(settings.place("recompute"), settings.recompute, stages, "stage")
                        .value_or(times.forward);
  const auto zero_unless = [&](std::string_view flag, const CostSettings::Text& text) {
    return given_times(settings.place(flag), text, stages, "stage")
        .value_or(Times(stages, nanoseconds{0}));
  };
  times.update = zero_unless("update", settings.update);
  times.all_reduce = zero_unless("all-reduce", settings.all_reduce);
  times.push = zero_unless("push", settings.push);
  times.pull = zero_unless("pull", settings.pull);
  fill_transfers(settings, times);
  const auto weight = [](std::string_view setting, std::string_view text) {
    return parse_number(setting, text, 0, 1);
  };
  times.overlap = parse_list(settings.place("overlap"), settings.overlap.value_or("1"), stages,
                             "stage", weight);
  return times;
}

StageCosts::StageCosts(StageTimes times, std::shared_ptr<const Traffic> traffic)
    : times_(std::move(times)), table_(table_of(times_)), traffic_(std::move(traffic)) {}

Links StageCosts::links() const {
  Links links;
  const auto note = [](const std::vector<nanoseconds>& times, std::vector<bool>& takes_time) {
    for (const nanoseconds t : times) takes_time.push_back(t.count() != 0);
  };
  note(times_.activation_transfer, links.activation);
  note(times_.gradient_transfer, links.gradient);
  note(times_.push, links.push);
  note(times_.pull, links.pull);
  return links;
}

}  // namespace unlatch::sim
