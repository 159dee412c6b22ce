#include "files/message_checks.h"

#include <algorithm>
#include <map>

#include "files/action_places.h"
#include "schedules/error.h"

namespace unlatch::files {
namespace {

class Checker {
 public:
  Checker(const ActionTable& table, const Schedule& schedule)
      : table_(table), schedule_(schedule), places_(first_places(table, schedule.shape())) {}

  std::vector<Violation> check() {
    check_places();
    if (!has_messages(table_)) return std::move(violations_);
    for (std::size_t r = 0; r < table_.rows.size(); ++r) {
      for (const Action& action : table_.rows[r]) {
        if (is_compute(action.kind)) check_messages_of(action, static_cast<int>(r));
        if (is_message(action.kind)) check_message(action, static_cast<int>(r));
      }
    }
    check_directions();
    return std::move(violations_);
  }

 private:
  /// Of shards and messages: a known stage and micro-batch, the right rank, once.
  void check_places() {
    for (std::size_t r = 0; r < table_.rows.size(); ++r) {
      const ActionRow& row = table_.rows[r];
      const auto rank = static_cast<std::int32_t>(r);
      for (std::size_t j = 0; j < row.size(); ++j) {
        const Action& action = row[j];
        if (is_compute(action.kind)) continue;
        if (!takes_micro_batch(action.kind)) {
          check_stage_of_shard(action, rank);
        } else if (!places_.covers(action)) {
          report_range(action, rank);
        } else {
          const Place first = places_.at(action);
          const bool again = first.row != rank || first.position != static_cast<std::int32_t>(j);
          if (again) report_twice(action, first, rank);
        }
      }
    }
  }

  bool is_known(Stage k) const { return k.value >= 0 && k.value < schedule_.shape().stages; }

  void check_stage_of_shard(const Action& action, int rank) {
    if (!is_known(action.stage)) return report_range(action, rank);
    if (schedule_.rank_of(action.stage).value == rank) return;
    report("placement", action, rank,
           fmt::format("stage {} is on rank {}", action.stage.value,
                       schedule_.rank_of(action.stage).value));
  }

  /// A message of the table: between two ranks, on the right one, after its producer, with its
  /// other end.
  void check_message(const Action& action, int rank) {
    if (!places_.covers(action)) return;
    const Action other = partner(action);
    if (!places_.covers(other)) {
      return report("range", action, rank,
                    fmt::format("there is no stage {} at the other end", other.stage.value));
    }
    const int mine = schedule_.rank_of(action.stage).value;
    const int theirs = schedule_.rank_of(other.stage).value;
    if (mine != rank) {
      return report("placement", action, rank,
                    fmt::format("stage {} is on rank {}", action.stage.value, mine));
    }
    if (mine == theirs) {
      return report(
          "placement", action, rank,
          fmt::format("stage {} is on the same rank, which needs no message", other.stage.value));
    }
    if (places_.at(other).row < 0) {
      report("missing", action, rank,
             fmt::format("its other end {} is missing on rank {}", label(other), theirs));
    }
    if (!is_send(action.kind)) return;
    const Place producer = producer_of(action);
    if (producer.row != rank || producer.position < places_.at(action).position) return;
    report("order", action, rank,
           fmt::format("what it sends is made later, in column {}", producer.column));
  }

  Place producer_of(const Action& send) const {
    if (send.kind == ActionKind::send_forward) return places_.at(as(ActionKind::forward, send));
    const Place whole = places_.at(as(ActionKind::backward, send));
    return whole.row >= 0 ? whole : places_.at(as(ActionKind::backward_input, send));
  }

  /// A computation needs the receive of what comes from another rank before it, and its result
  /// must be sent.
  void check_messages_of(const Action& action, int rank) {
    if (!places_.covers(action) || schedule_.rank_of(action.stage).value != rank) return;
    const bool forward = action.kind == ActionKind::forward;
    if (!forward && !gives_input_gradient(action.kind)) return;
    const int towards_input = forward ? -1 : 1;
    if (comes_from_elsewhere(action.stage + towards_input, rank)) {
      const Action receive =
          as(forward ? ActionKind::receive_forward : ActionKind::receive_backward, action);
      const Place place = places_.at(receive);
      if (place.row < 0) {
        report("missing", action, rank, fmt::format("{} is missing before it", label(receive)));
      } else if (place.row == rank && place.position > places_.at(action).position) {
        report("order", action, rank,
               fmt::format("{} comes later, in column {}", label(receive), place.column));
      }
    }
    if (comes_from_elsewhere(action.stage - towards_input, rank)) {
      const Action send =
          as(forward ? ActionKind::send_forward : ActionKind::send_backward, action);
      if (places_.at(send).row < 0) {
        report("missing", action, rank, fmt::format("{} is missing after it", label(send)));
      }
    }
  }

  bool comes_from_elsewhere(Stage k, int rank) const {
    return is_known(k) && schedule_.rank_of(k).value != rank;
  }

  /// Messages of one direction between two ranks are matched in order, so both rows must agree.
  void check_directions() {
    std::map<std::pair<int, int>, std::int32_t> newest;  // by sender and receiver
    std::map<std::pair<int, int>, Action> newest_send;
    for (std::size_t r = 0; r < table_.rows.size(); ++r) {
      for (const Action& action : table_.rows[r]) {
        if (!is_message(action.kind) || !is_send(action.kind)) continue;
        const Place place = places_.at(partner(action));
        if (place.row < 0 || place.row == static_cast<int>(r)) continue;
        const std::pair direction{static_cast<int>(r), static_cast<int>(place.row)};
        const auto [found, added] = newest.try_emplace(direction, place.position);
        if (!added && place.position < found->second) {
          report(
              "order", action, static_cast<int>(r),
              fmt::format("rank {} sends {} first, but rank {} receives {} first; messages of "
                          "one direction keep their order",
                          r, label(newest_send.at(direction)), place.row, label(partner(action))));
        }
        found->second = std::max(found->second, place.position);
        newest_send.insert_or_assign(direction, action);
      }
    }
  }

  void report(std::string rule, const Action& action, int rank, std::string_view why) {
    violations_.push_back(violation_at(std::move(rule), action, rank, why));
  }
  void report_range(const Action& action, int rank) {
    report("range", action, rank,
           fmt::format("stages are 0..{} and micro-batches 0..{}", schedule_.shape().stages - 1,
                       schedule_.shape().micro_batches - 1));
  }
  void report_twice(const Action& action, const Place& first, int rank) {
    report("duplicate", action, rank,
           fmt::format("it stands at row {}, column {} already", first.row, first.column));
  }

  const ActionTable& table_;
  const Schedule& schedule_;
  TaskIndex<Place> places_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> message_violations(const ActionTable& table, const Schedule& schedule) {
  return Checker(table, schedule).check();
}

}  // namespace unlatch::files
