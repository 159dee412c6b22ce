// The native form: every schedule of the catalogue survives it, and what it refuses.
#include "files/native_json.h"

#include <gmock/gmock.h>
#include <regex.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "schedules/error.h"
#include "tests/support/variants.h"

namespace unlatch::files {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

/// POSIX's, since std::regex of GCC 12 does not compile without false warnings under a sanitizer.
bool matches(const std::string& text, const std::string& pattern) {
  regex_t compiled;
  if (regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return false;
  const bool found = regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  regfree(&compiled);
  return found;
}

void expect_same(const TaskGraph& a, const TaskGraph& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_EQ(a.schedule(), b.schedule());
  EXPECT_EQ(a.learning(), b.learning());
  EXPECT_TRUE(std::ranges::equal(a.lanes(), b.lanes()));
  EXPECT_TRUE(std::ranges::equal(a.tasks(), b.tasks()));
  for (const TaskId id : a.ids()) {
    ASSERT_TRUE(std::ranges::equal(a.edges_into(id), b.edges_into(id))) << label(a.task(id));
  }
  for (const Stage k : up_to<Stage>(a.shape().stages)) EXPECT_EQ(a.rank_of(k), b.rank_of(k));
}

/// Calls visit(schedule) for every variant over small shapes that it runs.
template <class Visit>
void for_every_schedule(const Visit& visit) {
  for (const Method& method : methods()) {
    int visited = 0;
    const int v = method.chunks.usual;
    for (const int ranks : {1, 2, 4}) {
      for (const std::string& text : testing_support::variants(method, ranks * v, v)) {
        const ScheduleSpec spec = ScheduleSpec::parse(text);
        const Shape size{.stages = ranks * v, .chunks = v};
        for (const int m : {testing_support::parts_that_run(spec, size, {1}),
                            testing_support::parts_that_run(spec, size, {8})}) {
          for (const int batches : {1, 3}) {
            for (const bool drain : {true, false}) {
              const Shape shape{.stages = ranks * v,
                                .chunks = v,
                                .micro_batches = m,
                                .batches = batches,
                                .drain = drain};
              if (!testing_support::runs(spec, shape)) continue;
              SCOPED_TRACE(fmt::format("{} P={} M={} batches={}", text, ranks, m, batches));
              visit(spec.make(shape));
              ++visited;
              if (testing::Test::HasFatalFailure()) return;
            }
          }
        }
      }
    }
    EXPECT_GT(visited, 0) << method.name;
  }
}

TEST(NativeJson, GivesBackEveryScheduleOfTheCatalogue) {
  for_every_schedule([](const Schedule& schedule) {
    const NativeSchedule read = parse_native_json(native_json(schedule));
    ASSERT_THAT(read.problems, IsEmpty());
    expect_same(schedule.build(), read.schedule.build());
    EXPECT_EQ(native_json(read.schedule), native_json(schedule));
  });
}

TEST(NativeJson, GivesBackReplicas) {
  const Shape shape{.stages = 2, .micro_batches = 4, .batches = 2, .replicas = 2};
  const Schedule schedule = ScheduleSpec::parse("1f1b").make(shape);
  ASSERT_EQ(schedule.shape().copies, 2);
  expect_same(schedule.build(), parse_native_json(native_json(schedule)).schedule.build());
}

TEST(NativeJson, GivesBackQueuesAndExplicitVersions) {
  Schedule schedule("mine", {.stages = 2, .micro_batches = 1, .batches = 3});
  for (const MicroBatch i : up_to<MicroBatch>(3)) {
    const int version = std::max(0, i.value - 1);
    schedule.on({0}).forward({0}, i, version).push_forward({0}, i, 2).pop_backward({0}, i);
    schedule.on({0}).backward({0}, i, Weights::as_forward).update({0}, i).next_step();
    schedule.on({1}).pop_forward({1}, i).forward({1}, i).backward({1}, i).push_backward({1}, i);
    schedule.on({1}).update({1}, i).next_step();
  }
  expect_same(schedule.build(), parse_native_json(native_json(schedule)).schedule.build());
}

// A validator in small: what the published schema says of the keys and words used here.
class Schema {
 public:
  Schema() {
    std::ifstream in(UNLATCH_SOURCE_DIR "/files/schedule.schema.json");
    in >> root_;
  }

  void expect_valid(const json& value, const json& schema, const std::string& place) const {
    if (schema.contains("$ref")) {
      const std::string name = schema["$ref"].get<std::string>().substr(1);
      return expect_valid(value, root_.at(json::json_pointer(name)), place);
    }
    EXPECT_TRUE(fits(value, schema)) << place << ": " << value.dump().substr(0, 200);
  }
  const json& root() const { return root_; }

 private:
  bool fits(const json& value, const json& schema) const {
    if (schema.contains("$ref")) {
      const std::string name = schema["$ref"].get<std::string>().substr(1);
      return fits(value, root_.at(json::json_pointer(name)));
    }
    if (schema.contains("const") && value != schema["const"]) return false;
    if (schema.contains("enum") &&
        std::ranges::find(schema["enum"], value) == schema["enum"].end()) {
      return false;
    }
    if (schema.contains("oneOf")) {
      return std::ranges::count_if(schema["oneOf"],
                                   [&](const json& one) { return fits(value, one); }) == 1;
    }
    if (schema.contains("type") && !is(value, schema["type"])) return false;
    if (schema.contains("minimum") && value < schema["minimum"]) return false;
    if (schema.contains("pattern")) {
      return matches(value.get<std::string>(), schema["pattern"].get<std::string>());
    }
    if (value.is_array() && schema.contains("items")) {
      return std::ranges::all_of(value,
                                 [&](const json& item) { return fits(item, schema["items"]); });
    }
    return !value.is_object() || fits_object(value, schema);
  }

  bool fits_object(const json& value, const json& schema) const {
    for (const json& key : schema.value("required", json::array())) {
      if (!value.contains(key.get<std::string>())) return false;
    }
    const json known = schema.value("properties", json::object());
    return std::ranges::all_of(value.items(), [&](const auto& item) {
      return known.contains(item.key()) && fits(item.value(), known[item.key()]);
    });
  }

  static bool is(const json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    return type == "boolean" && value.is_boolean();
  }

  json root_;
};

TEST(NativeJson, KeepsToItsPublishedSchema) {
  const Schema schema;
  for (const char* text : {"1f1b", "gpipe:recompute=always", "ddg", "fr", "fdg:form=queue", "dsp",
                           "dsp:form=lockstep"}) {
    const Shape shape{.stages = 3, .micro_batches = 2, .batches = 4};
    const Schedule schedule = ScheduleSpec::parse(text).make(shape);
    schema.expect_valid(json::parse(native_json(schedule)), schema.root(), text);
  }
}

const std::string small = R"({"format":"unlatch-schedule","version":1,
  "shape":{"stages":1,"microbatches":1},"programs":[["0F0","0B0","0U0"]]})";

