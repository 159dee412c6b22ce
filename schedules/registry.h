// The catalogue: every schedule by name, with its source, keys and promises.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "schedules/schedule.h"

namespace unlatch {

/// The value of a schedule's key: a word, a number, or a list of one whole number a stage.
using OptionValue = std::variant<std::string, double, std::vector<int>>;

/// The keys of one schedule, each with its resolved value, in the order of the catalogue.
class Options {
 public:
  void set(std::string key, OptionValue value);
  bool is(std::string_view key, std::string_view word) const;
  const std::string& word(std::string_view key) const;
  double number(std::string_view key) const;
  const std::vector<int>& list(std::string_view key) const;
  const OptionValue* find(std::string_view key) const;
  const std::vector<std::pair<std::string, OptionValue>>& all() const& { return values_; }

 private:
  std::vector<std::pair<std::string, OptionValue>> values_;
};

/// A key's whole number; throws Error, naming the method, unless it lies between least and most.
int whole_number(const Options& options, std::string_view method, std::string_view key, int least,
                 int most);

/// What a schedule keeps to in the steady state; checked against the graph by every_schedule_test.
struct Promise {
  std::vector<int> forward_staleness;  ///< per stage, in updates
  std::vector<int> weight_staleness;   ///< per stage, in updates
  std::vector<int> weight_versions;    ///< per stage, most alive at once
  std::vector<int> activations;        ///< per stage, most tapes alive at once
  std::vector<int> inputs;             ///< per stage, most stored inputs alive at once
  /// Longest span of a rank (first start to last end) less its work, for one batch where every
  /// stage has F=I=W=1 and transfers are free; empty where no formula is known.
  std::optional<int> idle = {};
};

/// Another key's words without which a key has no effect.
struct OnlyWith {
  std::string_view key;
  std::vector<std::string_view> words;
};

/// One key that a specification may set.
struct Key {
  std::string_view name;
  enum class Type { word, number, per_stage } type = Type::word;
  std::vector<std::string_view> words =
      {};                      ///< valid words, the default first; per_stage: extra words
  double default_number = 0;   ///< numbers only
  std::string_view help = {};  ///< one line for the catalogue
  std::optional<OnlyWith> only_with = {};  ///< numbers only
};

/// Which locks of back-propagation a method opens.
struct Locks {
  bool forward = false, backward = false, update = false;
};

/// The key that names the pipeline in each replica of a data-parallel method.
inline constexpr std::string_view inside_key = "inside";

/// No limit on the stages of a rank.
inline constexpr int many_chunks = 1 << 20;

/// Stages a rank: what a method takes when nobody says, and what it can run.
struct Chunks {
  int usual = 1, least = 1, most = 1;
};

struct Method {
  std::string_view name;
  std::string_view title;   ///< "Diversely stale parameters"
  std::string_view source;  ///< paper and place
  Locks breaks;
  bool synchronous = true;
  bool uses_micro_batches = false;  ///< else a batch runs in one piece, whatever M was asked
  Chunks chunks = {};
  int copies = 1;  ///< of the model on the same ranks, each with half of the micro-batches
  std::string_view staleness;  ///< formula of the forward staleness of stage k
  std::string_view memory;     ///< formula of what rank k keeps
  std::vector<Key> keys;
  /// Fills defaults that depend on the shape and checks combinations; throws Error.
  std::function<void(const Shape&, Options&)> resolve;
  std::function<Schedule(const Shape&, const Options&)> make;
  std::function<Promise(const Shape&, const Options&)> promise;
  /// What replicas change in the promise of one, given the whole shape; empty for nothing.
  std::function<void(const Shape& whole, const Options&, Promise&)> promise_of_replicas = {};
  /// The one shape that it has, as commands ask for it: of a schedule that was read from a file.
  std::optional<Shape> own_shape = {};
};

/// All methods, in the order of the catalogue.
const std::vector<Method>& methods();
/// Throws Error that lists the closest names.
const Method& find_method(std::string_view name);

/// A schedule as somebody asked for it: NAME[:key=value[,key=value...]].
class ScheduleSpec {
 public:
  /// Throws Error for an unknown name, key or value, with the closest valid ones.
  static ScheduleSpec parse(std::string_view text);
  /// A method that is not of the catalogue, such as that of a schedule file.
  static ScheduleSpec of(std::shared_ptr<const Method> method);

  const Method& method() const { return *method_; }
  /// The method of the pipeline in each replica: another one where the key `inside` names it.
  const Method& pipeline() const;
  /// The shape it really runs, from the one that was asked for, which says stages, chunks and
  /// micro-batches of one replica: 1 micro-batch for a method without micro-batches, and room for
  /// all copies and replicas of the model. An effective shape stays as it is.
  Shape effective(Shape shape) const;
  /// Every key with its resolved value for this shape. Throws Error for a shape that the method
  /// cannot run.
  Options options(const Shape& shape) const;
  /// The programs; Schedule::build() makes the graph. Takes the effective shape itself.
  Schedule make(const Shape& shape) const;
  Promise promise(const Shape& shape) const;
  /// As given, blanks removed: what heads and file names show.
  const std::string& text() const { return text_; }

 private:
  std::shared_ptr<const Method> method_;  ///< owns nothing where it points into the catalogue
  std::string text_;
  std::vector<std::pair<std::string, std::string>> given_;
};

}  // namespace unlatch