std::string refusal(const std::string& text) {
  try {
    parse_native_json(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = small;
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(NativeJson, NeedsLittle) {
  EXPECT_EQ(parse_native_json(small).schedule.build().size(), 3);
  EXPECT_THAT(parse_native_json(small).schedule.violations(), IsEmpty());
}

TEST(NativeJson, SaysWhatIsWrongWithTheDocument) {
  EXPECT_THAT(refusal("{\"format\":\n  oops}"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("[]"), HasSubstr("the document must be an object"));
  EXPECT_THAT(refusal(replaced("\"format\"", "\"fromat\"")),
              AllOf(HasSubstr("no key 'fromat'"), HasSubstr("Did you mean 'format'?")));
  EXPECT_THAT(refusal(replaced("\"version\":1", "\"version\":2")), HasSubstr("version"));
  EXPECT_THAT(refusal(replaced("\"version\":1", "\"version\":1,\"version\":1")),
              HasSubstr("'version' is given twice"));
  EXPECT_THAT(refusal(replaced("\"microbatches\":1", "\"batches\":1")),
              HasSubstr("shape lacks the key 'microbatches'"));
  EXPECT_THAT(refusal(replaced("\"stages\":1", "\"stages\":0")), HasSubstr("between 1 and"));
  EXPECT_THAT(refusal(replaced("\"stages\":1", "\"stages\":1.5")), HasSubstr("whole number"));
  EXPECT_THAT(refusal(replaced("\"stages\":1", "\"stages\":3,\"chunks\":2")),
              HasSubstr("no multiple of 2 chunks"));
  EXPECT_THAT(refusal(replaced("\"stages\":1", "\"stages\":2")), HasSubstr("one a rank"));
  EXPECT_THAT(refusal(replaced("\"microbatches\":1", "\"microbatches\":100000000")),
              HasSubstr("need 100000000 forwards alone"));
}

TEST(NativeJson, NamesEveryEntryThatItCannotRead) {
  const std::string text = replaced(
      R"("0F0","0B0")",
      R"("0F0", 7, "0X0", {"task":"0F1","capacity":2}, {"weights":"old","task":"0B1"}, "0B0")");
  const NativeSchedule read = parse_native_json(text);
  ASSERT_EQ(read.problems.size(), 4U);
  for (int n = 0; n < 4; ++n) {
    EXPECT_EQ(read.problems[n].rule, "token");
    EXPECT_EQ(read.problems[n].row, 0);
    EXPECT_EQ(read.problems[n].column, n + 1);
  }
  EXPECT_THAT(read.problems[1].message, HasSubstr("row 0, column 2: '0X0'"));
  EXPECT_THAT(read.problems[2].message, HasSubstr("only a push has a capacity"));
}

TEST(NativeJson, NumbersUpdates) {
  const NativeSchedule read = parse_native_json(replaced("0U0", "0U1"));
  ASSERT_EQ(read.problems.size(), 1U);
  EXPECT_EQ(read.problems[0].rule, "order");
  EXPECT_THAT(read.problems[0].message, HasSubstr("update 0 of stage 0"));
}

TEST(NativeJson, EndsOnDeeplyNestedText) {
  const std::string deep(200'000, '[');
  EXPECT_THAT(refusal(deep), HasSubstr("not JSON"));
  std::string closed = deep + std::string(200'000, ']');
  EXPECT_EQ(parse_native_json(replaced("\"0F0\"", closed)).problems.size(), 1U);
}

}  // namespace
}  // namespace unlatch::files
